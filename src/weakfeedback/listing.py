"""What there is to use and what came out, as plain data and as tables for a terminal."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weakfeedback.plaintext import visible
from weakfeedback.settings import SETTINGS, Setting

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from weakfeedback.engine.results import Results


def everything() -> dict[str, list[dict[str, Any]]]:
    """Settings, policies, instances and experiments."""
    return {
        "settings": [{"name": setting.name, "summary": setting.summary} for setting in SETTINGS.values()],
        "policies": [row for setting in SETTINGS.values() for row in _policies(setting)],
        "instances": [row for setting in SETTINGS.values() for row in _instances(setting)],
        "experiments": _experiments(),
    }


def _policies(setting: Setting) -> list[dict[str, Any]]:
    from weakfeedback.catalog import POLICIES, option_names

    rows = []
    for name, cls in POLICIES[setting.name].items():
        parameters = inspect.signature(cls).parameters
        options = [parameters[option] for option in option_names(setting.name, name)]
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


def _instances(setting: Setting) -> list[dict[str, Any]]:
    rows = []
    for name in setting.instance_names():
        known = setting.describe(name)
        missing = known.unavailable()
        row = {"setting": setting.name, "name": name, "summary": known.summary, "data": known.data}
        row |= {"available": not missing, "unavailable": missing}
        problem = setting.load(name) if setting.listed and not missing else None
        row |= {word: getattr(problem, word, None) for word in ("weak_dominance", "xi", "optimal_arm")}
        rows.append(row)
    return rows


def _experiments() -> list[dict[str, Any]]:
    from weakfeedback.experiments.registry import experiments

    words = ("id", "title", "place", "setting", "instance", "needs", "horizon", "replications")
    return [{word: getattr(known, word) for word in words} for known in experiments().values()]


def show(found: dict[str, list[dict[str, Any]]], console: Console) -> None:
    """Print what ``everything`` found."""
    shown = table("Settings", "name", "what it is")
    for row in found["settings"]:
        shown.add_row(row["name"], row["summary"])
    console.print(shown)
    shown = table("Policies", "name", "setting", "options", "what it does")
    for row in found["policies"]:
        shown.add_row(row["name"], row["setting"], _options(row), row["summary"])
    console.print(shown)
    shown = table("Instances", "name", "WD", "ξ", "optimal arm", "what it is")
    for row in found["instances"]:
        shown.add_row(row["name"], *_dominance(row), row["summary"])
    console.print(shown)
    missing = sorted({row["data"] for row in found["instances"] if not row["available"]})
    if missing:
        console.print(
            f"Not found: the data of {', '.join(missing)}; set WEAKFEEDBACK_DATA to their folder.\n"
        )
    shown = table("Experiments", "id", "thesis", "what is compared")
    for row in found["experiments"]:
        shown.add_row(row["id"], row["place"], row["title"])
    console.print(shown)


def _options(row: dict[str, Any]) -> str:
    return ", ".join(
        name if name in row["required"] else f"{name}={value}" for name, value in row["options"].items()
    )


def _dominance(row: dict[str, Any]) -> tuple[str, str, str]:
    if not row["available"]:
        return ("no data", "", "")
    if row["weak_dominance"] is None:
        return ("", "", "")
    xi = "∞" if row["xi"] == float("inf") else f"{row['xi']:.4f}"
    return ("yes" if row["weak_dominance"] else "no", xi, str(row["optimal_arm"]))


def outcome(results: Results, rows: Path, paths: list[Path]) -> dict[str, Any]:
    """What a run measured and wrote; ``paths`` has the page first, then the figures."""
    from weakfeedback.report.tables import comparison_rows, final_rows

    about = results.about
    final = final_rows(results)
    for row in final:
        row["compiled"] = results.compiled[row["policy"]]
        row["reason"] = results.reasons.get(row["policy"])
    words = ("experiment", "title", "setting", "instance", "horizon", "seed", "command", "versions")
    return {
        **{word: about.get(word) for word in words},
        "replications": final[0]["replications"],
        "problem": dict(about.get("description", ())),
        "final": final,
        "comparisons": comparison_rows(results),
        "results": rows,
        "page": paths[0],
        "figures": paths[1:],
    }


def show_outcome(found: dict[str, Any], console: Console) -> None:
    """Print what a run measured and wrote."""
    from weakfeedback.report.tables import number

    shown = table(found["title"] or str(found["results"]), "policy", "final regret", "95 % interval")
    for row in found["final"]:
        interval = f"{number(row['low'])} to {number(row['high'])}" if found["replications"] > 1 else "–"
        shown.add_row(row["policy"], number(row["mean"]), interval)
    console.print(shown)
    console.print(
        f"{found['horizon']:,} rounds, {found['replications']:,} replications, seed {found['seed']}"
    )
    for name, path in (("page", found["page"]), ("rows", found["results"])):
        console.print(f"  {name:<8}{path}", markup=False)
    for path in found["figures"]:
        console.print(f"  figure  {path}", markup=False)


def table(title: str, *columns: str) -> Table:
    """An empty table for a terminal; its cells are shown as they are."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    class Plain(Table):
        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*(Text(visible(str(cell))) for cell in cells), **options)

    heading = Text(visible(title), style="bold")
    empty = Plain(title=heading, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for k, column in enumerate(columns):
        last = k == len(columns) - 1
        empty.add_column(column, no_wrap=not last, overflow="fold")
    return empty
