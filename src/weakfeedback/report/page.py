"""One self-contained page over some experiments, with a figure of each beside it."""

from __future__ import annotations

import base64
import functools
import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.files import write_atomically
from weakfeedback.report import tables

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results

VERDICTS = {
    "reproduced": "reproduced",
    "with-reading": "reproduced with a reading",
    "not-reproduced": "not reproduced",
    "inconclusive": "inconclusive",
    "skipped": "skipped (no data)",
}


@dataclass(frozen=True)
class Claim:
    """A claim, the test behind it and what came out; ``verdict`` is a key of ``VERDICTS``."""

    words: str
    verdict: str
    test: str = ""
    number: int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}, got {self.verdict!r}")


@dataclass(frozen=True)
class Section:
    """An experiment on the page.

    Attributes
    ----------
    key : str
        Names the figures and the anchor: letters, digits, dots, hyphens and underscores.
    title, text : str
        Heading, and a paragraph under it.
    results : Results
        ``results.about`` may hold description (pairs of words on the problem), command, file (the experiment file's
        text), versions and instance; horizon and seed it always holds.
    claims : claims with their verdicts
    notes : str
        Deviations from the printed algorithm with their reasons, and other remarks.
    """

    key: str
    title: str
    results: Results
    text: str = ""
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    measure: str = "regret"
    links: Sequence[tuple[str, str]] = field(default=())

    def __post_init__(self) -> None:
        if not self.key or self.key[0] in "._" or not all(c.isalnum() or c in "-_." for c in self.key):
            raise ValueError(f"key must be letters, digits, hyphens, dots and underscores, got {self.key!r}")


def write_report(folder: Path, title: str, sections: Sequence[Section], text: str = "") -> list[Path]:
    """Write index.html and the figures into ``folder``, each file in one piece, the page last.

    Return the paths, the page first.
    """
    if not sections:
        raise ValueError("sections must have at least one experiment, got none")
    folder.mkdir(parents=True, exist_ok=True)
    figures, pictures = [], {}
    for section in sections:
        for ending, content in draw(section).items():
            path = folder / f"{section.key}.{ending}"
            _write(path, content)
            figures.append(path)
            if ending == "svg":
                pictures[section.key] = base64.b64encode(content).decode()
    page = folder / "index.html"
    _write(page, render(title, sections, pictures, text).encode())
    return [page, *figures]


def draw(section: Section) -> dict[str, bytes]:
    """Return the figure of an experiment as PNG and SVG; the same results give the same bytes."""
    import io

    import matplotlib as mpl
    from matplotlib.figure import Figure

    from weakfeedback.report.figures import plot_curves

    made = {}
    with mpl.rc_context({"svg.hashsalt": "weakfeedback", "font.size": 10}):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        plot_curves(section.results, figure.subplots(), section.measure)
        for ending, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            stream = io.BytesIO()
            figure.savefig(stream, format=ending, dpi=160, metadata=metadata)
            made[ending] = stream.getvalue()
    return made


def render(title: str, sections: Sequence[Section], pictures: dict[str, str], text: str = "") -> str:
    """Return the page; ``pictures`` holds the SVG of each section in base 64, for print."""
    from plotly.offline import get_plotlyjs

    claims = [claim for section in sections for claim in section.claims]
    counts = Counter(claim.verdict for claim in claims)
    summary = [(word, VERDICTS[word], counts[word]) for word in VERDICTS if counts[word]]
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            text=text,
            summary=summary,
            claims=len(claims),
            verdicts=VERDICTS,
            sections=[_view(section, pictures.get(section.key, "")) for section in sections],
            plotly=get_plotlyjs(),
        )
    )


def _view(section: Section, picture: str) -> dict[str, Any]:
    """What the template shows of a section."""
    from weakfeedback.report.interactive import curves

    absent = {"description": [], "command": "", "file": "", "versions": {}, "instance": ""}
    final = tables.final_rows(section.results, section.measure)
    return {
        "section": section,
        "about": absent | section.results.about,
        "final": final,
        "comparisons": tables.comparison_rows(section.results, section.measure),
        "replications": final[0]["replications"],
        "best": min(final, key=lambda row: row["mean"]),
        "interpreted": {k: v for k, v in section.results.compiled.items() if v is not True},
        "figure": _script_json(curves(section.results, section.measure)),
        "picture": picture,
    }


@functools.cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weakfeedback.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=tables.number, p_value=tables.p_value, sortable=_sortable)
    return environment


def _sortable(value: float) -> str:
    """A number as a sorting script reads it; nothing when there is none."""
    return repr(float(value)) if math.isfinite(value) else ""


def _script_json(value: Any) -> str:
    """JSON that can stand inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, lambda part: part.write_bytes(content))
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(0o666 & ~umask)  # temporary files are private; a page is made to be shown
