"""An experiment of the user's own: a TOML file, checked before anything is computed or written.

Every mistake is one line that names the file, the key, the value and what is allowed.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from weakfeedback.plaintext import counted, one_line
from weakfeedback.settings import SETTINGS, Setting

LIMIT_ROWS = 50_000_000
NOT_AN_OPTION = ("policy", "label")
SHOWN = r"[^\p{C}\p{Zl}\p{Zp}]"  # a character that is seen, and steers nothing

ALLOWED = {
    "title": "1 to 200 printable characters on one line",
    "setting": f"one of {', '.join(SETTINGS)}",
    "instance": "the name of an instance, as in `weakfeedback list instances`",
    "problem": "a table",
    "policies": "a list of at least one policy, each a name or a table with policy, label and options",
    "policies[]": "a name, or a table with policy, label and options",
    "policies[].policy": "the name of a policy, as in `weakfeedback list`",
    "policies[].label": "1 to 60 printable characters on one line",
    "horizon": "an integer from 1 to 10^12",
    "replications": "an integer from 1 to 10^7",
    "seed": "an integer >= 0",
    "marks": "a number of rounds to record, or a list of increasing rounds",
    "method": "rounds or events",
    "problem.bsc": "a table with errors and, if not 0.05, slip",
}


class BadFile(ValueError):
    """An experiment file that cannot be run; the message is one line."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PolicyEntry(BaseModel):
    """A policy with its options; what is not named here is an option of the policy's class."""

    model_config = ConfigDict(extra="allow", strict=True)
    policy: str
    label: str | None = Field(None, pattern=rf"^{SHOWN}{{1,60}}$")

    @property
    def options(self) -> dict[str, Any]:
        """The options given."""
        return dict(self.model_extra or {})


def _as_table(entry: Any) -> Any:
    return {"policy": entry} if isinstance(entry, str) else entry


class ExperimentFile(_Strict):
    """The keys of an experiment file."""

    title: str | None = Field(None, pattern=rf"^{SHOWN}{{1,200}}$")
    setting: str
    instance: str | None = None
    problem: dict[str, Any] | None = None
    policies: list[Annotated[PolicyEntry, BeforeValidator(_as_table)]] = Field(min_length=1)
    horizon: int = Field(10_000, ge=1, le=10**12)
    replications: int = Field(100, ge=1, le=10**7)
    seed: int = Field(0, ge=0)
    marks: int | list[int] = 200
    method: Literal["rounds", "events"] = "rounds"


class Law(_Strict):
    """A cascade given by the law of its outcomes."""

    outcomes: Any
    probabilities: Any
    costs: Any
    tradeoff: Any = 1.0

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.cascade import CascadeProblem

        return CascadeProblem(self.outcomes, self.probabilities, self.costs, self.tradeoff)


class Channel(_Strict):
    """The keys of ``bsc``."""

    errors: Any
    slip: Any = 0.05


class Bsc(_Strict):
    """A cascade of binary symmetric channels."""

    bsc: Channel
    costs: Any
    tradeoff: Any = 1.0

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.cascade import CascadeProblem

        return CascadeProblem.bsc(self.bsc.errors, self.costs, self.bsc.slip, self.tradeoff)


class Data(_Strict):
    """A cascade given by the predictions of its arms on a data set."""

    truth: Any
    predictions: Any
    costs: Any
    tradeoff: Any = 1.0

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.cascade import CascadeProblem

        return CascadeProblem.from_predictions(self.truth, self.predictions, self.costs, self.tradeoff)


class Allocation(_Strict):
    """A budget over arms with thresholds."""

    means: Any
    thresholds: Any
    budget: Any
    setting: Any = "loss"
    rewards: Any = "bernoulli"

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.allocation import AllocationProblem

        return AllocationProblem(self.means, self.thresholds, self.budget, self.setting, self.rewards)


class Players(_Strict):
    """Players who share channels."""

    means: Any
    players: Any
    shuffle: Any = True
    rewards: Any = "bernoulli"

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.multiplayer import MultiplayerProblem

        return MultiplayerProblem(self.means, self.players, self.shuffle, self.rewards)


class Context(_Strict):
    """A cascade with context, its arms given by logistic models."""

    contexts: Any
    truth: Any
    parameters: Any
    costs: Any
    labels: Any = "random"
    intercepts: Any = None

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.contextual import ContextualProblem

        given = (self.contexts, self.truth, self.parameters, self.costs)
        return ContextualProblem(*given, labels=self.labels, intercepts=self.intercepts)


class Realizable(_Strict):
    """A cascade with context, its disagreements given by logistic models."""

    contexts: Any
    pair_parameters: Any
    costs: Any
    regret: Any = "signed"

    def make(self) -> Any:
        """Make the problem."""
        from weakfeedback.contextual import RealizableProblem

        return RealizableProblem(self.contexts, self.pair_parameters, self.costs, regret=self.regret)


# By setting: the forms of the problem table, each with the keys that give it away; the last one is the default.
FORMS: dict[str, list[tuple[tuple[str, ...], type[_Strict]]]] = {
    "cascade": [(("bsc",), Bsc), (("truth", "predictions"), Data), ((), Law)],
    "contextual": [(("pair_parameters",), Realizable), ((), Context)],
    "allocation": [((), Allocation)],
    "multiplayer": [((), Players)],
}


@dataclass(frozen=True)
class UserExperiment:
    """An experiment that is ready to run."""

    name: str
    title: str
    setting: Setting
    instance: str  # "" when the problem is the file's own
    problem: Any
    policies: dict[str, Any]
    parameters: dict[str, dict[str, Any]]
    horizon: int
    replications: int
    seed: int
    marks: Any
    text: str
    method: str = "rounds"


def read_experiment(path: str | Path) -> UserExperiment:
    """Read and check an experiment file; raise ``BadFile`` with one line if anything is wrong with it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        return _experiment(path.stem, text, tomllib.loads(text))
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadFile(f"{path}: is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path}: is not TOML: {_line(error)}") from None
    except RecursionError:
        raise BadFile(f"{path}: is nested too deeply") from None
    except ValidationError as error:
        raise BadFile(f"{path}: {_first(error)}") from None
    except ValueError as error:
        raise BadFile(f"{path}: {_line(error)}") from None


def _experiment(name: str, text: str, content: dict[str, Any]) -> UserExperiment:
    from weakfeedback.engine.loop import refuse_events
    from weakfeedback.engine.simulate import mark_rounds

    _known_keys(content, list(ExperimentFile.model_fields), "")
    file = ExperimentFile.model_validate(content)
    if file.setting not in SETTINGS:
        raise ValueError(
            f"setting must be {ALLOWED['setting']}, got {file.setting!r}{_near(file.setting, SETTINGS)}"
        )
    setting = SETTINGS[file.setting]
    if (file.instance is None) == (file.problem is None):
        given = "both" if file.problem is not None else "neither"
        raise ValueError(f"give either instance (a name) or a [problem] table, got {given}")
    rows = len(mark_rounds(file.marks, file.horizon)) if _small(file.marks) else LIMIT_ROWS
    rows *= file.replications * len(file.policies)
    if rows > LIMIT_ROWS:
        raise ValueError(
            f"policies * replications * marks must be at most {LIMIT_ROWS:,}, got "
            f"{counted(len(file.policies), 'policy', 'policies')}, replications = {file.replications}, "
            f"marks = {_brief(file.marks)}"
        )
    problem = setting.load(file.instance) if file.instance is not None else _problem(file)
    policies, parameters = _policies(setting, problem, file.policies)
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
    )


def _small(marks: int | list[int]) -> bool:
    return isinstance(marks, list) or marks <= LIMIT_ROWS


def _problem(file: ExperimentFile) -> Any:
    table = file.problem or {}
    form = next(form for keys, form in FORMS[file.setting] if not keys or any(key in table for key in keys))
    _known_keys(table, list(form.model_fields), "problem.")
    if isinstance(table.get("bsc"), dict):
        _known_keys(table["bsc"], list(Channel.model_fields), "problem.bsc.")
    try:
        return form.model_validate(table).make()  # type: ignore[attr-defined]
    except ValidationError as error:
        raise ValueError(_first(error, "problem.")) from None
    except ValueError as error:
        raise ValueError(f"problem: {_line(error)}") from None


def _policies(setting: Setting, problem: Any, entries: list[PolicyEntry]) -> tuple[dict, dict]:
    from weakfeedback.catalog import canonical_name

    policies: dict[str, Any] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for k, entry in enumerate(entries):
        try:
            name = canonical_name(setting.name, entry.policy)
            policy = setting.make(name, problem, entry.options)
            given = ", ".join(f"{option}={value}" for option, value in entry.options.items())
            label = entry.label or one_line(f"{name}({given})" if given else name, 200)
        except ValueError as error:
            raise ValueError(f"policies[{k}]: {_line(error)}") from None
        if label in policies:
            raise ValueError(f"policies[{k}]: label must be different for every policy, got {label!r} twice")
        policies[label] = policy
        parameters[label] = {"policy": name, **setting.parameters(name, problem, entry.options)}
    return policies, parameters


def _known_keys(table: dict[str, Any], known: list[str], prefix: str) -> None:
    for key in table:
        if key not in known:
            near = _near(key, known)
            named = one_line(f"{prefix}{key}", 80)
            raise ValueError(f"{named} is not a known key{near}; allowed: {', '.join(known)}")


def _near(word: str, known: Any) -> str:
    near = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _first(error: ValidationError, prefix: str = "") -> str:
    """The first of pydantic's complaints, in our words."""
    first = error.errors(include_url=False)[0]
    place, pattern = prefix, prefix
    for step in first["loc"]:
        if isinstance(step, int):
            place, pattern = f"{place.rstrip('.')}[{step}].", f"{pattern.rstrip('.')}[]."
        elif step not in ("int", "list[int]"):  # the branches of marks
            place, pattern = f"{place}{step}.", f"{pattern}{step}."
    place, pattern = place.rstrip("."), pattern.rstrip(".")
    allowed = ALLOWED.get(pattern) or ALLOWED.get(pattern.removesuffix("[]"), "")
    if first["type"] == "missing":
        return f"{place} is missing" + (f"; it must be {allowed}" if allowed else "")
    return f"{place} must be {allowed or first['msg']}, got {_brief(first['input'])}"


def _line(error: Exception) -> str:
    return one_line(str(error))


def _brief(value: Any) -> str:
    return one_line(repr(value), 80)
