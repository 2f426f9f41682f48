"""Where a policy writes a field: the method and the line, for messages."""

import ast
from typing import Any

from weakfeedback.engine.compiler.constructs import tree_of
from weakfeedback.engine.compiler.fingerprint import reachable


def writes(cls: type, entry: tuple[str, ...], field: str) -> str:
    """Return the first line in which ``entry``, or what it calls, writes a field, as "select() line 12"; "" if none."""
    methods = {"__init__": vars(cls).get("__init__")} | reachable(cls, entry)
    for name in (*entry, *(name for name in methods if name != "__init__")):
        function = methods.get(name)
        tree = None if function is None else tree_of(function)
        nodes: list[Any] = [] if tree is None else list(ast.walk(tree))
        lines = [node.lineno for node in nodes if _writes(node, field)]
        if lines:
            return f"{name}() line {min(lines)}"
    return ""


def _writes(node: Any, field: str) -> bool:
    if not isinstance(node, (ast.Attribute, ast.Subscript)) or not isinstance(node.ctx, ast.Store):
        return False
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == field and isinstance(node.value, ast.Name)
