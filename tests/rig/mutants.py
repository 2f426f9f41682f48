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


def caught(battery: Callable[[Any], Any], module: Any, *edits: tuple[Any, ...]) -> Callable[..., None]:
    """A test for each edit of a module (old, new, and how often if not once): the battery finds something wrong."""
    return _caught(battery, [(module, *edit) for edit in edits])


def caught_in_a_loop(runs: Callable[..., Any], play: Any, world: Any, *edits: Any) -> Callable[..., None]:
    """The same for edits of a loop or of its world, which run together; each names its module first."""
    names = play.__name__, world.__name__

    def battery(mutant: Any) -> None:
        changed = mutant.__name__.removesuffix("__mutant")
        runs(*(mutant if name == changed else module for name, module in zip(names, (play, world))))

    return _caught(battery, edits)


def _caught(battery: Callable[[Any], Any], edits: Sequence[Any]) -> Callable[..., None]:
    @pytest.mark.parametrize("edit", edits, ids=lambda edit: (edit[2] or edit[1]).strip()[:40])
    def test(edit: tuple[Any, ...]) -> None:
        mutant = mutate(*edit)
        assert not survives(lambda: battery(mutant))

    return test
