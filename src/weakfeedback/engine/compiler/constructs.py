"""Unsupported constructs, found in the source of a method: the construct, its line, and a remedy.

Nothing is refused here: the compiler runs first, and the source is searched only if it fails. So what compiles is never
refused, and the remedy is for the construct that the compiler rejected.
"""

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.engine.compiler.fingerprint import constants_of, helper_of


@dataclass(frozen=True)
class Construct:
    """A construct in a line of a function."""

    line: int
    sign: str  # a regular expression: the compiler's message must have it
    words: str  # what it is, and a remedy


def functions_of(methods: dict[str, types.FunctionType]) -> dict[str, types.FunctionType]:
    """Return the methods and all plain functions that they call, by name."""
    found: dict[str, types.FunctionType] = {}
    waiting = list(methods.items())
    while waiting:
        name, function = waiting.pop(0)
        if function in found.values():
            continue
        found[name if name not in found else f"{function.__module__}.{name}"] = function
        helpers = (helper_of(value) for _, value, _ in constants_of(function))
        waiting.extend((helper.__name__, helper) for helper in helpers if helper is not None)
    return found


def read(function: types.FunctionType, methods: Iterable[str], cls: type | None) -> list[Construct]:
    """Return the constructs of a function that the compiler may refuse; none if its source cannot be read."""
    tree = tree_of(function)
    if tree is None:
        return []
    found = [construct for node in ast.walk(tree) for construct in _find_in_node(node, function)]
    first = function.__code__.co_varnames[:1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in first:
            found += _find_in_self(node, function, set(methods), cls)
    found += _find_global_assignments(tree)
    return found


def tree_of(function: types.FunctionType) -> ast.AST | None:
    """Return the syntax tree of a function, with the lines of its file."""
    try:
        lines, first = inspect.getsourcelines(function)
        return ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))), first - 1)
    except (OSError, TypeError, SyntaxError, ValueError):  # no file, or a lambda in the middle of a line
        return None


def _find_in_node(node: Any, function: types.FunctionType) -> Iterator[Construct]:
    for kind, sign, words in PLAIN:
        if isinstance(node, kind):
            yield Construct(node.lineno, sign, words)
    for kind, finder in FINDERS:
        if isinstance(node, kind):
            yield from finder(node, function)


# for these the kind of node is enough
PLAIN: tuple[tuple[Any, str, str], ...] = (
    (ast.NamedExpr, "cannot be determined", "':=' is not supported: assign in a statement of its own"),
    (ast.GeneratorExp, "yield in a closure", "a generator expression is not supported: write a loop"),
    (ast.SetComp, "Unknown attribute 'add'|SET_ADD", "a set comprehension is not supported: write a loop"),
    (
        (ast.Import, ast.ImportFrom),
        "IMPORT_",
        "an import inside a method is not supported: import at the top of the module",
    ),
    (ast.Match, "MATCH_|GET_LEN", "'match' with such a pattern is not supported: use 'if'"),
    (ast.ClassDef, "LOAD_BUILD_CLASS", "a class inside a method is not supported: define it outside"),
    (
        ast.With,
        "context manager|BEFORE_WITH|LOAD_SPECIAL",
        "'with' is not supported: do without, or do it outside the rounds",
    ),
    (
        (ast.Yield, ast.YieldFrom),
        "YIELD|yield|generator",
        "'yield' is not supported here: write a loop, or fill an array",
    ),
    (
        ast.Lambda,
        "Cannot capture|make_function|function object",
        "a lambda is not supported here: write a method",
    ),
)


def _find_format(node: ast.FormattedValue, _function: Any) -> Iterator[Construct]:
    if node.format_spec is not None:
        words = f"a format in an f-string ({ast.unparse(node.format_spec)[2:-1]!r}) is not supported"
        yield Construct(
            node.lineno, "format spec|FORMAT_", f"{words}: leave texts to code outside the rounds"
        )


def _find_percent_format(node: ast.BinOp, _function: Any) -> Iterator[Construct]:
    if isinstance(node.op, ast.Mod) and _is_text(node.left):
        words = "formatting a text with % is not supported: leave texts to code outside the rounds"
        yield Construct(node.lineno, "function mod>|Unsupported.*%", words)


def _find_call(node: ast.Call, _function: Any) -> Iterator[Construct]:
    name = node.func.id if isinstance(node.func, ast.Name) else None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "format" and _is_text(node.func.value):
        words = "formatting a text with format() is not supported: leave texts to code outside the rounds"
        yield Construct(node.lineno, "Unknown attribute 'format'", words)
    if name == "print" and node.keywords:
        words = f"print() with {node.keywords[0].arg}= is not supported: print plain values"
        yield Construct(node.lineno, r"print\(\) function", words)
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        words = "a call with * is not supported here: give the arguments one by one"
        yield Construct(node.lineno, r"\*args|CALL_FUNCTION_EX", words)


def _find_starred_assignment(node: ast.Assign, _function: Any) -> Iterator[Construct]:
    for target in node.targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Starred):
                words = "unpacking with * is not supported: take the values one by one"
                yield Construct(part.lineno, "UNPACK_EX", words)


def _find_handler(node: ast.ExceptHandler, _function: Any) -> Iterator[Construct]:
    if node.type is not None and ast.unparse(node.type) != "Exception":
        words = f"'except {ast.unparse(node.type)}' is not supported: catch Exception, or test before"
        yield Construct(node.lineno, "Exception matching|CHECK_EXC_MATCH", words)


def _find_deletion(node: ast.Delete, _function: Any) -> Iterator[Construct]:
    for target in node.targets:
        if isinstance(target, ast.Attribute):
            words = f"'del {ast.unparse(target)}' is not supported: a field stays from __init__ on"
            yield Construct(node.lineno, r"del \(|DELETE_ATTR", words)


def _find_store(node: ast.Subscript, function: types.FunctionType) -> Iterator[Construct]:
    if not isinstance(node.ctx, ast.Store):
        return
    base: Any = node
    while isinstance(base, ast.Subscript):
        base = base.value
    if isinstance(base, ast.Name):
        for name, value, enclosed in constants_of(function):
            if name == base.id and isinstance(value, np.ndarray):
                where = "enclosing" if enclosed else "global"
                words = f"writes to the {where} array {name!r}: make it a field in __init__"
                yield Construct(node.lineno, "readonly", words)


FINDERS: tuple[tuple[Any, Callable[[Any, Any], Iterator[Construct]]], ...] = (
    (ast.FormattedValue, _find_format),
    (ast.BinOp, _find_percent_format),
    (ast.Call, _find_call),
    (ast.Assign, _find_starred_assignment),
    (ast.ExceptHandler, _find_handler),
    (ast.Delete, _find_deletion),
    (ast.Subscript, _find_store),
)


def _find_in_self(
    node: ast.Attribute, function: types.FunctionType, methods: set[str], cls: type | None
) -> Iterator[Construct]:
    """Describe attributes of ``self`` that are neither fields nor plain methods, and recursive calls."""
    name = node.attr
    if name in methods:
        words = f"{function.__name__}() calls itself"
        if name != function.__name__:
            words = f"{function.__name__}() and {name}() call each other"
        if _leads_back(cls, name, function.__name__, methods):
            words += ": the compiler knows no recursion of methods, write a loop or a plain function"
            yield Construct(node.lineno, "re-entrant|recursi", words)
        return
    value = inspect.getattr_static(cls, name, None) if cls is not None else None
    remedy = "make it a plain method with self, or a function of the module"
    kinds: tuple[tuple[Any, str], ...] = (
        (staticmethod, f"calls the static method {name!r}: {remedy}"),
        (classmethod, f"calls the class method {name!r}: {remedy}"),
        ((property, functools.cached_property), f"reads the property {name!r}: make it a plain method"),
        ((str, tuple, list, dict, set), f"reads {name!r} of the class: make it a field in __init__"),
    )
    for kind, words in kinds:
        if isinstance(value, kind):
            yield Construct(node.lineno, f"Unknown attribute '{name}'", words)


def _leads_back(cls: type | None, start: str, goal: str, methods: set[str]) -> bool:
    """Whether the method ``start`` calls ``goal``, directly or indirectly."""
    waiting, seen = [start], set()
    while waiting:
        name = waiting.pop()
        if name == goal:
            return True
        function = inspect.getattr_static(cls, name, None) if cls is not None else None
        if name not in seen and isinstance(function, types.FunctionType):
            seen.add(name)
            waiting.extend(called for called in function.__code__.co_names if called in methods)
    return False


def _find_global_assignments(tree: ast.AST) -> Iterator[Construct]:
    names = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names and not isinstance(node.ctx, ast.Load):
            words = f"assigns the global {node.id!r}: make it a field in __init__"
            yield Construct(node.lineno, "STORE_GLOBAL|DELETE_GLOBAL", words)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
