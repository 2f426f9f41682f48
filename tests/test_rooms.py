"""The plan of the house: which package may import which. Imports inside functions and for type checking count."""

import ast
import functools
import itertools
from pathlib import Path

import pytest
from tests.rig.processes import printed

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
    said, _, modules = printed("-c", code).rpartition("--")
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
    assert {"sqlite3", "pandas", "numba", "scipy", "matplotlib", "numpy.ma"} & modules == set()
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


@pytest.mark.parametrize(
    ("words", "foreign"),
    [
        (
            ["list", "policies"],
            ("thesis", "reproduce", "serve", "live", "journal", "apps", "checks", "report"),
        ),
        (
            ["list", "experiments", "ch2-lower-*"],
            ("serve", "live", "journal", "apps", "checks", "thesis.chapter3"),
        ),
        (
            ["serve", "--help"],
            ("thesis", "reproduce", "experiments", "live", "apps", "checks", "report", *SETTINGS),
        ),
        (
            ["check", "--help"],
            ("thesis", "reproduce", "serve", "live", "journal", "apps", "report", *SETTINGS),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_command_loads_the_rooms_of_another(words, foreign):
    _, modules = loaded(COMMAND.format(words))
    assert within(modules, *foreign) == []


# -- what must not come back; where a rule does not hold yet, the exceptions are listed: the lists may only shrink


def parsed(*rooms):
    """The files of some rooms, or of all, as trees, by their path."""
    for path in sorted(ROOT.rglob("*.py")):
        if not rooms or room_of(path, ROOT) in rooms:
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())


def excess(found, allowed):
    """What is found more often than it is allowed."""
    return {name: count for name, count in found.items() if count > allowed.get(name, 0)}


LONG: dict[str, int] = {}


def test_no_file_is_long():
    lengths = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in ROOT.rglob("*.py")}
    assert excess({name: lines for name, lines in lengths.items() if lines > 900}, LONG) == {}


ERRORS = ("error", "problem", "exception", "caught", "warning", "reason", "failure")


def is_message(node):
    """Whether an expression is the text of an error or a warning."""
    text = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"
    told = node.args[0] if text and node.args else None
    named = isinstance(told, ast.Name) and told.id in ERRORS
    return named or (isinstance(told, ast.Attribute) and told.attr == "message")


def branches_on_messages(tree):
    """How often a word is looked for in the text of an error."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            count += any(is_message(side) for side in (node.left, *node.comparators))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            count += node.func.attr in ("startswith", "endswith") and is_message(node.func.value)
            count += node.func.attr in ("search", "match", "fullmatch") and any(map(is_message, node.args))
    return count


MESSAGES = {"contract/readonly.py": 2}  # NumPy's words for a write to a read-only array, which has no code


def test_no_branch_reads_a_message():
    found = {name: branches_on_messages(tree) for name, tree in parsed()}
    assert excess(found, MESSAGES) == {}


def test_a_class_of_live_and_serve_has_a_name_of_its_own():
    homes = {}
    for name, tree in parsed("live", "serve"):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


@functools.cache
def private_names(room):
    """The private names that the files of a room define: methods, functions, fields, constants."""
    found = set()
    for _, tree in parsed(room):
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
    return found


def foreign_fields(name, tree):
    """How often a file reads a private name that its room does not define."""
    own = private_names(
        OWN.get(tuple(name.removesuffix(".py").split("/")[:2]), name.split("/")[0].removesuffix(".py"))
    )
    return sum(
        isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in (*own, *PUBLIC)
        and not (node.attr in INHERITED and isinstance(node.value, ast.Name) and node.value.id == "self")
        for node in ast.walk(tree)
    )


PRIVATE = {
    "adapters/sklearn.py": 1,  # the names of an estimator's parameters, which scikit-learn gives out in no other way
    "serve/server.py": 2,  # uvicorn's run without its own signal handlers
    "serve/operations/auditing.py": 1,  # which stage an audit is about, with the words of the library
}
PUBLIC = (
    *("_replace", "_asdict", "_fields", "_make"),  # of named tuples
    *("_exit", "_getframe"),  # of os and sys
)
INHERITED = ("_freeze", "_rows", "_probabilities", "_cycled", "_fingerprint")  # for subclasses of a problem


def test_no_room_reads_private_names_of_another():
    found = {name: foreign_fields(name, tree) for name, tree in parsed() if "_numba/" not in name}
    assert excess(found, PRIVATE) == {}


def classes_of_live():
    """The classes of the room of live objects."""
    import importlib

    for path in sorted((ROOT / "live").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(f"weakfeedback.{name}")
        yield from (
            one
            for one in vars(module).values()
            if isinstance(one, type) and one.__module__ == module.__name__
        )


def test_live_objects_are_at_most_two_classes_deep():
    deep = {}
    for one in classes_of_live():
        own = [base for base in one.__mro__ if base.__module__.startswith("weakfeedback.")]
        lines = [[base, *base.__mro__[1:]] for base in one.__bases__ if base in own]
        if any(len([base for base in line if base in own]) > 1 for line in lines):
            deep[one.__qualname__] = [base.__qualname__ for base in own]
        assert "__new__" not in vars(one) or issubclass(one, tuple), one
    assert deep == {}


def test_the_lock_of_a_live_object_is_named_in_its_core_only():
    found = {
        name
        for name, tree in parsed("live")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "lock"
    }
    assert found == {"live/core.py"}


def test_the_rules_see_what_they_forbid():
    """The negative controls."""
    branch = 'try:\n    f()\nexcept ValueError as error:\n    if "label" in str(error):\n        pass\n'
    assert branches_on_messages(ast.parse(branch)) == 1
    assert branches_on_messages(ast.parse('code = str(error).startswith("alpha")')) == 1
    assert branches_on_messages(ast.parse('print(str(error)); x = "a" in words')) == 0
    assert (
        foreign_fields("plaintext.py", ast.parse("store._secret = 1; store.public; row._replace(a=1)")) == 1
    )
