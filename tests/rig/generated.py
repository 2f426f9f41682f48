"""A client made of nothing but an OpenAPI document, which finds answers that are not as the document says."""

import jsonschema


def operations_of(made):
    return [(path, method, one) for path, methods in made["paths"].items() for method, one in methods.items()]


def validator(made, schema):
    return jsonschema.Draft202012Validator({**schema, "components": made["components"]})


def check(made, one, reply):
    """Check that a reply is as an operation describes it; return its status and what it holds."""
    told = one["responses"][str(reply.status)]  # only documented statuses
    kind = reply.headers["content-type"].partition(";")[0]
    if "json" in kind:
        validator(made, told["content"][kind]["schema"]).validate(reply.data)
    else:
        assert kind in told["content"]
    return reply.status, reply.data if "json" in kind else reply.body


class Generated:
    """A client made of nothing but the document: one method for each operation; answers must fit their schemas."""

    def __init__(self, made, call):
        self._made, self._call = made, call
        for path, method, one in operations_of(made):
            setattr(self, one["operationId"], self._method(path, method, one))

    def _method(self, path, method, one):
        def header(name):
            return name.lower().replace("-", "_")

        async def invoke(body=None, **given):
            places = {p["name"]: p["in"] for p in one["parameters"]}
            assert set(given) <= {header(name) if places[name] == "header" else name for name in places}
            filled = path.format(**{name: given[name] for name, place in places.items() if place == "path"})
            query = "&".join(
                f"{k}={given[k]}" for k, place in places.items() if place == "query" and k in given
            )
            headers = {
                header(k): given[header(k)] for k in places if places[k] == "header" and header(k) in given
            }
            if body is not None:
                schema = one["requestBody"]["content"]["application/json"]["schema"]
                validator(self._made, schema).validate(body)
            reply = await self._call(method.upper(), filled + ("?" + query if query else ""), body, **headers)
            return check(self._made, one, reply)

        return invoke
