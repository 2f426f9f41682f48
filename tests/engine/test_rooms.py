"""What the engine knows of the rest of the package: a few tools, and nothing that knows the engine."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "weakfeedback"
TOOLS = {"_version", "decisions", "figures", "files", "plaintext", "stats", "validate"}


def rooms():
    """Packages and modules of the first level, with those that each imports: in functions and for types too."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [name.name for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "weakfeedback":
                names = [f"weakfeedback.{name.name}" for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            parts = [name.split(".") for name in names]
            known = {part[1] for part in parts if part[0] == "weakfeedback" and len(part) > 1}
            found.setdefault(room, set()).update(known - {room})
    return found


def test_the_engine_knows_a_few_tools_only():
    assert rooms()["engine"] <= TOOLS


def test_what_the_engine_knows_does_not_know_the_engine():
    imports = rooms()
    seen, waiting = set(), list(imports["engine"])
    while waiting:
        room = waiting.pop()
        if room not in seen:
            seen.add(room)
            waiting.extend(imports.get(room, ()))
    assert "engine" not in seen
    assert "validate" in seen
    assert "engine" in imports["cascade"]  # the test would see it
