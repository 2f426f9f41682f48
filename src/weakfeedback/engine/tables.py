"""Parquet files that detect damage: every page has a checksum, and the whole file has a digest.

A digest covers the metadata and the values of every column. It detects accidents, not forgery: a file that is changed
on purpose can be given a new digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.plaintext import one_line

DIGEST = "digest"
MOST = 10**9  # maximum number of rows: a small file can claim any number of them


class Damaged(ValueError):
    """A file is not what was written; the message says how."""


def writer_of(table: Any, words: Mapping[str, str]) -> Callable[[Path], None]:
    """Return a function that writes an Arrow table into a file, with metadata and a digest of both."""
    import pyarrow.parquet as pq

    known = {**words, DIGEST: digest_of(table, words)}
    table = table.replace_schema_metadata(known)

    def write(part: Path) -> None:
        with open(part, "wb") as stream:  # Arrow would treat a path with a colon as a URI
            pq.write_table(table, stream, write_page_checksum=True)

    return write


def read_table(path: Path) -> tuple[Any, dict[str, str]]:
    """Return the table and its metadata; ``Damaged`` if they are not what was written, OSError if unreadable."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = path.read_bytes()
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        if file.metadata.num_rows > MOST:
            raise Damaged("it claims too many rows")
        table = file.read()
        metadata = table.schema.metadata or {}
        words = {name.decode(): value.decode() for name, value in metadata.items() if name != b"ARROW:schema"}
    except Exception as error:  # Arrow raises many kinds of errors, OSError among them
        raise Damaged(one_line(str(error), 120) or type(error).__name__) from None
    written = words.pop(DIGEST, None)
    if written is None:
        raise Damaged("it has no digest")
    try:
        right = written == digest_of(table, words)
    except Exception as error:
        raise Damaged(one_line(str(error), 120) or type(error).__name__) from None
    if not right:
        raise Damaged("its digest does not match")
    return table, words


def digest_of(table: Any, words: Mapping[str, str]) -> str:
    """Return a digest of the values of a table, whatever their encoding, and of its metadata."""
    hasher = hashlib.sha256(json.dumps(dict(sorted(words.items()))).encode())
    for name in table.column_names:
        kind, values = _values(table[name])
        hasher.update(json.dumps([name, kind, table.num_rows]).encode())
        hasher.update(values)
    return hasher.hexdigest()


def _values(column: Any) -> tuple[str, Any]:
    """Return the type of a column, and its values as bytes."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):  # by name: the order of unused categories may change in a file
        values = column.to_pandas().array
        names = [str(name) for name in values.categories]
        used = sorted({names[code] for code in np.unique(values.codes) if code >= 0})
        rank = {name: k for k, name in enumerate(used)}
        place = np.array([*(rank.get(name, -1) for name in names), -1], dtype=np.int32)
        return f"category {used}", np.ascontiguousarray(place[values.codes])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return str(kind), np.ascontiguousarray(column.to_numpy())
    return str(kind), repr(column.to_pylist()).encode()
