"""Words for what does not fit a model: which field, what it must be; without the library's own terms and tags.

And for times.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

LAST = 253_402_300_799  # the last second that can be written, in the year 9999
KINDS = ("cascade", "contextual", "adaptive", "router", "allocation")
TAGGED = {"compare": ("exact", "text", "number")}  # fields that hold one of several models, by their types
NUMBER, WHOLE, TEXT = "must be a number", "must be an integer", "must be a text"
# by the type of the error; names in braces are those of its context
WORDS = {
    "missing": "must be given",
    "extra_forbidden": "is not known",
    "greater_than_equal": "must be >= {ge:g}",
    "greater_than": "must be > {gt:g}",
    "less_than_equal": "must be <= {le:g}",
    "less_than": "must be < {lt:g}",
    "finite_number": "must be a finite number",
    "float_type": NUMBER,
    "float_parsing": NUMBER,
    "int_type": WHOLE,
    "int_parsing": WHOLE,
    "int_from_float": WHOLE,
    "string_type": TEXT,
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "bool_type": "must be true or false",
    "too_short": "must have at least {min_length} entries, got {actual_length}",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
    "none_required": "must be null",
}


class Mistake(NamedTuple):
    """The field (empty for the whole), what it must be, its value, and whether there is no such field."""

    field: str
    words: str
    value: Any
    unknown: bool = False


def first_mistake(error: ValidationError, known: Sequence[str] = ()) -> Mistake:
    """Return the first mistake.

    ``known`` are the fields that there are, for a field that is not known.
    """
    found = error.errors(include_url=False)[0]
    path, context = path_of(found["loc"]), found.get("ctx", {})
    if found["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tag = str(context["discriminator"]).strip("'")
        allowed = TAGGED.get(path.rpartition(".")[2], KINDS)
        value = context.get("tag")
        given = "must be given, one of" if value is None else "must be one of"
        words = f"{given} {', '.join(allowed)}{near(str(value), allowed)}"
        return Mistake(f"{path}.{tag}" if path else tag, words, value)
    words = WORDS.get(found["type"], "")
    if words:
        words = words.format(**context)
    elif found["type"] == "value_error":
        words = str(context["error"])
    else:
        words = found["msg"][:1].lower() + found["msg"][1:]
    unknown = found["type"] == "extra_forbidden"
    if unknown:
        hint = near(path.rpartition(".")[2], known)
        words += hint or (f"; allowed: {', '.join(known)}" if known else "")
    return Mistake(path, words, found.get("input"), unknown)


def path_of(location: Iterable[int | str]) -> str:
    """Return where a mistake is, without the tags of models that were chosen by one.

    >>> path_of(("router", "prices", 1)), path_of(("cascade", "compare", "number", "scale"))
    ('prices[1]', 'compare.scale')
    """
    parts = list[str]()
    for place, part in enumerate(location):
        if isinstance(part, int):
            parts.append(f"{parts.pop() if parts else ''}[{part}]")
        elif (place == 0 and part in KINDS) or part.startswith("function-"):
            continue
        elif not (parts and part in TAGGED.get(parts[-1], ())):
            parts.append(part)
    return ".".join(parts)


def near(word: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, or nothing.

    >>> near("rooter", KINDS)
    '; did you mean router?'
    """
    found = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def unlike(wanted: Mapping[str, Any], known: Mapping[str, Any], fields: Iterable[str]) -> str:
    """Return what differs between two configurations, every field of it.

    >>> unlike({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 4}, "abc")
    'b = 2 (it has 3), c = 3 (it has 4)'
    """
    told = [
        f"{field} = {wanted[field]!r:.60} (it has {known.get(field)!r:.60})"
        for field in fields
        if wanted[field] != known.get(field)
    ]
    return ", ".join(told)


def moment(at: int) -> str:
    """Return a time, microseconds since 1970, in the format of RFC 3339."""
    return _second(min(at // 1_000_000, LAST))


@functools.lru_cache(1024)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
