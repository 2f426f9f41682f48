"""Write ``docs/api/files.md`` from the models of the files: ``python docs/file_keys.py``. A test compares them."""

import json
from pathlib import Path

from pydantic import BaseModel

from weakfeedback.experiments.userfile import ExperimentFile
from weakfeedback.serve.config import ServeFile
from weakfeedback.serve.proxy.settings import ProxySettings, UpstreamTable
from weakfeedback.toml import rows

PAGE = Path(__file__).parent / "api" / "files.md"
HEAD = """# Keys of the files

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
    return "\n".join(lines)


def _shown(default: object) -> str:
    if default is ...:
        return "–"
    if default is None or isinstance(default, BaseModel) or default in ("", [], {}):
        return ""
    return f"`{json.dumps(default)}`"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
