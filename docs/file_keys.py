"""Write ``docs/api/files.md`` from the models of the files and the options: ``python docs/file_keys.py``.

A test compares them.
"""

import json
from pathlib import Path

import typer
from pydantic import BaseModel

from weakfeedback.cli.serve import ADMIN, serve_app
from weakfeedback.engine.compiler.cache import VARIABLE
from weakfeedback.experiments.userfile import ExperimentFile
from weakfeedback.journal.session import PASSWORD
from weakfeedback.serve.config import ServeFile
from weakfeedback.serve.proxy.settings import ProxySettings, UpstreamTable
from weakfeedback.toml import rows

PAGE = Path(__file__).parent / "api" / "files.md"
HEAD = """# Keys of the files, variables of the environment

All files are TOML, read by the same models, from which these tables are made. A mistake is one line: the file, the
key, what it must be, what was given. A key that is not known is refused, and the nearest one is named. A default of –
means that the key must be given; nothing means that it can be left out.
"""
PARTS: list[tuple[str, type[BaseModel], str]] = [
    ("An experiment: `weakfeedback run FILE` ([how to](../howto/command-line.md))", ExperimentFile, ""),
    ("A service: `weakfeedback serve` ([how to](../howto/service.md))", ServeFile, ""),
    ("Upstreams of [the proxy](../howto/proxy.md): `[upstream.NAME]`", UpstreamTable, "upstream.NAME"),
    ("A learner whose stages are models of upstreams: `[[learner]]`", ProxySettings, ""),
]
# what is not an option
VARIABLES = {
    ADMIN: "A token of scope `admin`; a service that others can reach needs a token, here or in the file.",
    f"{ADMIN}_FILE": "The file that holds it.",
    PASSWORD: "The password of a PostgreSQL store.",
    f"{PASSWORD}_FILE": "The file that holds it.",
    VARIABLE: "The folder of compiled code; the user's cache folder by default.",
}
WINNER = """The command line wins over the environment, and the environment over the file. `--restored` has no
variable: it is for one start after a restored backup, and would be dangerous at all later ones."""


def variables() -> dict[str, str]:
    """Every variable that `weakfeedback serve` reads, and what it is for."""
    options = [one for one in typer.main.get_command(serve_app).params if getattr(one, "envvar", None)]
    told = {str(one.envvar): f"`{max(one.opts, key=len)}`: {one.help}" for one in options}  # type: ignore[attr-defined]
    return told | VARIABLES


def written() -> str:
    """The page."""
    lines = [HEAD]
    for title, model, place in PARTS:
        lines += [f"## {title}", "", "| key | must be | default |", "|---|---|---|"]
        lines += [
            f"| `{row.key}` | {row.allowed} | {row.otherwise or _shown(row.default)} |"
            for row in rows(model, place)
        ]
        lines.append("")
    lines += ["## Variables of the environment: `weakfeedback serve`", "", WINNER, ""]
    lines += ["| variable | what it sets |", "|---|---|"]
    lines += [f"| `{name}` | {words} |" for name, words in variables().items()]
    lines.append("")
    return "\n".join(lines)


def _shown(default: object) -> str:
    if default is ...:
        return "–"
    if default is None or isinstance(default, BaseModel) or default in ("", [], {}):
        return ""
    return f"`{json.dumps(default)}`"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
