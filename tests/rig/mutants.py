"""Mutants: the source of a module with one edit, loaded under a name of its own."""

import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from _pytest.assertion import util


def mutate(module: Any, old: str, new: str, count: int = 1) -> types.ModuleType:
    """A copy of a module in which the text ``old`` (found exactly ``count`` times) reads ``new``."""
    source = inspect.getsource(module)
    assert source.count(old) == count, f"{old!r} stands {source.count(old)} times in {module.__name__}"
    name = f"{module.__name__}__mutant"
    mutant = types.ModuleType(name)
    sys.modules[name] = mutant
    try:
        exec(compile(source.replace(old, new), f"<mutant of {module.__name__}>", "exec"), mutant.__dict__)
    finally:
        del sys.modules[name]
    return mutant


def made_again(chain: Sequence[Any], name: str, module: Any, old: str, new: str, count: int = 1) -> Any:
    """A class made again from all its modules, the last of which defines it, with one edit in ``module``."""
    real = {one.__name__: sys.modules[one.__name__] for one in chain}
    try:
        for one in chain:
            quotes = inspect.getsource(one).count('"""')
            changed = mutate(one, old, new, count) if one is module else mutate(one, '"""', '"""', quotes)
            sys.modules[one.__name__] = changed
        return getattr(changed, name)
    finally:
        sys.modules.update(real)


def survives(battery: Callable[[], None]) -> bool:
    """Whether a battery of tests finds nothing wrong.

    Pytest would spend seconds on saying how two long runs differ, for each mutant that is caught.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(util, "_reprcompare", None)
        try:
            battery()
        except Exception:
            return False
    return True
