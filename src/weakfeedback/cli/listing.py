"""Listings and results of runs, as plain data and as text for a terminal."""

from __future__ import annotations

import fnmatch
import inspect
import itertools
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.plaintext import counted, visible
from weakfeedback.settings.catalog import SETTINGS
from weakfeedback.settings.setting import Setting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from weakfeedback.engine.results import Results
    from weakfeedback.experiments.usersweep import Swept


KINDS = ("settings", "policies", "instances", "experiments")
# columns for the name of an instance, with its weak dominance or alone; most are shorter
SHORT, LONG = (15, 18)
NUMBERS = ("final regret", "95 % interval")
UNBROKEN = (*NUMBERS, "claim", "verdict")  # columns whose cells stay on one line
WIDTH = 80  # columns, unless the terminal is wider


class NothingFound(ValueError):
    """Nothing has this name; the message is one line."""


def everything(
    kinds: Iterable[str] = KINDS, pattern: str = "", setting: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """Return settings, policies, instances and experiments, of one setting or with names that match a pattern."""
    found = {kind: _rows_of(kind, pattern, setting) for kind in kinds}
    if pattern and not any(found.values()):
        where = f" of setting {setting}" if setting else ""
        raise NothingFound(f"no {' or '.join(found)}{where} called {pattern!r}; * stands for any letters")
    return found


def _rows_of(kind: str, pattern: str, setting: str) -> list[dict[str, Any]]:
    if kind == "experiments":
        return [row for row in _experiments(pattern) if setting in ("", row["setting"])]
    settings = [known for known in SETTINGS.values() if setting in ("", known.name)]
    if kind == "settings":
        rows = [{"name": known.name, "summary": known.summary} for known in settings]
    elif kind == "policies":
        rows = [row for known in settings for row in _policies(known)]
    else:
        return [row for known in settings for row in _instances(known, pattern)]
    return [row for row in rows if _matches(row["name"], pattern)]


def _matches(name: str, pattern: str) -> bool:
    return not pattern or fnmatch.fnmatchcase(name.lower(), pattern.lower())


def _policies(setting: Setting) -> list[dict[str, Any]]:
    rows = []
    for name, cls in setting.policies.items():
        parameters = inspect.signature(cls).parameters
        options = [parameters[option] for option in setting.option_names(name)]
        rows.append(
            {
                "setting": setting.name,
                "name": name,
                "summary": (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " "),
                "options": {
                    option.name: None if option.default is option.empty else option.default
                    for option in options
                },
                "required": [option.name for option in options if option.default is option.empty],
                "delay_safe": bool(getattr(cls, "delay_safe", False)),
            }
        )
    return rows


def _instances(setting: Setting, pattern: str) -> list[dict[str, Any]]:
    rows = []
    for name in setting.instance_names():
        if not _matches(name, pattern):
            continue
        known = setting.describe(name)
        missing = known.unavailable()
        row = {"setting": setting.name, "name": name, "summary": known.summary, "data": known.data}
        row |= {"available": not missing, "unavailable": missing}
        problem = setting.load(name) if setting.listed and not missing else None
        row |= {word: getattr(problem, word, None) for word in ("weak_dominance", "xi", "optimal_arm")}
        rows.append(row)
    return rows


def _experiments(pattern: str) -> list[dict[str, Any]]:
    from weakfeedback.reproduce.registry import UnknownExperiment, choose

    try:
        chosen = choose([pattern] if pattern else []).experiments
    except UnknownExperiment as error:
        raise NothingFound(str(error)) from None
    words = ("id", "title", "place", "setting", "instance", "needs", "horizon", "replications")
    return [{word: getattr(known, word) for word in words} for known in chosen]


MORE = """
  weakfeedback list policies --setting cascade      with their options
  weakfeedback list instances                       named problems
  weakfeedback list experiments 'ch2-*'             of the thesis"""


def overview() -> Iterator[str]:
    """Yield the settings and the policies, one line each, and what else can be listed."""
    yield "Settings"
    width = max(map(len, SETTINGS))
    for setting in SETTINGS.values():
        yield from _wrap_words(f"  {setting.name:<{width}}  ", setting.summary.partition(" (")[0])
    yield from _policies_in_short()
    yield "\nMore"
    yield from MORE.splitlines()[1:]


def _policies_in_short() -> Iterator[str]:
    width = max(len(name) for setting in SETTINGS.values() for name in setting.policies)
    for setting in SETTINGS.values():
        yield f"\nPolicies: {setting.name}"
        for name in setting.policies:
            yield from _wrap_words(f"  {name:<{width}}  ", setting.words_of(name))


def in_words(found: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield what ``everything`` found as lines for a terminal; nothing is cut off."""
    for kind, rows in found.items():
        for heading, group in itertools.groupby(rows, key=lambda row: row.get("setting", "")):
            some = list(group)
            lengths = [len(row.get("name") or row["id"]) for row in some]
            judged = any(row.get("weak_dominance") is not None for row in some)
            most = (SHORT if judged else LONG) if kind == "instances" else max(lengths)
            width = max((length for length in lengths if length <= most), default=most)
            yield f"{kind.capitalize()}: {heading}" if heading else kind.capitalize()
            if judged:
                yield f"  {'':<{width}}  weak dominance, ξ, optimal arm"
            for row in some:
                yield from _LINES[kind](row, width)
            yield ""
        yield from _list_missing(rows)


def _named_lines(row: dict[str, Any], width: int) -> Iterator[str]:
    yield from _wrap_words(f"  {row['name']:<{width}}  ", row["summary"])
    if row.get("options"):
        yield from _wrap_words(f"{'':<{width + 4}}options: ", _options(row))


def _instance_lines(row: dict[str, Any], width: int) -> Iterator[str]:
    name = row["name"]
    if len(name) > width:  # on a line of its own, so that the others stay in columns
        yield f"  {name}"
        name = ""
    yield from _wrap_words(f"  {name:<{width}}  {_dominance(row)}", row["summary"])


def _experiment_lines(row: dict[str, Any], width: int) -> Iterator[str]:
    place = f"({row['place']})" if row["place"] else ""
    if width > WIDTH // 3:
        yield f"  {row['id']}"
        yield from _wrap_words("      ", f"{row['title']} {place}")
    else:
        yield from _wrap_words(f"  {row['id']:<{width}}  ", f"{row['title']} {place}")


def plan_lines(row: dict[str, Any], cost: str) -> Iterator[str]:
    """What an experiment would take, and what it compares."""
    yield f"  {row['id']}  ({counted(row['replications'], 'replication')}, {cost})"
    place = f" ({row['place']})" if row["place"] else ""
    data = f"; needs {row['needs']}, else {row['stand_in'] or 'skipped'}" if row["needs"] else ""
    yield from _wrap_words("      ", f"{row['title']}{place}{data}")


_LINES: dict[str, Callable[[dict[str, Any], int], Iterator[str]]] = {
    "settings": _named_lines,
    "policies": _named_lines,
    "instances": _instance_lines,
    "experiments": _experiment_lines,
}


def _wrap_words(start: str, words: str) -> list[str]:
    """Wrap the words after ``start``; all lines begin in the same column."""
    width = max(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    lines = textwrap.wrap(
        words, max(width - len(start), 20), break_long_words=False, break_on_hyphens=False
    ) or [""]
    return [f"{start}{lines[0]}".rstrip(), *(f"{'':<{len(start)}}{line}" for line in lines[1:])]


def _list_missing(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = sorted({row["data"] for row in rows if row.get("unavailable")})
    if names:
        yield f"Not found: the data of {', '.join(names)}; set WEAKFEEDBACK_DATA to their folder."


def _options(row: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} (needed)" if name in row["required"] else f"{name}={value}"
        for name, value in row["options"].items()
    )


def _dominance(row: dict[str, Any]) -> str:
    if not row["available"]:
        return "no data  "
    if row["weak_dominance"] is None:
        return ""
    xi = "∞" if row["xi"] == float("inf") else f"{row['xi']:.4f}"
    return f"{'yes' if row['weak_dominance'] else 'no':<3}  {xi:>7}  {row['optimal_arm']}  "


def outcome(results: Results, rows: Path, paths: list[Path]) -> dict[str, Any]:
    """Return what a run measured and wrote; ``paths`` has the page first, then the figures."""
    return {
        **_describe_results(results),
        **_summarise_results(results),
        "results": rows,
        "page": paths[0],
        "figures": paths[1:],
    }


def sweep_outcome(swept: Swept, rows: Path, paths: list[Path]) -> dict[str, Any]:
    """Return what a run with a sweep measured and wrote: ``runs`` has the ``outcome`` for each value."""
    said = _describe_results(swept.results[0])
    runs = [
        {"value": value, "horizon": found.about.get("horizon"), **_summarise_results(found)}
        for value, found in zip(swept.values, swept.results, strict=True)
    ]
    return {
        **{word: value for word, value in said.items() if word != "horizon"},
        "swept": swept.key,
        "runs": runs,
        "results": rows,
        "page": paths[0],
        "figures": paths[1:],
    }


def _describe_results(results: Results) -> dict[str, Any]:
    words = ("experiment", "title", "setting", "instance", "horizon", "seed", "command", "versions")
    return {word: results.about.get(word) for word in words}


def _summarise_results(results: Results) -> dict[str, Any]:
    from weakfeedback.report.tables import comparison_rows, final_rows

    about = results.about
    final = final_rows(results)
    for row in final:
        row["compiled"] = results.compiled[row["policy"]]
        row["reason"] = results.reasons.get(row["policy"])
    return {
        "replications": final[0]["replications"],
        "problem": about.get("facts") or dict(about.get("description", ())),
        "final": final,
        "comparisons": comparison_rows(results),
    }


def show_outcome(found: dict[str, Any], console: Console) -> None:
    """Print what a run, or one with a sweep, measured and wrote."""
    swept, runs = [found["swept"]] if "swept" in found else [], found.get("runs", [found])
    shown = table(found["title"] or str(found["results"]), *swept, "policy", *NUMBERS)
    for run in runs:
        for row in run["final"]:
            shown.add_row(*([run["value"]] if swept else []), row["policy"], *_numbers(row))
    console.print(shown)
    rounds = "" if swept else f"{counted(found['horizon'], 'round')}, "
    console.print(f"{rounds}{counted(runs[0]['replications'], 'replication')}, seed {found['seed']}")
    for name, path in (("page", found["page"]), ("rows", found["results"])):
        console.print(f"  {name:<8}{path}", markup=False)
    for path in found["figures"]:
        console.print(f"  figure  {path}", markup=False)


def _numbers(row: dict[str, Any]) -> tuple[str, str]:
    from weakfeedback.report.tables import number

    interval = f"{number(row['low'])} to {number(row['high'])}" if row["replications"] > 1 else "–"
    return number(row["mean"]), interval


def table(title: str, *columns: str) -> Table:
    """Return an empty table for a terminal; its cells are shown unchanged."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    class Plain(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*(Text(visible(str(cell))) for cell in cells), **options)

    heading = Text(visible(title), style="bold")
    empty = Plain(title=heading, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        empty.add_column(column, no_wrap=column in UNBROKEN, overflow="fold")
    return empty
