"""Write ``docs/api/service.md`` from the OpenAPI document: ``python docs/service_api.py``. A test compares them."""

import json
from pathlib import Path

from weakfeedback.serve.api import OPERATIONS
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.models import CHAT_PROBLEMS, PROBLEMS
from weakfeedback.serve.openapi import document, sections
from weakfeedback.serve.page.routes import page_of

PAGE = Path(__file__).parent / "api" / "service.md"
HEAD = """# The service's API

Made from the document that a running service has at `/openapi.json`; `/docs` there shows the same with all fields. How
to use it: [the decision service](../howto/service.md). In Python: `weakfeedback.client`, below.

JSON goes in and out. Bodies need `Content-Type: application/json`, and unknown fields are refused. Errors are problems
as RFC 9457 has them (`application/problem+json`): `type`, `title`, `status`, `detail` in one line, `code`, and where it
helps `field`. The routes of [the proxy](../howto/proxy.md) are there if a learner has upstream models; their requests,
answers and errors have OpenAI's form.
"""
LIMITED = """Numbers are finite, and within these limits. They are also in `/openapi.json`: `info.x-limits`, and
`maximum` or `maxLength` of the fields. A learner made by an older version may lie beyond them: it is read with the
nearest allowed number, and a warning in the log names it."""
CLIENT = """
## The Python client

```{eval-rst}
.. automodule:: weakfeedback.client
   :members:
```
"""


class Nothing:
    """A service that nobody asks."""

    commits = 0


def written() -> str:
    """The page."""
    added = page_of(Nothing(), Auth())["operations"]  # type: ignore[arg-type]
    made = document([*OPERATIONS, *added], chat=True)
    lines = [HEAD, "| | | needs |", "|---|---|---|"]
    shown = sections(made)
    for one in shown:
        needs = one["needs"].removeprefix("Needs ").removesuffix(".").removeprefix("a token of scope ")
        lines.append(f"| `{one['method']} {one['path']}` | {one['summary']} | {needs} |")
    for one in shown:
        if one["sent"] is None and one["told"] is None:
            continue
        lines += ["", f"## {one['summary'].rstrip('.')}", "", f"`{one['method']} {one['path']}`", ""]
        for example in (one["sent"], one["told"]):
            if example:
                lines += ["```json", json.dumps(example), "```", ""]
        lines += _fields(one["fields"])
    lines += ["", "## Limits", "", LIMITED, "", "| | | beyond it |", "|---|---|---|"]
    for one in made["info"]["x-limits"].values():
        lines.append(f"| {one['what']} | {one['text']} | {PROBLEMS[one['code']][0]} `{one['code']}` |")
    lines += ["", "## Problems", "", "| code | status | |", "|---|---|---|"]
    lines += [
        f"| `{code}` | {status} | {title} |"
        for code, (status, title) in sorted({**PROBLEMS, **CHAT_PROBLEMS}.items())
    ]
    return "\n".join(lines) + "\n" + CLIENT


def _fields(fields: list[dict]) -> list[str]:
    if not fields:
        return []
    several = len({field["of"] for field in fields}) > 1
    rows = []
    for field in fields:
        of, kind = field["of"] if several else "", field["type"].replace("|", "/")
        rows.append(f"| {of} | `{field['name']}` | {kind} | {'needed' if field['required'] else ''} |")
    return ["| | field | type | |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    PAGE.write_text(written())
