"""Figures as PNG and SVG files. A file records its inputs, so it is drawn again only if they changed."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from weakfeedback.canonical import hashed
from weakfeedback.files import write_atomically

_NUMBER = re.compile(rb"-?\d+\.\d+")


def write_pictures(folder: Path, key: str, figure: dict[str, Any]) -> tuple[list[Path], bytes]:
    """Write ``key``.png and ``key``.svg, unless they exist already; return the paths and the SVG."""
    digest = f"made of {hashed(json.dumps(figure, sort_keys=True) + _hash_drawing_code())[:24]}"
    paths = [folder / f"{key}.png", folder / f"{key}.svg"]
    try:
        found = [path.read_bytes() for path in paths]
        if all(digest.encode() in content for content in found):
            return paths, found[1]
    except OSError:
        pass
    made = draw(figure, digest)
    for path, content in zip(paths, made):
        write_file(path, content)
    return paths, made[1]


def draw(figure: dict[str, Any], digest: str = "") -> tuple[bytes, bytes]:
    """Return the figure as PNG and SVG; the same figure gives the same bytes."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    from weakfeedback.figures import plot_figure

    made = []
    # text stays text in the SVG: smaller, and found by a search
    looks: Any = {
        "svg.hashsalt": "weakfeedback",
        "svg.fonttype": "none",
        "text.usetex": False,
        "font.size": 10,
        "font.family": "sans-serif",
    }
    with mpl.rc_context(looks):
        canvas = Figure(figsize=(6.4, 4.0), layout="constrained")
        plot_figure(figure, canvas.subplots())
        for ending, without in (("png", "Software"), ("svg", "Date")):
            stream = io.BytesIO()
            metadata: dict[str, Any] = {without: None, "Description": digest}
            canvas.savefig(stream, format=ending, dpi=160, metadata=metadata)
            made.append(stream.getvalue())
    return made[0], _round_paths(made[1])


def _round_paths(svg: bytes) -> bytes:
    """Return the same SVG with paths rounded to a tenth of a point, which is invisible and halves the size."""
    return re.sub(
        rb'(?<= d=")[^"]+', lambda path: _NUMBER.sub(_round_to_tenth, path.group()).replace(b" \n", b""), svg
    )


def _round_to_tenth(number: re.Match[bytes]) -> bytes:
    return f"{float(number.group()):.1f}".removesuffix(".0").encode()


@functools.cache
def _hash_drawing_code() -> str:
    """Return a digest of the code that draws."""
    import matplotlib as mpl

    from weakfeedback import figures

    code = b"".join(Path(path).read_bytes() for path in (figures.__file__, __file__))
    return hashlib.sha256(code + mpl.__version__.encode()).hexdigest()


def write_file(path: Path, content: bytes) -> None:
    """Write a file in one piece, with the permissions of the user's other files."""
    write_atomically(path, lambda part: part.write_bytes(content))
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)  # temporary files are private, but a page is meant to be shown
