"""All settings, and their policies by name; a setting is imported when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from weakfeedback.settings.setting import Setting, find_name

NAMES = ("cascade", "contextual", "adaptive", "routing", "allocation", "multiplayer")
T = TypeVar("T")


class Loaded(Mapping[str, T]):
    """Something of every setting by the setting's name."""

    def __init__(self, of: Callable[[Setting], T]) -> None:
        self._of = of

    def __getitem__(self, name: str) -> T:
        if name not in NAMES:
            raise KeyError(name)
        return self._of(importlib.import_module(f"weakfeedback.{name}.setting").SETTING)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


SETTINGS: Mapping[str, Setting] = Loaded(lambda setting: setting)
POLICIES: Mapping[str, Mapping[str, type]] = Loaded(lambda setting: setting.policies)


def setting_called(name: str) -> Setting:
    """Return a setting by its name; the case does not matter."""
    return SETTINGS[find_name("setting", name, NAMES)]


def canonical_name(setting: str, name: str) -> str:
    """Return the name of a policy as the catalogue spells it; the case does not matter.

    >>> canonical_name("cascade", "uss-ts")
    'USS-TS'
    """
    return setting_called(setting).canonical_name(name)


def policy_class(setting: str, name: str) -> type:
    """Return the class of the policy called ``name``.

    >>> policy_class("multiplayer", "DLC-LX")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: policy must be one of DLC, DLC-LIX, ..., got 'DLC-LX': did you mean DLC-LIX?
    """
    return setting_called(setting).policy_class(name)


def policy_name(setting: str, policy: Any) -> str | None:
    """Return the name of the class of the object ``policy`` in the catalogue, or None if it is not there."""
    return setting_called(setting).name_of(policy)


def option_names(setting: str, name: str) -> tuple[str, ...]:
    """Return the options of a policy: the arguments of its class, except those common to all policies of its setting.

    >>> option_names("allocation", "csb-du")
    ('gamma', 'every')
    """
    return setting_called(setting).option_names(name)


def make_policy(setting: str, name: str, /, *first: Any, **options: Any) -> Any:
    """Return a new policy; ``first`` are the arguments that all policies of the setting have in common.

    A policy that does not take one of them does not get it. The others, and all options, are passed by name.

    >>> make_policy("multiplayer", "dlc-lix", 5, epsilon=0.1, delta=0.05).K
    5
    >>> make_policy("contextual", "fixed", [0.1, 0.4], 10, arm=1).arm
    1
    """
    return setting_called(setting).make_policy(name, *first, **options)
