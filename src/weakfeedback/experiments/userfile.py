"""A user's experiment file in TOML, validated before anything is computed or written.

Every mistake is one line that names the file, the key, the value and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from weakfeedback.plaintext import counted, one_line
from weakfeedback.settings.catalog import SETTINGS
from weakfeedback.settings.setting import Form, Setting
from weakfeedback.toml import BadFile, Table, fitted, near, read_toml
from weakfeedback.validate import brief

if TYPE_CHECKING:
    from weakfeedback.experiments.ownpolicy import OwnPolicy

LIMIT_ROWS = 50_000_000
LIMIT_VALUES = 100
NOT_AN_OPTION = ("policy", "label")
SWEPT = ("horizon",)  # keys of the file that may be swept
SHOWN = r"[^\p{C}\p{Zl}\p{Zp}]"  # a printable character


def as_table(entry: Any) -> Any:
    """Return an entry of the policies, which can be a name alone, as a table."""
    return {"policy": entry} if isinstance(entry, str) else entry


class PolicyEntry(Table):
    """A policy with its options; any other key is an option of the policy's class."""

    model_config = ConfigDict(extra="allow")
    policy: str = Field(description="the name of a policy, as in `weakfeedback list`")
    label: str | None = Field(
        default=None, pattern=rf"^{SHOWN}{{1,60}}$", description="1 to 60 printable characters on one line"
    )

    @model_validator(mode="before")
    @classmethod
    def _as_table(cls, entry: Any) -> Any:
        return as_table(entry)

    @property
    def options(self) -> dict[str, Any]:
        """Return the options given."""
        return dict(self.model_extra or {})


class ExperimentFile(Table):
    """The keys of an experiment file."""

    title: str | None = Field(
        default=None, pattern=rf"^{SHOWN}{{1,200}}$", description="1 to 200 printable characters on one line"
    )
    setting: str = Field(description=f"one of {', '.join(SETTINGS)}")
    instance: str | None = Field(
        default=None, description="the name of an instance, as in `weakfeedback list instances`"
    )
    problem: dict[str, Any] | None = Field(default=None, description="a table")
    policies: list[PolicyEntry] = Field(
        min_length=1,
        description="a list of at least one policy, each a name or a table with policy, label and options",
    )
    horizon: int = Field(default=10_000, ge=1, le=10**12, description="an integer from 1 to 10^12")
    replications: int = Field(default=100, ge=1, le=10**7, description="an integer from 1 to 10^7")
    seed: int = Field(default=0, ge=0, description="an integer >= 0")
    marks: int | list[int] = Field(
        default=200, description="a number of rounds to record, or a list of increasing rounds"
    )
    method: Literal["rounds", "events"] = Field(default="rounds", description="rounds or events")
    sweep: dict[str, Any] | None = Field(
        default=None, description="a table with one key and a list of values"
    )


@dataclass(frozen=True)
class UserExperiment:
    """An experiment that is ready to run."""

    name: str
    title: str
    setting: Setting
    instance: str  # "" when the file defines the problem
    problem: Any
    policies: dict[str, Any]
    parameters: dict[str, dict[str, Any]]
    horizon: int
    replications: int
    seed: int
    marks: Any
    text: str
    method: str = "rounds"
    own_code: bool = False  # some policy is not from this package
    sweep: Sweep | None = None


@dataclass(frozen=True)
class Sweep:
    """One key of an experiment with several values, and the experiment for each of them."""

    key: str
    values: tuple[Any, ...]
    experiments: tuple[UserExperiment, ...]


def read_experiment(path: str | Path, allow_code: bool = False) -> UserExperiment:
    """Read and check an experiment file; raise ``BadFile`` with one line if anything is wrong with it.

    A policy called MODULE:NAME is imported, and therefore run, only with ``allow_code``. For a sweep the experiment
    with the first value is returned; its ``sweep`` has all values.
    """
    path = Path(path)
    text, content = read_toml(path)
    try:
        _check_keys(content, list(ExperimentFile.model_fields), "")
        if content.get("sweep") is None:
            return _experiment(path.stem, text, content, allow_code)
        return _read_sweep(path.stem, text, content, allow_code)
    except ValueError as error:
        raise BadFile(f"{path}: {one_line(str(error))}") from None


def _experiment(
    name: str,
    text: str,
    content: dict[str, Any],
    allow_code: bool,
    place: Place | None = None,
    times: int = 1,
) -> UserExperiment:
    """Return the experiment of a file, or one of the ``times`` experiments of a sweep."""
    from weakfeedback.engine.loop import refuse_events
    from weakfeedback.engine.simulate import mark_rounds

    file = fitted(ExperimentFile, content)
    if file.setting not in SETTINGS:
        raise ValueError(
            f"setting must be one of {', '.join(SETTINGS)}, got {file.setting!r}{near(file.setting, SETTINGS)}"
        )
    setting = SETTINGS[file.setting]
    if (file.instance is None) == (file.problem is None):
        given = "both" if file.problem is not None else "neither"
        raise ValueError(f"give either instance (a name) or a [problem] table, got {given}")
    small = isinstance(file.marks, list) or file.marks <= LIMIT_ROWS
    rows = len(mark_rounds(file.marks, file.horizon)) if small else LIMIT_ROWS
    rows *= file.replications * len(file.policies) * times
    if rows > LIMIT_ROWS:
        values = f", {counted(times, 'value')}" if times > 1 else ""
        raise ValueError(
            f"policies * replications * marks must be at most {LIMIT_ROWS:,}, got "
            f"{counted(len(file.policies), 'policy', 'policies')}, replications = {file.replications}, "
            f"marks = {brief(file.marks)}{values}"
        )
    problem = setting.load(file.instance) if file.instance is not None else _problem(file)
    policies, parameters = _policies(setting, problem, file.policies, allow_code, place)
    if file.method == "events":
        for label, policy in policies.items():
            refuse_events(problem, label, policy)
    return UserExperiment(
        name=name,
        title=file.title or name,
        setting=setting,
        instance=setting.describe(file.instance).name if file.instance is not None else "",
        problem=problem,
        policies=policies,
        parameters=parameters,
        horizon=file.horizon,
        replications=file.replications,
        seed=file.seed,
        marks=file.marks,
        text=text,
        method=file.method,
        own_code=any(_is_code(entry.policy) for entry in file.policies),
    )


def _read_sweep(name: str, text: str, content: dict[str, Any], allow_code: bool) -> UserExperiment:
    """Return the experiment of a file with a sweep."""
    plain = {word: value for word, value in content.items() if word != "sweep"}
    table = content["sweep"]
    if not isinstance(table, dict) or len(table) != 1:
        raise ValueError(f"sweep must be a table with one key and a list of values, got {brief(table)}")
    ((key, values),) = table.items()
    place = one_line(f"sweep.{key}", 80)
    if not isinstance(values, list) or not 2 <= len(values) <= LIMIT_VALUES:
        raise ValueError(f"{place} must be a list of 2 to {LIMIT_VALUES} values, got {brief(values)}")
    if any(value in values[:k] for k, value in enumerate(values)):
        raise ValueError(f"{place} must be different values, got {brief(values)}")
    where = _place_of(key, plain, allow_code)
    found = []
    for value in values:
        try:
            made = _experiment(name, text, where.put(value), allow_code, where, len(values))
        except ValueError as error:
            raise ValueError(f"{place} = {brief(value)}: {error}") from None
        found.append(made)
    sweep = Sweep(key, tuple(values), tuple(found))
    return replace(found[0], sweep=sweep)


@dataclass(frozen=True)
class Place:
    """The target of a swept value: ``put`` returns the file with the value; ``policies`` are those that take it."""

    key: str
    put: Callable[[Any], dict[str, Any]]
    policies: tuple[int, ...] = ()


def _place_of(key: str, content: dict[str, Any], allow_code: bool) -> Place:
    """Return the place of a key: the horizon, an argument of the problem, or an option of policies."""
    if key in SWEPT:
        return Place(key, lambda value: {**content, key: value})
    file = fitted(ExperimentFile, content)
    arguments = [] if file.problem is None or file.setting not in SETTINGS else _form(file).keys
    if key in arguments:
        return Place(key, lambda value: {**content, "problem": {**content["problem"], key: value}})
    takers = [k for k, entry in enumerate(file.policies) if _takes(file.setting, entry, key, allow_code)]
    if not takers:
        known = [*SWEPT, *arguments]
        raise ValueError(
            f"{one_line(f'sweep.{key}', 80)} is neither one of {', '.join(known)} nor an option that a policy of the "
            f"file takes and does not set itself{near(key, known)}"
        )

    def put(value: Any) -> dict[str, Any]:
        entries = list(content["policies"])
        for k in takers:
            entries[k] = {**as_table(entries[k]), key: value}
        return {**content, "policies": entries}

    return Place(key, put, tuple(takers))


def _takes(setting: str, entry: PolicyEntry, option: str, allow_code: bool) -> bool:
    """Whether a policy takes an option and does not set it itself."""
    if option in entry.options or option in NOT_AN_OPTION:
        return False
    if _is_code(entry.policy):
        return option in _import_policy(entry.policy, allow_code).option_names()
    return setting in SETTINGS and option in SETTINGS[setting].option_names(entry.policy)


def _form(file: ExperimentFile) -> Form:
    return SETTINGS[file.setting].form_of(file.problem or {})


def _problem(file: ExperimentFile) -> Any:
    table, form = file.problem or {}, _form(file)
    _check_table("problem", table, form)
    try:
        return form.make(**table)
    except ValueError as error:
        raise ValueError(f"problem: {error}") from None


def _check_table(place: str, table: Any, form: Form) -> None:
    """Check the keys of the table of the problem, and of the tables inside it."""
    if not isinstance(table, dict):
        raise ValueError(f"{place} must be a table with {' and '.join(form.keys)}, got {brief(table)}")
    _check_keys(table, form.keys, f"{place}.")
    for key, inner in form.tables.items():
        if key in table:
            _check_table(f"{place}.{key}", table[key], Form(inner))
    for key in form.needed:
        if key not in table:
            raise ValueError(f"{place}.{key} must be given")


def _policies(
    setting: Setting, problem: Any, entries: list[PolicyEntry], allow_code: bool, place: Place | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    from weakfeedback.engine.loop import loop_for

    policies: dict[str, Any] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for k, entry in enumerate(entries):
        try:
            if _is_code(entry.policy):
                name, policy, known = _make_own_policy(entry, problem, allow_code)
            else:
                name, policy, known = _make_known_policy(setting, entry, problem)
            loop_for(problem, policy).fits(problem, policy)
            label = entry.label or _automatic_label(name, k, entries, place)
        except ValueError as error:
            raise ValueError(f"policies[{k}]: {error}") from None
        if label in policies:
            raise ValueError(f"policies[{k}]: label must be different for every policy, got {label!r} twice")
        policies[label] = policy
        parameters[label] = known
    return policies, parameters


def _automatic_label(name: str, k: int, entries: list[PolicyEntry], place: Place | None) -> str:
    """Return the policy's name with the options in which it differs from other entries of the same policy."""

    def shown(j: int) -> dict[str, Any]:
        # the same for all its values
        swept = place.key if place is not None and j in place.policies else None
        return {option: value for option, value in entries[j].options.items() if option != swept}

    same = [shown(j) for j, other in enumerate(entries) if other.policy.lower() == entries[k].policy.lower()]
    differing = {
        option: value
        for option, value in shown(k).items()
        if any(option not in other or repr(other[option]) != repr(value) for other in same)
    }
    given = ", ".join(f"{option}={value}" for option, value in differing.items())
    return one_line(f"{name}({given})" if given else name, 200)


def _make_known_policy(setting: Setting, entry: PolicyEntry, problem: Any) -> tuple[str, Any, dict[str, Any]]:
    name = setting.canonical_name(entry.policy)
    policy = setting.make(name, problem, entry.options)
    return name, policy, {"policy": name, **setting.parameters(name, problem, entry.options)}


def _is_code(policy: str) -> bool:
    """Whether a name is MODULE:NAME; no policy of this package has a colon in its name."""
    return ":" in policy


def _make_own_policy(entry: PolicyEntry, problem: Any, allow_code: bool) -> tuple[str, Any, dict[str, Any]]:
    policy = _import_policy(entry.policy, allow_code).make(problem, entry.options)
    return entry.policy.rpartition(":")[2], policy, {"policy": entry.policy, **entry.options}


def _import_policy(words: str, allow_code: bool) -> OwnPolicy:
    """Import what MODULE:NAME names; refused unless code may be run."""
    from weakfeedback.experiments.ownpolicy import OwnPolicy

    if not allow_code:
        raise ValueError(
            f"{brief(words)} is code that would be run: give --allow-code if you trust this file and that module"
        )
    return OwnPolicy(words)


def _check_keys(table: dict[str, Any], known: list[str], prefix: str) -> None:
    for key in table:
        if key not in known:
            hint = near(key, known) or f"{'' if prefix else _misplaced(key)}; allowed: {', '.join(known)}"
            raise ValueError(f"{one_line(f'{prefix}{key}', 80)} is not known{hint}")


def _misplaced(key: str) -> str:
    """The table that a key belongs into, if it is an argument of problems."""
    inside = any(key in form.keys for setting in SETTINGS.values() for form in setting.forms)
    return " here: it goes into the table [problem]" if inside else ""
