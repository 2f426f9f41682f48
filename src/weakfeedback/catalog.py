"""All settings, and their policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weakfeedback.adaptive.setting import SETTING as ADAPTIVE
from weakfeedback.allocation.setting import SETTING as ALLOCATION
from weakfeedback.cascade.setting import SETTING as CASCADE
from weakfeedback.contextual.setting import SETTING as CONTEXTUAL
from weakfeedback.multiplayer.setting import SETTING as MULTIPLAYER
from weakfeedback.routing.setting import SETTING as ROUTING
from weakfeedback.setting import Setting, find_name

SETTINGS: dict[str, Setting] = {
    setting.name: setting for setting in (CASCADE, CONTEXTUAL, ADAPTIVE, ROUTING, ALLOCATION, MULTIPLAYER)
}
POLICIES: dict[str, Mapping[str, type]] = {name: setting.policies for name, setting in SETTINGS.items()}


def setting_called(name: str) -> Setting:
    """Return a setting by its name; the case does not matter."""
    return SETTINGS[find_name("setting", name, SETTINGS)]


def canonical_name(setting: str, name: str) -> str:
    """Return the name of a policy as the catalogue spells it; the case does not matter.

    >>> canonical_name("cascade", "uss-ts")
    'USS-TS'
    """
    return setting_called(setting).canonical_name(name)


def policy_class(setting: str, name: str) -> type:
    """Return the class of the policy called ``name``.

    >>> policy_class("multiplayer", "DLC-LX")
    Traceback (most recent call last):
        ...
    ValueError: policy must be one of DLC, DLC-LIX, Musical-Chairs, SIC-MMAB, DPE1, got 'DLC-LX': did you mean DLC-LIX?
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
