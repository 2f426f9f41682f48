"""Rebuilding a live object from a file: its policy, with the same options as before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from weakfeedback.live import storage
from weakfeedback.live.driver import fields_of
from weakfeedback.live.storage import StateError, require
from weakfeedback.settings import catalog
from weakfeedback.validate import brief

COSTS = ("C", "c", "costs", "prices", "stage_costs")  # arguments of policies that change with the prices


def saved_policy(core: Any, policy: Any) -> tuple[Any, dict[str, Any]]:
    """Return the policy (a name or the given object) and the options with which to make the object again."""
    keys = {"class": str, "options": dict, "fields": dict, "generator": dict, "ledger": dict}
    require("core", core, {"policy": (str, type(None)), **keys})
    if policy is not None:
        if type(policy).__qualname__ != core["class"]:
            raise ValueError(f"policy must be a {core['class']}, as the file holds, got {brief(policy)}")
        return policy, {}
    if core["policy"] is None:
        raise ValueError(
            f"the file holds a policy that was given as an object: pass policy=, a fresh {core['class']}"
        )
    return core["policy"], {name: storage.decode(value) for name, value in core["options"].items()}


def remade(make: Callable[[], Any]) -> Any:
    """Return ``make()``; errors about saved values are reported as errors of the file."""
    try:
        return make()
    except StateError:
        raise
    except (ValueError, TypeError, KeyError, ArithmeticError, MemoryError) as error:
        raise StateError(f"the saved state is not usable: {error}") from None


def options_of(setting: str, name: str | None, policy: Any) -> dict[str, Any] | None:
    """Return the options of a policy of the catalogue, or None if some option is not a field of the policy."""
    if name is None:
        return None
    options = catalog.option_names(setting, name)
    fields = fields_of(policy)
    return {option: fields[option] for option in options} if set(options) <= set(fields) else None


def arguments_of(policy: Any) -> dict[str, Any]:
    """Return the current fields of a policy that have the names of arguments of its class, without costs."""
    try:
        names = inspect.signature(type(policy)).parameters
    except (TypeError, ValueError):
        return {}
    found = {}
    for name, value in fields_of(policy).items():
        if name in names and name not in COSTS:
            with suppress(ValueError):  # not storable in a file
                found[name] = storage.decode(storage.encode(value))
    return found


def check_options(setting: str, core: dict[str, Any], policy: Any, where: str) -> None:
    """Reject a policy object whose options differ from those in the state.

    The options of a user-defined policy are the fields that have the name of an argument of its class.
    """
    name = catalog.policy_name(setting, policy)
    if core["policy"] is None or name is None:
        stored, given = core["options"], arguments_of(policy)
    else:  # options of the catalogue never change
        options = catalog.option_names(setting, name)
        stored = {option: value for option, value in core["fields"].items() if option in options}
        given = fields_of(policy)
    for option in stored.keys() & given.keys():
        known, found = storage.decode(stored[option]), given[option]
        if storage.encode(known) != storage.encode(found):
            raise ValueError(
                f"policy must have {option}={brief(known)}, as in {where}, got one with {option}={brief(found)}"
            )
