"""Events, and the text format in which a store keeps them.

The body of an event is stored as JSON, with a seal as its last key::

    {"stage":1,"~sum":"5a0f3f9c1b7d2e64"}

The seal is an 8-byte BLAKE2b checksum over the learner, the other columns of the row and the text of the body
without the seal. SQLite has no checksums on its pages, so the seal is what detects changed bytes and swapped
rows. "~" sorts after every letter: the keys stay sorted, and the seal is added or removed by slicing the text.
"""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from math import isfinite
from typing import Any, NamedTuple

from weakfeedback.canonical import json_text

OPENS = ("decide", "begin")  # a decision begins with an event of one of these kinds
ENDS = ("feedback", "cancel", "expire")  # a decision has at most one event of all these kinds together
LARGEST = 2**63 - 1  # the largest BIGINT

# learner, seq, at, kind, decision, key, sealed body: a row of the table "event"
Row = tuple[int, int, int, str, int | None, str | None, str]


class JournalError(ValueError):
    """The store is damaged, foreign, or does not match the request."""


class StoreDamaged(JournalError):
    """The database itself reports damage: no learner of the store can be trusted."""


class SecondEnd(JournalError):
    """A decision that has ended cannot end again."""


class SecondKey(JournalError):
    """A key that is taken cannot be used for another event."""


class OwnedElsewhere(RuntimeError):
    """The store is in use by another owner."""


class StoreUnavailable(OSError):
    """The store cannot be read or written now; nothing was changed, and the call can be repeated.

    The arguments are ``errno`` and one line of text.
    """

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


class OwnershipLost(StoreUnavailable):
    """This process no longer owns the store: discard what is in memory, reopen the store and read it again."""


class Event(NamedTuple):
    """One thing that happened to a learner.

    Arguments:
        seq: 0, 1, 2, ... within the learner, without gaps.
        at: microseconds since 1970; never decreases within a learner.
        kind: what happened, such as ``"decide"``.
        decision: the number of the decision it belongs to.
        key: the key by which a repeated request is recognised.
        body: plain JSON data; the keys are strings.
    """

    seq: int
    at: int
    kind: str
    decision: int | None
    key: str | None
    body: dict[str, Any]


def dump(body: dict[str, Any], encode: Callable[[Any], str] = json_text) -> str:
    """Return ASCII JSON, keys sorted, no spaces, floats with enough digits to restore them exactly."""
    if not isinstance(body, dict):
        raise TypeError(f"a body must be a dict, got {type(body).__name__}")
    return encode(body)


def parse(text: str) -> dict[str, Any]:
    """Parse the output of ``dump``; JournalError for anything but JSON with unique keys and finite numbers."""
    try:
        body = _decoder.decode(text)
    except RecursionError:
        raise JournalError("the body is nested too deeply") from None
    except (ValueError, TypeError) as problem:
        raise JournalError(f"the body cannot be read: {problem}") from None
    if not isinstance(body, dict):
        raise JournalError("the body is not a JSON object")
    return body


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return body


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_constant)

_SEAL = '"~sum":"'
_SEALED = len(_SEAL) + 16 + 2  # the seal's key, its digits, a quote and the brace


def seal(body: dict[str, Any], *columns: object, encode: Callable[[Any], str] = json_text) -> str:
    """Return the text of ``body`` with a checksum over it and ``columns``."""
    if body and max(body) >= "~":
        raise ValueError(f"the keys of a body must sort before '~', got {max(body)!r}")
    text = dump(body, encode)
    comma = "," if body else ""
    return f'{text[:-1]}{comma}{_SEAL}{checksum(*columns, text)}"}}'


def unseal(text: str, *columns: object) -> dict[str, Any]:
    """Return the body in ``text``; JournalError if the checksum is missing or wrong."""
    cut = len(text) - _SEALED
    if cut < 1 or not text.startswith(_SEAL, cut) or text[-2:] != '"}':
        raise JournalError("the body has no seal")
    plain = text[: cut if cut == 1 else cut - 1] + "}"
    if text != f'{plain[:-1]}{"," if cut > 1 else ""}{_SEAL}{checksum(*columns, plain)}"}}':
        raise JournalError("the checksum is wrong")
    return parse(plain)


def checksum(*columns: object) -> str:
    """Return the checksum of the columns of a row, 16 hexadecimal digits."""
    content = "\0".join(map(str, columns))
    return blake2b(content.encode(), digest_size=8).hexdigest()


def row_of(learner: int, event: Event) -> Row:
    """Return the row that stores ``event``; ValueError or TypeError if it could not be stored or read back."""
    return make_row(learner, *event)


def make_row(
    learner: int, seq: int, at: int, kind: str, decision: int | None, key: str | None, body: dict[str, Any]
) -> Row:
    """Return the row of an event given as separate fields; see ``row_of``."""
    for name, number in (("seq", seq), ("at", at), ("decision", 0 if decision is None else decision)):
        if type(number) is not int or not 0 <= number <= LARGEST:
            raise ValueError(f"{name} must be an integer between 0 and 2**63 - 1, got {number!r}")
    if not isinstance(kind, str) or not kind or "\0" in kind:
        raise ValueError(f"kind must be a text without NUL that is not empty, got {kind!r}")
    if key is not None and (not isinstance(key, str) or "\0" in key):
        raise ValueError(f"key must be None or a text without NUL, got {key!r}")
    text = seal(body, learner, seq, at, kind, decision, "-" if key is None else "+" + key)
    return learner, seq, at, kind, decision, key, text


def event_of(row: Sequence[Any]) -> Event:
    """Return the event of a stored row, whose texts may be bytes; JournalError if anything in it was changed."""
    learner, seq, at, kind, decision, key, text = row
    try:
        kind, key, text = _text(kind), None if key is None else _text(key), _text(text)
    except ValueError:
        raise JournalError("a text is not UTF-8") from None
    if type(seq) is not int or type(at) is not int or (decision is not None and type(decision) is not int):
        raise JournalError("a number is not an integer")
    body = unseal(text, learner, seq, at, kind, decision, "-" if key is None else "+" + key)
    return Event(seq, at, kind, decision, key, body)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise ValueError
    return value
