"""Names of a package that are imported when they are first used, so that a program loads only what it needs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importing(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a package; ``homes`` has the names of each of its modules.

    >>> found, names = importing("weakfeedback", {"plaintext": "counted visible"})
    >>> found("counted")(2, "arm"), names()
    ('2 arms', ['counted', 'visible'])
    """
    places = {name: f"{package}.{module}" for module, names in homes.items() for name in names.split()}

    def found(name: str) -> Any:
        if name in places:
            return getattr(import_module(places[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return found, lambda: sorted(places)


class Later:
    """A module that is imported when one of its names is first used.

    >>> Later("math").pi
    3.141592653589793
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)
