"""Names of a package that are imported when they are first used, so that a program loads only what it needs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importing(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package; ``homes`` are its names, each with the module that has it.

    >>> importing("weakfeedback", {"counted": "weakfeedback.plaintext"})("counted")(2, "arm")
    '2 arms'
    """

    def found(name: str) -> Any:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found


class Later:
    """A module that is imported when one of its names is first used.

    >>> Later("math").pi
    3.141592653589793
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
