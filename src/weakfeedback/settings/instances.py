"""What the named problems of all settings share: lookup by name, and whether their data are available."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from weakfeedback.validate import brief

T = TypeVar("T")


class Described:
    """The description of a named problem; ``data`` is the data set that the user must supply, if any."""

    data: str

    @property
    def needs(self) -> str:
        """The data set that the user must supply, or ""."""
        return self.data if self.data in ("pima", "heart") else ""

    def unavailable(self, data: Any = None) -> str:
        """Return why the data of this instance are not available, or "" if they are. Nothing is downloaded."""
        from weakfeedback import datasets

        loader = {"pima": datasets.load_pima, "heart": datasets.load_heart}.get(self.data)
        try:
            if loader is not None:
                loader(data)
        except ValueError as error:
            return str(error)
        return ""

    def available(self, data: Any = None) -> bool:
        """Return whether ``load`` would succeed. ``unavailable`` says why not."""
        return self.unavailable(data) == ""


def find_instance(name: Any, instances: Mapping[str, T]) -> T:
    """Return the instance with this name, whatever its case; raise ValueError, with similar names, if there is none.

    >>> find_instance("BSC-1", {"bsc-1": 7, "bsc-2": 8})
    7
    >>> find_instance("bsc", {"bsc-1": 7, "bsc-2": 8})
    Traceback (most recent call last):
        ...
    ValueError: instance 'bsc' is not known; did you mean bsc-2 or bsc-1?
    """
    known = {one.lower(): one for one in instances}
    if isinstance(name, str) and name.lower() in known:
        return instances[known[name.lower()]]
    near = [known[word] for word in difflib.get_close_matches(str(name).lower(), known, n=3)]
    allowed = f"did you mean {' or '.join(near)}?" if near else f"allowed: {', '.join(instances)}"
    raise ValueError(f"instance {brief(name)} is not known; {allowed}")


def names_and_describe(
    module: str, instances: Mapping[str, T]
) -> tuple[Callable[[], tuple[str, ...]], Callable[[str], T]]:
    """Return the functions ``names`` and ``describe`` of the module that has a setting's instances.

    >>> names, describe = names_and_describe("here", {"bsc-1": 7, "bsc-2": 8})
    >>> names(), describe("BSC-2")
    (('bsc-1', 'bsc-2'), 8)
    """

    def names() -> tuple[str, ...]:
        """Return the names of all instances of this setting."""
        return tuple(instances)

    def describe(name: str) -> T:
        """Return the description of an instance, without its data."""
        return find_instance(name, instances)

    names.__module__ = describe.__module__ = module
    return names, describe
