"""One self-contained page on some experiments, with a figure of each as separate files."""

from __future__ import annotations

import base64
import errno
import functools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weakfeedback.engine.results import Results
from weakfeedback.figures import LIMIT, MOST_POINTS, curve_figure
from weakfeedback.plaintext import visible
from weakfeedback.report import tables
from weakfeedback.report.formulas import set_formulas
from weakfeedback.report.interactive import for_browser
from weakfeedback.report.pictures import write_file, write_pictures
from weakfeedback.report.sources import Sources

VERDICTS = {
    "reproduced": "reproduced",
    "with-reading": "reproduced as interpreted",
    "not-reproduced": "not reproduced",
    "inconclusive": "inconclusive",
    "skipped": "skipped (no data)",
}


# The key of a figure, a figure as ``weakfeedback.figures`` makes them, and the words under it.
Drawn = tuple[str, dict[str, Any], str]


@dataclass(frozen=True)
class Section:
    """An experiment on the page.

    Attributes
    ----------
    key : str
        Names the figures and the anchor: letters, digits, dots, hyphens and underscores.
    title : str
        The heading.
    results : Results
        ``results.about`` always has horizon and seed. It may have description (pairs of words on the problem), command,
        file (the experiment file's text), versions and instance.
    notes : str
        Deviations from the printed algorithm with their reasons, and other remarks.
    measures : tuple of str
        What is drawn, one figure each; the tables show the first.
    """

    key: str
    title: str
    results: Results
    notes: Sequence[str] = ()
    measures: Sequence[str] = ("regret",)

    def __post_init__(self) -> None:
        if not self.key or self.key[0] in "._" or not all(c.isalnum() or c in "-_." for c in self.key):
            raise ValueError(f"key must be letters, digits, hyphens, dots and underscores, got {self.key!r}")


class Gallery:
    """The figures of a page: each is written to a file, and also given to the page for the browser.

    A standalone page embeds the pictures, for readers without scripts; others link to them.
    """

    def __init__(self, folder: Path, alone: bool = True) -> None:
        self.folder, self.alone = folder, alone
        self.paths: list[Path] = []
        self.figures: list[dict[str, Any]] = []

    def add(self, key: str, figure: dict[str, Any], words: str) -> dict[str, Any]:
        """Add a figure, and return what the template needs to show it."""
        paths, svg = write_pictures(self.folder, key, figure)
        self.paths += paths
        picture = (
            f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}" if self.alone else f"{key}.svg"
        )
        view = {"key": key, "words": words, "picture": picture, "of": figure}
        view["json"] = script_json(for_browser(figure))
        self.figures.append(view)
        return view


def thin(figures: Iterable[dict[str, Any]], points: int) -> None:
    """Thin each curve to the number of points that a browser handles well."""
    for figure in figures:
        figure["json"] = script_json(for_browser(figure["of"], points))


def write_report(
    folder: Path, title: str, sections: Sequence[Section], leading: Sequence[Drawn] = ()
) -> list[Path]:
    """Write index.html and the figures into ``folder``, each file in one piece, the page last.

    ``leading`` are figures above all sections. Return the paths, the page first.
    """
    if not sections:
        raise ValueError("sections must have at least one experiment, got none")
    gallery = Gallery(page_folder(folder))
    above = [gallery.add(*one) for one in leading]
    views = [section_view(section, gallery) for section in sections]
    sources = Sources()
    for view in views:
        view["code"] = sources.stored(view["about"])
    content = render("page.html.j2", title=title, figures=above, sections=views, sources=sources.views())
    return [write_page(folder, content), *gallery.paths]


def page_folder(folder: Path) -> Path:
    """Return the folder of a page, created if needed; a link to elsewhere is refused."""
    if folder.is_symlink():
        raise OSError(errno.ELOOP, "is a link to another place: remove it", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_page(folder: Path, content: str, name: str = "index.html") -> Path:
    """Write a page; index.html is the last file to be written."""
    page = folder / name
    write_file(page, content.encode())
    return page


def render(template: str, **words: Any) -> str:
    """Return a page made from a template."""
    found: str = _environment().get_template(template).render(**words)
    return found


def section_view(section: Section, gallery: Gallery, points: int = MOST_POINTS) -> dict[str, Any]:
    """Return what the templates show of an experiment."""
    absent = {"description": [], "command": "", "file": "", "versions": {}, "instance": "", "method": ""}
    measure = section.measures[0]
    final = tables.final_rows(section.results, measure)
    figures = []
    for k, drawn in enumerate(section.measures):
        words = f"Mean {drawn} over rounds, with 95 % bands"
        figure = curve_figure(section.results, drawn, points)
        if figure["series"][-1]["name"] == LIMIT:
            words += "; the dashed line is the least that a consistent policy can have in the long run"
        key = section.key if k == 0 else f"{section.key}-{drawn.replace('_', '-')}"
        figures.append(gallery.add(key, figure, words))
    return {
        "section": section,
        "measure": measure,
        "about": absent | section.results.about,
        "final": final,
        "comparisons": tables.comparison_rows(section.results, measure),
        "replications": final[0]["replications"],
        "best": min(final, key=lambda row: row["mean"]),
        "interpreted": _find_interpreted(section.results),
        "figures": figures,
    }


def _find_interpreted(results: Results) -> dict[str, str]:
    """Return, by policy, why it ran in the interpreter; skipping rounds by events does not count."""
    if results.about.get("method") == "events":
        return {}
    return results.reasons


@functools.cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("weakfeedback.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=tables.number,
        p_value=tables.p_value,
        cell=tables.cell,
        sortable=_format_sortable,
        formulas=lambda words: set_formulas(visible(words)),
    )
    return environment


def _clean_text(value: Any) -> Any:
    """Remove control characters from text; our own markup stays unchanged."""
    return visible(value, keep="\n\t") if type(value) is str else value


def _format_sortable(value: Any) -> str:
    """Return a number as the sorting script reads it; "" if there is none."""
    return repr(float(value)) if isinstance(value, (int, float)) and math.isfinite(value) else ""


def script_json(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
