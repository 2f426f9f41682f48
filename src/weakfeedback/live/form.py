"""The form of a live object: what saving does with each argument, and how an object is made again from a state."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.driver import fields_of
from weakfeedback.live.storage import StateError, require
from weakfeedback.settings import catalog
from weakfeedback.validate import brief, flag, integer, number, vector

COSTS = ("C", "c", "costs", "prices", "stage_costs")  # arguments of policies that change with the prices
# what reads an argument that the state does not have, so that an option may have its name
LEFT_OUT = object()
SEEDS = (np.random.SeedSequence, np.random.Generator)  # seeds that a journal does not hold


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the constructor: "data" is saved, "code" given again, and of "given" the state says whether."""

    name: str
    role: Literal["data", "code", "given"]
    kinds: tuple[type, ...] = ()  # its types in a state
    read: Callable[[dict[str, Any]], Any] | None = None  # from a state, where it is not body[name]
    free: bool = False  # may differ from run to run
    priced: bool = False  # a difference in ``open`` means new prices
    promised: bool = False  # and here another promise
    check: Callable[[Any, dict[str, Any], str], None] | None = None  # given value, state, where
    told: Callable[[dict[str, Any]], bool] | None = None  # whether it was given, where that is not body[name]

    def was_given(self, body: dict[str, Any]) -> bool:
        """Return whether a state was made with this function, which it does not hold."""
        if self.told is not None:
            return self.told(body)
        return self.role == "given" and body.get(self.name) is True


@dataclass(frozen=True, slots=True)
class Form:
    """All arguments of a kind of object. The first one says what is called, where that is ``counted``."""

    arguments: tuple[Argument, ...]
    other: Mapping[str, tuple[type, ...]] = field(default_factory=dict)  # further keys of a state
    counted: str | None = None  # the list whose length is the number of stages when they run elsewhere

    def keys(self) -> dict[str, tuple[type, ...]]:
        """Return what a state holds, with its types."""
        own = {one.name: one.kinds for one in self.arguments if one.kinds}
        return {"core": (dict,), "counts": (dict,), **own, **self.other}


class Origin(NamedTuple):
    """How the policy was given."""

    name: str | None  # in the catalogue; None for a policy of the user's own
    options: dict[str, Any] | None  # None: they cannot be told from the object
    told: dict[str, Any]  # what is known of them then


def origin_of(
    setting: str, policy: Any, make: Callable[..., Any], needs: tuple[str, ...], options: dict[str, Any]
) -> tuple[Origin, Any]:
    """Return how a policy was given, by its name or as an object, and the policy."""
    if isinstance(policy, str):
        name = catalog.canonical_name(setting, policy)
        return Origin(name, dict(options), {}), make(name, **options)
    if options:
        raise ValueError(f"options go with the name of a policy, not with an object: {', '.join(options)}")
    for method in needs:
        if isinstance(policy, type) or not callable(getattr(policy, method, None)):
            raise ValueError(f"policy must be a name or a policy object, got {brief(policy)}")
    known = catalog.policy_name(setting, policy)
    found = options_of(setting, known, policy)
    return Origin(known, found, arguments_of(policy) if found is None else {}), policy


def made_again(
    cls: Any, body: dict[str, Any], code: dict[str, Any], policy: Any, compiled: bool, where: str
) -> Any:
    """Return the object with this state; ``code`` is what no state holds."""
    form: Form = cls._form(body)
    require("state", body, form.keys())
    check_code(form, body, code, where)
    chosen, options = saved_policy(body["core"], policy)
    arguments = {**code, **options, "policy": chosen}
    live = remade(lambda: cls(**{**arguments, **arguments_in(form, body)}, seed=0, compiled=compiled))
    remade(lambda: live._core.restore(body))
    return live


def from_state(cls: Any, state: Any, code: dict[str, Any], policy: Any, compiled: bool) -> Any:
    """Return the object with this state, which stays as it is; stages that are left out run elsewhere."""
    body = storage.checked_copy(state)
    form: Form = cls._form(body)
    if form.counted is not None and code[form.arguments[0].name] is None:
        code = {**code, form.arguments[0].name: storage.count_of(body, form.counted)}
    return made_again(cls, body, code, policy, compiled, "the state")


def code_of(form: Form, called: tuple[Any, ...], named: dict[str, Any], needed: bool) -> dict[str, Any]:
    """Return what no state holds, by name, None where it is left out; TypeError for what the object does not take."""
    first, named_only = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    allowed: list[inspect.Parameter] = []
    for one in form.arguments:
        if one.role != "data":
            empty = inspect.Parameter.empty if needed and not allowed else None
            allowed.append(inspect.Parameter(one.name, named_only if allowed else first, default=empty))
    bound = inspect.Signature(allowed).bind(*called, **named)
    bound.apply_defaults()
    return bound.arguments


def arguments_in(form: Form, body: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a state holds, without the options of the policy; also code that it can make."""
    found = {}
    for one in form.arguments:
        if one.role == "data" or one.read is not None:
            value = body[one.name] if one.read is None else one.read(body)
            if value is not LEFT_OUT and (one.role == "data" or value is not None):
                found[one.name] = value
    return found


def check_code(form: Form, body: dict[str, Any], code: dict[str, Any], where: str) -> None:
    """Reject code that does not match the state."""
    for one in form.arguments:
        if one.check is not None:
            one.check(code[one.name], body, where)
        if one.role == "given" and (code[one.name] is not None) != one.was_given(body):
            was = "with" if one.was_given(body) else "without"
            raise ValueError(f"{one.name} must be given if and only if it was: {where} was saved {was} it")


def check_given(
    form: Form, given: dict[str, Any], body: dict[str, Any], seed: int | None, where: str
) -> None:
    """Reject arguments that contradict a journal; prices may change, and code is always passed again."""
    known = {one.name: one for one in form.arguments}
    core = body["core"]
    stored = {"seed": seed, **arguments_in(form, body)}
    if core["policy"] is not None:
        options = {name: storage.decode(value) for name, value in core["options"].items()}
        stored = {"seed": seed, "policy": core["policy"], **options, **arguments_in(form, body)}
    _check_free(given)
    for name, value in given.items():
        named = name == "policy" and isinstance(value, str)
        one = known.get(name)
        again = name == "policy" or (
            one is not None and (one.role != "data" or one.free or one.priced or one.promised)
        )
        if value is None or name in ("compiled", "remember", "names") or (again and not named):
            continue
        if name == "seed" and seed is None and isinstance(value, SEEDS):
            continue  # the journal has the generator that was made from it
        if named and core["policy"] is None:
            raise ValueError(
                f"policy must be a fresh {core['class']}, the object that {where} needs, got {brief(value)}"
            )
        if name in stored:
            before = stored[name]
        elif name in core["fields"]:  # an option that was left at its default
            before = storage.decode(core["fields"][name])
        else:
            raise ValueError(f"{name} must be left out: {where} was made without it, got {brief(value)}")
        same = str(before).lower() == value.lower() if named else _is_same(value, before)
        if not same:
            raise ValueError(
                f"{name} must be {brief(before)}, as in {where}, or left out, got {brief(value)}"
            )


def _check_free(given: dict[str, Any]) -> None:
    """Reject invalid values; new prices are checked again when they are taken."""
    named = {name: value for name, value in given.items() if value is not None}
    for name in ("stage_costs", "prices"):
        if name in named:
            vector(name, named[name], at_least=0.0)
    if "error_cost" in named:
        number("error_cost", named["error_cost"], above=0.0)
    if "timeout" in named:
        given["timeout"] = number("timeout", named["timeout"], above=0.0)
    if "remember" in named:
        integer("remember", named["remember"], 0)
    flag("compiled", given.get("compiled", False))


def _is_same(value: Any, known: Any) -> bool:
    value, known = (one.tolist() if isinstance(one, np.ndarray) else one for one in (value, known))
    try:
        return bool(storage.encode(value) == storage.encode(known))
    except ValueError:  # not storable in a journal
        return False


# -- the policy


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
    except (ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as error:
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


def as_made_before(policy: Any, state: dict[str, Any]) -> Any:
    """Return the policy object as if made for the prices at which the replay of a journal begins.

    The user made it for the current prices, which come with later events or after the last one.
    """
    for name in COSTS[:2]:
        known, built = state["core"]["fields"].get(name), getattr(policy, name, None)
        if isinstance(known, dict) and isinstance(built, np.ndarray):
            before = storage.decode(known)
            if before.shape == built.shape and not np.array_equal(before, built):
                policy = copy.copy(policy)
                setattr(policy, name, before)
    return policy
