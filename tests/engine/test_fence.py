"""The fence around the compiler: inner names of Numba, llvmlite and NumPy stand in one folder, comments included."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "weakfeedback"
COMPILER = PACKAGE / "engine" / "compiler"
INSIDE = (COMPILER / "_numba", ROOT / "tests" / "engine" / "_numba")
FOLDERS = ("src", "tests", "benchmarks", "examples", "docs")
KINDS = (".py", ".md", ".rst", ".txt", ".toml", ".ipynb")
INNER = re.compile(
    r"\b(numba|numpy|np|llvmlite|structref|dispatcher)(\.\w+)*\._[A-Za-z]\w*"  # a private name, by its path
    r"|\bnumba\.(core|np|cpython|misc|parfors|targets)\b"  # modules that Numba does not document
    r"|\bfrom (numba|llvmlite|numpy)(\.\w+)* import \(?[^)\n]*\b_[a-z]\w*"
    r"|\b(import|from) llvmlite\b|\bllvmlite\.\w"
    r"|_dynfunc|_nrt_python|\._meminfo|\bmeminfo\b|_numba_type_|\bbitgen_t\b|\bcgutils\b"
)
NAMED = re.compile("numba|llvmlite")  # without one of these words a module imports neither


def files():
    """All texts outside the fence, but this one."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = any(path.is_relative_to(place) for place in INSIDE)
            if path.suffix in KINDS and path.is_file() and not inside and path != Path(__file__):
                yield path


def inner_names(text):
    """The inner names in a text, comments included."""
    return [match[0] for match in INNER.finditer(text)]


def imported(text):
    """The modules that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)


def private_of_others(text):
    """Attributes with a leading underscore of anything but ``self`` and ``cls``."""
    tree = ast.parse(text)
    own = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_[A-Za-z]", node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in own):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def test_inner_names_stand_inside_the_fence_only():
    found = {str(path.relative_to(ROOT)): inner_names(path.read_text()) for path in files()}
    assert {path: names for path, names in found.items() if names} == {}


def test_this_package_imports_numba_inside_the_fence_only():
    outside = {path: path.read_text() for path in PACKAGE.rglob("*.py") if not path.is_relative_to(INSIDE[0])}
    found = {
        str(path.relative_to(ROOT)): name
        for path, text in outside.items()
        if NAMED.search(text)
        for name in imported(text)
        if name.split(".")[0] in ("numba", "llvmlite")
    }
    assert found == {}
    assert len(outside) > 100


def test_the_compiler_uses_no_private_attribute_of_others_outside_the_fence():
    for path in sorted(COMPILER.glob("*.py")):
        assert list(private_of_others(path.read_text())) == [], path.name


@pytest.mark.parametrize(
    "text",
    [
        "from numba.core import extending",
        "import llvmlite.ir",
        "from numba import types, _helperlib",
        "x = struct._meminfo.data",
        "# as structref._Utils has it",
        '"""The layout of bitgen_t."""',
        "dispatcher._cache = None",
        "np.random._generator.Generator",
        "numpy._core.multiarray",
        "kind = struct._numba_type_",
    ],
)
def test_an_inner_name_is_seen(text):
    assert inner_names(text)


@pytest.mark.parametrize(
    "text",
    ["from numba import njit, types", "np.random.default_rng(0)", "# Numba and llvmlite", "self._cache"],
)
def test_other_names_are_left_alone(text):
    assert not inner_names(text)


def test_there_is_something_inside_the_fence():
    inside = [path for path in INSIDE[0].glob("*.py") if inner_names(path.read_text())]
    assert len(inside) >= 6
    assert any(list(private_of_others(path.read_text())) for path in inside)
    assert any("numba.core" in set(imported(path.read_text())) for path in inside)


@pytest.mark.parametrize("name", ["numba", "numpy"])
def test_the_next_minor_version_is_not_allowed_before_it_was_tried(name):
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    bounds = [re.fullmatch(rf"{name}>=[\d.]+,<(\d+)\.(\d+)", words) for words in wanted]
    (upper,) = [(int(found[1]), int(found[2])) for found in bounds if found]
    lock = (ROOT / "requirements.lock").read_text()
    tried = [(int(a), int(b)) for a, b in re.findall(rf"^{name}==(\d+)\.(\d+)", lock, re.MULTILINE)]
    newest = max(tried)
    assert upper == (newest[0], newest[1] + 1)
