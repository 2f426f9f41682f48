"""TOML files as models, in one dialect.

A mistake is one line: the file, the key, what it must be, and what was given. What a key must be is its description in
the model, which is also what the manual shows.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from weakfeedback.plaintext import one_line
from weakfeedback.validate import brief

NUMBER, WHOLE, TEXT = "must be a number", "must be an integer", "must be a text"
# by the type of the error, for keys without a description; names in braces are those of its context
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
# steps of a place that name one of several models or types, not a key: by the key before them, "" for the first
TAGS: dict[str, tuple[str, ...]] = {
    "": ("cascade", "contextual", "adaptive", "router", "allocation"),
    "compare": ("exact", "text", "number"),
    "marks": ("int", "list[int]"),
}
INDEX, QUOTED = re.compile(r"\[\d+\]"), re.compile("'([^']*)'")
KIND = re.compile(r"function-|(list|dict)\[")  # of a value that may be of several
Model = TypeVar("Model", bound=BaseModel)


class BadFile(ValueError):
    """A file that cannot be used; the message is one line."""


class Wrong(ValueError):
    """What is wrong with ``key`` of the table that is checked, where that is not the key of a single value."""

    def __init__(self, key: str, words: str) -> None:
        super().__init__(words)
        self.key = key


class Table(BaseModel):
    """A table of a file; other keys than its fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _differ(texts: list[str]) -> list[str]:
    if len(set(texts)) != len(texts):
        raise ValueError("must have no text twice")
    return texts


Text = Annotated[str, Field(pattern=r"\S", description="a text that is not empty")]
Texts = Annotated[list[str], Field(description="a list of texts"), AfterValidator(_differ)]
Amount = Annotated[float, Field(ge=0.0, allow_inf_nan=False, description="a number >= 0")]
Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False, description="a number > 0")]
Flag = Annotated[bool, Field(description="true or false")]


def whole(low: int, high: int) -> Any:
    """Return the field of an integer from ``low`` to ``high``."""
    return Field(ge=low, le=high, description=f"an integer from {low} to {high}")


class Row(NamedTuple):
    """A key of a table: where it stands, what it must be, its default, whether messages may show what was given.

    ``otherwise`` are words for a default that depends on other keys: the title of the field.
    """

    key: str
    allowed: str = ""
    default: Any = None
    shown: bool = True
    otherwise: str = ""


class Mistake(NamedTuple):
    """The field (empty for the whole), what it must be, its value, a hint, and whether messages may show the value."""

    field: str
    words: str
    value: Any
    hint: str = ""
    shown: bool = True

    def __str__(self) -> str:
        joint = " " if self.words.startswith(("must ", "is ")) else ": "
        return (
            self.field + joint + self.words + (f", got {brief(self.value)}" if self.shown else "") + self.hint
        )


def read_toml(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a file and its content; BadFile unless it is TOML."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        raise BadFile(f"{path}: does not exist") from None
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadFile(f"{path}: is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path}: is not TOML: {one_line(str(error))}") from None
    except RecursionError:
        raise BadFile(f"{path}: is nested too deeply") from None


def fitted(model: type[Model], table: Any, place: str = "") -> Model:
    """Return a table as its model; ValueError with one line, in which ``place`` stands before the key."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise ValueError(str(first_mistake(error, model, place))) from None


def first_mistake(error: ValidationError, model: type[BaseModel] | None = None, place: str = "") -> Mistake:
    """Return the first mistake, in the words of the model's descriptions where it has them."""
    found = error.errors(include_url=False)[0]
    path, context, value = path_of(found["loc"]), found.get("ctx", {}), found.get("input")
    last = path.rpartition(".")[2]
    known = {} if model is None else {"": Row("", "a table"), **{row.key: row for row in rows(model)}}
    if isinstance(context.get("error"), Wrong):
        return Mistake(
            under(under(place, path), context["error"].key), str(context["error"]), None, "", False
        )
    if found["type"] in ("union_tag_invalid", "union_tag_not_found"):
        tag, allowed = str(context["discriminator"]).strip("'"), TAGS.get(last, TAGS[""])
        value = context.get("tag")
        words = f"must be {'given, ' if value is None else ''}one of {', '.join(allowed)}"
        return Mistake(under(under(place, path), tag), words, value, near(str(value), allowed))
    if found["type"] == "extra_forbidden":
        beside = _beside(path, known)
        hint = near(last, beside) or (f"; allowed: {', '.join(beside)}" if beside else "")
        return Mistake(under(place, one_line(path, 80)), "is not known", value, hint, False)
    row = known.get(INDEX.sub("[]", path))
    if row is None:  # an entry of a list: what the list must be
        row = known.get(INDEX.sub("[]", path).removesuffix("[]"), Row(path))
    words, missing = WORDS.get(found["type"], "").format(**context), found["type"] == "missing"
    if found["type"] == "value_error":
        words = str(context["error"])
    elif row.allowed:
        words = f"must be {'given: ' if missing else ''}{row.allowed}"
    elif not words:
        words = found["msg"][:1].lower() + found["msg"][1:]
    hint = near(str(value), QUOTED.findall(context.get("expected", ""))) if row.allowed else ""
    return Mistake(under(place, path), words, value, hint, row.shown and not missing)


def path_of(location: Iterable[int | str]) -> str:
    """Return where a mistake is, without the tags of models that were chosen by one.

    >>> path_of(("router", "prices", 1)), path_of(("cascade", "compare", "number", "scale"))
    ('prices[1]', 'compare.scale')
    >>> path_of(("context", "list[constrained-float]", 3))
    'context[3]'
    """
    parts = list[str]()
    for place, part in enumerate(location):
        before = parts[-1] if parts else ""
        if isinstance(part, int):
            parts[-1:] = [f"{before}[{part}]"]
        elif not (KIND.match(part) or ((parts or not place) and part in TAGS.get(before, ()))):
            parts.append(part)
    return ".".join(parts)


def rows(model: type[BaseModel], place: str = "") -> Iterator[Row]:
    """Yield the keys of a model and of the tables in it."""
    for name, field in model.model_fields.items():
        key = under(place, field.alias or name)
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        yield Row(key, field.description or "", default, field.repr, field.title or "")
        for inner in _models_in(field.annotation):
            yield from rows(inner, f"{key}[]" if typing.get_origin(field.annotation) is list else key)


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models_in(part)]


def _beside(path: str, known: Iterable[str]) -> list[str]:
    """Return the keys of the table in which ``path`` stands."""
    table = INDEX.sub("[]", path).rpartition(".")[0]
    return [last for before, _, last in (key.rpartition(".") for key in known) if before == table and last]


def under(place: str, key: str) -> str:
    """Return a key below a place, either of which can be empty.

    >>> under("learner[0]", "name"), under("", "name"), under("stage", "[2]")
    ('learner[0].name', 'name', 'stage[2]')
    """
    return f"{place}{'.' if place and key and key[0] != '[' else ''}{key}"


def near(word: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, or nothing.

    >>> near("rooter", ["cascade", "router"])
    '; did you mean router?'
    """
    found = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
