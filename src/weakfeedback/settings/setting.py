"""What a setting is: its name, its policies, a small problem, its instances and the forms of its problems in a file.

Each setting describes itself in its own ``setting.py``; `weakfeedback.settings.catalog` collects them. A new policy
needs its own file and one line in ``setting.py``. What the package must know about the policy is in its class:

``in_short``
    What it is, in words that fit on one line of a terminal next to its name.
``explained``
    For `explain` of a live object: one sentence on how it decides. Optional.
``sample_options``
    Values of the options that have no default, for the sample problem. Optional.
``sample_problem``
    The name of the sample problem that suits it, if it is not the first. Optional.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weakfeedback.lazy import importing
from weakfeedback.validate import brief

Words = list[tuple[str, str]]


class Policies(Mapping[str, type]):
    """The policies of a setting by name: each is a module in ``package`` and a class, as "uss_ts:UssTs".

    A module is imported when its class is first used.
    """

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self._package, self._places = package, dict(places)

    def __getitem__(self, name: str) -> type:
        module, _, cls = self._places[name].partition(":")
        found: type = getattr(importlib.import_module(f"{self._package}.{module}"), cls)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def classes(self) -> dict[str, str]:
        """The names of the classes, each with the first name of its policy: what the setting's package exports."""
        found = {place.partition(":")[2]: name for name, place in reversed(self._places.items())}
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Form:
    """One way to write a problem as a table: the arguments of a function are its keys.

    Attributes
    ----------
    make : callable
        Makes the problem.
    marks : names
        Keys that identify this form; none for the default form.
    tables : mapping
        By key: a callable whose arguments are the keys of the table expected there.
    """

    make: Callable[..., Any]
    marks: tuple[str, ...] = ()
    tables: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """Return all keys."""
        return list(inspect.signature(self.make).parameters)

    @property
    def needed(self) -> list[str]:
        """Return the keys that are required."""
        return [p.name for p in inspect.signature(self.make).parameters.values() if p.default is p.empty]


@dataclass(frozen=True)
class Setting:
    """A setting. There are those of the thesis, and two more.

    Attributes
    ----------
    name, summary : str
        Its name, and a one-line description.
    policies : mapping
        By name, the classes of its policies.
    first : names
        The arguments of policies before their own options; a policy may leave some out.
    arguments : callable
        Takes a problem; returns the values of ``first``.
    samples : mapping
        By name, functions that make a small problem, on which policies are checked and compiled. The first is used
        unless a policy names another.
    describe_problem : callable
        Takes a problem; returns what a reader should know about it, as pairs of words.
    forms : sequence of `Form`
        How a problem may be written in a file; the first form whose marks are present is used.
    told : callable
        Takes a problem; returns options that follow from it. Policies that have these options get them by default.
    listed : names
        Attributes of a problem that a list of instances shows.
    facts : names
        Attributes of a problem that a program should know: numbers, bools and words.
    in_short : mapping
        By name, words for a policy that shares its class with another.
    unlisted : mapping
        By name, classes that are not listed but understood: those of before, which files name, and the default of a
        live object that is two policies in one.
    """

    name: str
    summary: str
    policies: Policies
    first: tuple[str, ...]
    arguments: Callable[[Any], tuple[Any, ...]]
    samples: Mapping[str, Callable[[], Any]]
    describe_problem: Callable[[Any], Words]
    forms: Sequence[Form]
    told: Callable[[Any], dict[str, Any]] = lambda problem: {}  # noqa: ARG005
    listed: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    in_short: Mapping[str, str] = field(default_factory=dict)
    unlisted: Mapping[str, type] = field(default_factory=dict)

    # -- problems

    def default_problem(self) -> Any:
        """Return the small problem that suits most policies."""
        return next(iter(self.samples.values()))()

    def facts_of(self, problem: Any) -> dict[str, Any]:
        """Return what a program should know about a problem, as plain data."""
        found: dict[str, Any] = {name: getattr(problem, name, None) for name in self.facts}
        return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()}

    def form_of(self, table: Mapping[str, Any]) -> Form:
        """Return the form in which a problem is written."""
        return next(form for form in self.forms if not form.marks or any(key in table for key in form.marks))

    def instance_names(self) -> tuple[str, ...]:
        """Return the names of its instances."""
        found: tuple[str, ...] = self._instances().names()
        return found

    def describe(self, name: str) -> Any:
        """Return the description of an instance, without its data."""
        return self._instances().describe(name)

    def load(self, name: str) -> Any:
        """Return the problem with this name."""
        return self._instances().load(name)

    def _instances(self) -> Any:
        return importlib.import_module(f"weakfeedback.{self.name}.instances")

    # -- policies

    def canonical_name(self, policy: str) -> str:
        """Return the name of a policy as it is spelled here; the case does not matter."""
        hidden = [
            name for name in self.unlisted if isinstance(policy, str) and name.lower() == policy.lower()
        ]
        return hidden[0] if hidden else find_name("policy", policy, self.policies)

    def policy_class(self, policy: str) -> type:
        """Return the class of a policy."""
        name = self.canonical_name(policy)
        return self.unlisted[name] if name in self.unlisted else self.policies[name]

    def name_of(self, policy: Any) -> str | None:
        """Return the name of the class of the object ``policy`` in this setting, or None if it is not there."""
        known = (*self.policies.items(), *self.unlisted.items())
        return next((name for name, cls in known if type(policy) is cls), None)

    def words_of(self, policy: str) -> str:
        """Return what a policy is, in one line."""
        name = self.canonical_name(policy)
        return self.in_short.get(name) or str(getattr(self.policy_class(name), "in_short", ""))

    def option_names(self, policy: str) -> tuple[str, ...]:
        """Return the options of a policy: the arguments of its class without those in ``first``."""
        return tuple(
            p for p in inspect.signature(self.policy_class(policy)).parameters if p not in self.first
        )

    def make_policy(self, policy: str, /, *first: Any, **options: Any) -> Any:
        """Return a new policy; ``first`` are the values of `first`, and the policy gets those that it takes."""
        known, chosen = self.canonical_name(policy), self.policy_class(policy)
        if len(first) > len(self.first):
            words = ", ".join(self.first)
            raise ValueError(f"{known} takes {words} before its options, got {len(first)} arguments")
        parameters = inspect.signature(chosen).parameters
        given = {argument: value for argument, value in zip(self.first, first) if argument in parameters}
        allowed = [parameter for parameter in parameters if parameter not in given]
        for option in options:
            if option not in allowed:
                takes = ", ".join(allowed) or "none"
                raise ValueError(f"{option} is not an option of {known}, which takes: {takes}")
        for option in allowed:
            if option not in options and parameters[option].default is inspect.Parameter.empty:
                raise ValueError(f"{known} needs the option {option}")
        return chosen(**given, **options)

    def sample_problem(self, policy: str) -> Any:
        """Return a small problem that suits a policy."""
        name = getattr(self.policy_class(policy), "sample_problem", None)
        return self.default_problem() if name is None else self.samples[name]()

    def sample(self, policy: str) -> tuple[Any, Any]:
        """Return a small problem that suits a policy, and the policy made for it."""
        problem = self.sample_problem(policy)
        return problem, self.make(policy, problem, getattr(self.policy_class(policy), "sample_options", {}))

    def make(self, policy: str, problem: Any, options: Mapping[str, Any]) -> Any:
        """Return a new policy for a problem."""
        return self.make_policy(policy, *self.arguments(problem), **self._options(policy, problem, options))

    def parameters(self, policy: str, problem: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of a policy by name, including the defaults of those not given."""
        given = self._options(policy, problem, options)
        parameters = inspect.signature(self.policy_class(policy)).parameters
        return {name: given.get(name, parameters[name].default) for name in self.option_names(policy)}

    def _options(self, policy: str, problem: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        known = self.option_names(policy)
        return {name: value for name, value in self.told(problem).items() if name in known} | dict(options)


def exporting(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a setting's package: it exports its policies, and what homes have.

    ``homes`` has the names of each of its modules. Everything is imported when first used, ``__all__`` is made then.
    """
    importing_homes, names = importing(package, homes)

    def policies() -> Policies:
        found: Policies = importlib.import_module(f"{package}.setting").SETTING.policies
        return found

    def exported() -> list[str]:
        return sorted([*names(), *policies().classes])

    def found(name: str) -> Any:
        if name == "__all__":
            return exported()
        if name in names() or name.startswith("__") or name not in policies().classes:
            return importing_homes(name)
        return policies()[policies().classes[name]]

    return found, exported


def find_name(what: str, name: Any, names: Iterable[str]) -> str:
    """Return the matching name, whatever its case; raise a ValueError with the nearest one if there is none."""
    known = {one.lower(): one for one in names}
    if isinstance(name, str) and name.lower() in known:
        return known[name.lower()]
    message = f"{what} must be one of {', '.join(known.values())}, got {brief(name)}"
    near = difflib.get_close_matches(name.lower(), known, n=1) if isinstance(name, str) else []
    raise ValueError(f"{message}: did you mean {known[near[0]]}?" if near else message)


def in_a_row(values: Any) -> str:
    """Return numbers with four digits, separated by commas."""
    return ", ".join(f"{value:.4g}" for value in values)
