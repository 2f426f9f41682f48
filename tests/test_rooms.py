"""The plan of the house: which package may import which. Imports inside functions and for type checking count."""

import ast
import functools
import itertools
import subprocess
import sys
from pathlib import Path

import pytest

import weakfeedback

ROOT = Path(weakfeedback.__file__).parent
NO_ROOM = ("__init__", "__main__", "_version", "examples")  # the door, not a room
SETTINGS = ("adaptive", "allocation", "cascade", "contextual", "multiplayer", "routing")
# who must not know whom, directly
FORBIDDEN = {
    **{one: {"catalog", "checks", "cli", "experiments", "live", "report", "reproduce", "thesis"} for one in SETTINGS},
    "contract": {"engine", "settings", "live", *SETTINGS},
    "settings": {"engine", "catalog", "live", *SETTINGS},
    "kernels": {"engine", "live", *SETTINGS},
    "engine": {"catalog", "checks", "cli", "experiments", "live", "report", "reproduce", "thesis", *SETTINGS},
    "journal": {"live", "engine", "catalog", "serve", *SETTINGS},
    "report": {"experiments", "reproduce", "thesis", "live", "catalog", *SETTINGS},
    "experiments": {"thesis", "reproduce", "cli"},
    "thesis": {"report", "reproduce", "cli", "live"},
    "live": {"experiments", "report", "reproduce", "thesis", "cli", "serve"},
}  # fmt: skip


# a module that is a room of its own: it collects what imports the rest of its package
OWN = {("settings", "catalog"): "catalog"}


def room_of(path, root):
    """The package or top-level module in which a file lies."""
    first, *rest = path.relative_to(root).with_suffix("").parts
    return OWN.get((first, *rest[:1]), first)


def imports(path, package):
    """The modules of a package that a file imports anywhere."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith(f"{package}."):
                first, *rest = name.split(".")[1:]
                yield [OWN.get((first, *rest[:1]), first), *rest]


@functools.cache
def graph(root, package):
    """By room, the rooms that it imports and one file that does."""
    rooms = {room_of(path, root) for path in root.rglob("*.py")} - set(NO_ROOM)
    found = {room: {} for room in rooms}
    for path in sorted(root.rglob("*.py")):
        room = room_of(path, root)
        for first, *_ in imports(path, package) if room in rooms else ():
            if first in rooms and first != room:
                found[room].setdefault(first, path.relative_to(root).as_posix())
    return found


def cycle(found):
    """The rooms of a cycle in order, or an empty list."""
    done, path = set(), []

    def visit(room):
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return []
        path.append(room)
        round_trip = next((way for way in map(visit, sorted(found[room])) if way), [])
        path.pop()
        done.add(room)
        return round_trip

    return next((way for way in map(visit, sorted(found)) if way), [])


def test_no_cycle():
    found = graph(ROOT, "weakfeedback")
    way = cycle(found)
    drawn = "\n".join(f"  {a} -> {b} in {found[a][b]}" for a, b in itertools.pairwise(way))
    assert not way, f"rooms import each other:\n{drawn}"


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_that_must_not_be_known(room):
    found = graph(ROOT, "weakfeedback")[room]
    wrong = {other: found[other] for other in FORBIDDEN[room] & set(found)}
    assert not wrong, f"{room} imports {wrong}"


def test_a_late_import_and_one_for_types_make_a_cycle(tmp_path):
    """The negative control."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "__init__.py").write_text("")
    (tmp_path / "a" / "deep.py").write_text("def f():\n    from house.b import g\n")
    (tmp_path / "b.py").write_text("if TYPE_CHECKING:\n    from house import c\n")
    (tmp_path / "c.py").write_text("")
    assert cycle(graph(tmp_path, "house")) == []
    graph.cache_clear()
    (tmp_path / "c.py").write_text("import house.a.deep\n")
    assert cycle(graph(tmp_path, "house")) == ["a", "b", "c", "a"]


def loaded(code):
    """What a second Python prints, and the modules that it has imported at the end."""
    code += "\nimport sys\nprint('--', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said, _, modules = done.stdout.rpartition("--")
    return said, set(modules.split())


def within(modules, *rooms):
    """Those of the modules that lie in some rooms."""
    return sorted(
        name for name in modules for room in rooms if f"{name}.".startswith(f"weakfeedback.{room}.")
    )


def test_a_cascade_loads_no_other_setting_and_no_database():
    _, modules = loaded("from weakfeedback import Cascade")
    others = [setting for setting in SETTINGS if setting != "cascade"]
    assert within(modules, *others, "experiments", "thesis", "serve", "report") == []
    assert {"sqlite3", "pandas", "numba", "scipy", "matplotlib"} & modules == set()
    assert within(modules, "cascade.policies") == []


COMMAND = "from weakfeedback.cli.app import app\napp({}, standalone_mode=False)"


def test_chapters_load_when_asked_for():
    said, modules = loaded(COMMAND.format(["list"]))
    assert "USS-TS" in said
    assert within(modules, "thesis", "serve", "live", "reproduce") == []


def test_a_reproduction_loads_its_chapter_alone():
    said, modules = loaded(COMMAND.format(["reproduce", "--only", "ch3-synthetic-*", "--list"]))
    assert "ch3-synthetic-1" in said
    assert within(modules, "thesis.chapter3")
    assert within(modules, "thesis.chapter2", "thesis.chapter4", "thesis.chapter5", "thesis.beyond") == []
    assert within(modules, "serve", "live", "apps", "checks") == []
