"""One text for equal values, and the digests of such texts."""

import json
from collections.abc import Callable
from hashlib import blake2b, sha256
from typing import Any

PIECE = 50  # items of a list that are encoded at once


def _make_encoder() -> Callable[[Any], str]:
    """Return an encoder that is built once: `json.JSONEncoder` builds one per call, which is slower."""
    plain = json.JSONEncoder(ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without the C encoder
        return plain.encode
    text = json.encoder.encode_basestring_ascii
    flags = {"sort_keys": True, "skipkeys": False, "allow_nan": False}
    pieces = make(
        markers=None,
        default=plain.default,
        encoder=text,
        indent=None,
        key_separator=":",
        item_separator=",",
        **flags,
    )
    return lambda value: "".join(pieces(value, 0))


json_text = _make_encoder()  # encodes a value as ASCII JSON, keys sorted, no spaces


def json_text_in_pieces(value: Any) -> str:
    """Return the same text; other threads run while it is made, which takes long for many numbers.

    >>> json_text_in_pieces({"b": [[n] for n in range(3)], "a": None})
    '{"a":null,"b":[[0],[1],[2]]}'
    """
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        items = [f"{json_text(key)}:{json_text_in_pieces(value[key])}" for key in sorted(value)]
        return f"{{{','.join(items)}}}"
    if isinstance(value, list) and len(value) > PIECE:
        pieces = [json_text(value[start : start + PIECE])[1:-1] for start in range(0, len(value), PIECE)]
        return f"[{','.join(pieces)}]"
    return json_text(value)


def canonical(value: Any) -> str:
    """Return ASCII JSON with sorted keys, in which equal numbers look the same.

    >>> canonical({"b": 1.0, "a": [True, 1]})
    '{"a":[true,1],"b":1}'
    """
    text = json_text(value)
    whole = ".0" in text or "e+" in text  # perhaps: otherwise no float in it is whole
    return json_text(_by_value(value)) if whole else text


def _by_value(value: Any) -> Any:
    if type(value) is float and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_by_value(item) for item in value]
    if isinstance(value, dict):
        return {key: _by_value(item) for key, item in value.items()}
    return value


def digest_of(value: Any) -> str:
    """Return a 16-byte digest of the canonical JSON, which tells a repeated answer from a contradiction."""
    return blake2b(canonical(value).encode("ascii"), digest_size=16).hexdigest()


def hashed(*words: str) -> str:
    """Return the SHA-256 of words, in 64 hexadecimal digits.

    >>> hashed("a", "b")[:12]
    '0eab8a0a3380'
    """
    return sha256("|".join(words).encode()).hexdigest()
