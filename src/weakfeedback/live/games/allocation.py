"""The game of splitting a budget over arms, of whose outcomes only some are seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contract.decisions import checked_allocation
from weakfeedback.live import storage
from weakfeedback.live.answers import Content, fingerprint, freeze, short
from weakfeedback.live.driver import Examples, Interpreted, learns_by_choosing
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Choice, Plain
from weakfeedback.live.storage import StateError
from weakfeedback.settings.catalog import policy_class, policy_name
from weakfeedback.validate import brief, integer, number, vector

SLACK = 1e-9  # relative tolerance on the budget
MOST_NAMED = 20  # maximum number of arms named in a message
MOST_ROUNDS, MOST_AMOUNTS = 500, 10_000  # that the history keeps
OTHER = {"loss": "reward", "reward": "loss"}
# a round of the history: its number, what was given and what was seen
Past = tuple[int, np.ndarray, np.ndarray]


@dataclass(slots=True, eq=False)
class AllocationRecord:
    """The observation that belongs to a decision; ``keep`` is added when it is learned."""

    id: int
    content: Content
    seen: np.ndarray  # NaN where a report is missing
    keep: Past | None = None


class AllocationCounts(NamedTuple):
    """Counts of an allocator over K arms, apart from the policy's statistics. Immutable: a round creates new ones."""

    rounds: int
    given: np.ndarray  # the sum of what each arm got
    served: np.ndarray  # rounds in which it got anything
    seen: np.ndarray  # rounds in which something was seen there
    total: np.ndarray  # the sum of what was seen
    gaps: np.ndarray  # rounds in which its report is missing
    unlearned: int  # rounds that the policy did not learn, because it cannot handle a missing report

    @classmethod
    def of(cls, arms: int) -> AllocationCounts:
        """Return the counts before the first round."""
        whole = np.zeros(arms, dtype=np.int64)
        return cls(0, np.zeros(arms), whole, whole, np.zeros(arms), whole, 0)

    def after_round(
        self, allocation: np.ndarray, observed: np.ndarray, learned: bool = True
    ) -> AllocationCounts:
        """Count one round; NaN is a missing report."""
        gaps = np.isnan(observed)
        return AllocationCounts(
            self.rounds + 1,
            self.given + allocation,
            self.served + (allocation > 0.0),
            self.seen + (observed > 0.0),
            self.total + (np.where(gaps, 0.0, observed) if gaps.any() else observed),
            self.gaps + gaps,
            self.unlearned + (not learned),
        )

    @classmethod
    def from_state(cls, arms: int, state: Any) -> AllocationCounts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        counts = cls(**storage.restored_counts(state, cls.of(arms)._asdict()))
        numbers = np.concatenate([counts.served, counts.seen, counts.gaps, [counts.unlearned]])
        sums = np.concatenate([counts.given, counts.total])
        if (numbers < 0).any() or (numbers > counts.rounds).any() or not (sums >= 0.0).all():
            raise StateError("the counts contradict each other")
        return counts


class AllocationGame(Plain):
    """One round of an allocator. The ledger keeps a read-only array of amounts; ``kept`` is the history, and saved."""

    kind = "Allocator"
    setting = "allocation"
    needs: tuple[str, ...] = ("select", "update")
    word = "allocation"
    form = Form(
        (
            Argument("arms", "data", (int,), read=lambda body: body["names"] or body["arms"]),
            Argument("budget", "data", (int, float)),
            Argument("setting", "data", (str,)),
            Argument("response", "data", read=lambda body: response_of(body["core"]["policy"])),
        ),
        {"names": (list, type(None)), "history": (list,)},
    )

    def __init__(self, arms: int, names: tuple[str, ...] | None, budget: float, observes: str) -> None:
        self.arms, self.names, self.budget, self.observes = arms, names, budget, observes
        self.keeps = max(1, min(MOST_ROUNDS, MOST_AMOUNTS // arms))

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        numbers = freeze(np.zeros(1))
        return {"select": (), "update": (numbers, numbers)}, ()

    def bind(self, driver: Interpreted) -> None:
        self.policy = driver.policy
        self.select, self.update = driver.method("select"), driver.method("update")
        self.takes_gaps = bool(getattr(driver.policy, "takes_gaps", False))
        self.choosing_learns = learns_by_choosing(driver)

    def check(self, policy: Any, terms: Any) -> None:
        """Reject a policy object made for another problem."""
        self.check_setting(policy_name(self.setting, policy) or type(policy).__name__, policy)
        arms, budget = getattr(policy, "K", self.arms), getattr(policy, "Q", self.budget)
        rewards = getattr(policy, "reward", self.observes == "reward")
        if arms != self.arms or not math.isclose(budget, self.budget, rel_tol=SLACK):
            raise ValueError(
                f"policy must be made for {self.arms} arms and a budget of {self.budget:g}, "
                f"got one for {arms} arms and {budget:g}"
            )
        if bool(rewards) != (self.observes == "reward"):
            raise ValueError(f"policy must be made for setting={self.observes!r}, got one for the other")

    def check_setting(self, name: str, made: Any) -> None:
        """Reject a policy that learns from the other kind of feedback."""
        if self.observes not in getattr(made, "made_for", (self.observes,)):
            raise ValueError(
                f"{name} learns from {' and '.join(made.made_for)} feedback: setting must be "
                f"{OTHER[self.observes]!r} with it, got {self.observes!r}"
            )

    def choose(self, rng: np.random.Generator, counts: Any, terms: Any, *context: Any) -> Choice:
        return Choice(freeze(self._checked(self.select(rng)).astype(float)))

    def _checked(self, allocation: Any) -> np.ndarray:
        return checked_allocation(self.policy, allocation, self.arms, self.budget)

    def calls(self, decided: np.ndarray) -> tuple[int, ...]:
        return tuple(range(self.arms))

    def seen(self, observed: Any, missing: Iterable[int | str] = ()) -> np.ndarray:
        """Return what was seen at each arm, NaN where the report is missing."""
        return freeze(with_gaps(seen_values(observed, self.arms, self.names), missing, self.names))

    def record(
        self, id: int, decided: Any, outputs: Sequence[Any] | np.ndarray, terms: Any, content: Any = None
    ) -> AllocationRecord:
        """Return the record of what was `seen`."""
        seen: Any = outputs
        return AllocationRecord(id, fingerprint(seen) if content is None else content, seen)

    def teach(
        self,
        decided: np.ndarray,
        record: AllocationRecord,
        counts: AllocationCounts,
        terms: Any,
        rng: np.random.Generator,
    ) -> AllocationCounts:
        learned = self.takes_gaps or not np.isnan(record.seen).any()
        if learned:
            self.update(decided, record.seen, rng)
        record.keep = counts.rounds + 1, decided, record.seen
        return counts.after_round(decided, record.seen, learned)

    def answered(self, decided: np.ndarray, record: AllocationRecord) -> dict[str, Any]:
        gaps = np.isnan(record.seen)
        told = {"observed": np.where(gaps, 0.0, record.seen).tolist(), "digest": record.content}
        return {**told, "missing": np.flatnonzero(gaps).tolist()} if gaps.any() else told

    def record_from(self, id: int, decided: Any, body: dict[str, Any], terms: Any) -> AllocationRecord:
        seen = with_gaps(seen_values(body["observed"], self.arms), body.get("missing", ()))
        return AllocationRecord(id, body["digest"], freeze(seen))

    def encode(self, decided: np.ndarray) -> Any:
        return decided.tolist()

    def decode(self, data: Any, terms: Any) -> np.ndarray:
        return freeze(self._checked(vector("allocation", data, size=self.arms)))

    def state(self, counts: AllocationCounts, terms: Any, kept: Mapping[int, Past]) -> dict[str, Any]:
        history = [
            [round, id, given.tolist(), [None if x != x else x for x in seen.tolist()]]
            for id, (round, given, seen) in kept.items()
        ]
        return {
            "arms": self.arms,
            "names": None if self.names is None else list(self.names),
            "budget": self.budget,
            "setting": self.observes,
            "counts": storage.encoded_counts(counts, counts._fields),
            "history": history,
        }

    def restore(self, body: dict[str, Any]) -> tuple[AllocationCounts, Any, Mapping[int, Past]]:
        counts, ledger = AllocationCounts.from_state(self.arms, body["counts"]), body["core"]["ledger"]
        if counts.rounds != ledger["rounds"]:
            raise StateError("the counts contradict the ledger")
        return counts, (), self._history(body["history"], counts, ledger["next"])

    def _history(self, state: list[Any], counts: AllocationCounts, next_id: int) -> dict[int, Past]:
        if len(state) != min(self.keeps, counts.rounds):
            raise StateError("the history must hold the last rounds")
        kept: dict[int, Past] = {}
        for n, row in enumerate(state):
            if not isinstance(row, list) or len(row) != 4 or [type(x) for x in row] != [int, int, list, list]:
                raise StateError("a row of the history must hold round, id, what was given and what was seen")
            round, id, given, seen = row
            gaps = [x is None for x in seen]
            amounts = vector("given", given, size=self.arms, at_least=0.0)
            values = vector("seen", [0.0 if x is None else x for x in seen], size=self.arms, at_least=0.0)
            right = round == counts.rounds - len(state) + n + 1 and 0 < id < next_id and id not in kept
            if not right or (values > 1.0).any():
                raise StateError("the history contradicts the counts")
            values[gaps] = math.nan
            kept[id] = (round, amounts, values)
        return kept


def response_of(policy: str | None) -> str | None:
    """Return the response that a policy of the catalogue takes; None for one of the user's own."""
    return None if policy is None else getattr(policy_class("allocation", policy), "response", "threshold")


def arm_names(arms: Any) -> tuple[str, ...] | None:
    """Return the names of the arms, or None if only their number is given."""
    if isinstance(arms, np.ndarray) and arms.ndim == 1:
        arms = arms.tolist()
    if isinstance(arms, str) or not isinstance(arms, Sequence):
        return None
    names = tuple(arms)
    right = names and all(isinstance(name, str) and name.strip() for name in names)
    if not right or len(set(names)) != len(names):
        raise ValueError(f"arms must be a number, or different names, got {short(arms)}")
    return names


def seen_values(observed: Any, arms: int, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return what was seen as K numbers, 0 for nothing.

    >>> seen_values([0.5, None, float("nan")], 3).tolist(), seen_values({2: 1}, 3).tolist()
    ([0.5, 0.0, 0.0], [0.0, 0.0, 1.0])
    """
    if type(observed) is np.ndarray and observed.dtype == np.float64 and observed.shape == (arms,):
        if ((observed >= 0.0) & (observed <= 1.0)).all():
            return observed.copy()
    if isinstance(observed, Mapping):
        known = numbers_of(names)
        places = {number_of_arm("observed", arm, arms, known): value for arm, value in observed.items()}
        observed = [places.get(arm) for arm in range(arms)]
    if isinstance(observed, (str, bytes, Set)) or not np.iterable(observed):
        raise ValueError(f"observed must be {arms} numbers from 0 to 1, one per arm, got {short(observed)}")
    values = list(observed)
    if len(values) != arms:
        raise ValueError(f"observed must be {arms} numbers from 0 to 1, got {len(values)}: {short(observed)}")
    return np.array([_seen(arm, value) for arm, value in enumerate(values)])


def with_gaps(seen: np.ndarray, missing: Any, names: tuple[str, ...] | None = None) -> np.ndarray:
    """Return what was seen, with NaN for the arms whose report is missing.

    >>> with_gaps(np.array([0.5, 0.0]), [1]).tolist()
    [0.5, nan]
    """
    if isinstance(missing, (str, bytes)) or not np.iterable(missing):
        raise ValueError(f"missing must be arms, by number or name, got {short(missing)}")
    known = numbers_of(names)
    for one in missing:
        arm = number_of_arm("missing", one, seen.size, known)
        if seen[arm] > 0.0:
            raise ValueError(
                f"missing must be arms of which nothing was seen, got {brief(one)}, where something was"
            )
        seen[arm] = math.nan
    return seen


def numbers_of(names: tuple[str, ...] | None) -> dict[str, int]:
    """Return the number of each arm by its name; an empty dict if arms have no names."""
    return {} if names is None else {name: arm for arm, name in enumerate(names)}


def number_of_arm(argument: str, arm: Any, arms: int, known: dict[str, int]) -> int:
    """Return the number of an arm that is given by its number or by one of the ``known`` names.

    >>> number_of_arm("observed", "b", 2, {"a": 0, "b": 1}), number_of_arm("observed", 0, 2, {})
    (1, 0)
    """
    if not known or not isinstance(arm, str):
        return integer(f"an arm in {argument}", arm, 0, arms - 1)
    if arm not in known:
        names = ", ".join(map(brief, list(known)[:MOST_NAMED])) + (", ..." if arms > MOST_NAMED else "")
        raise ValueError(f"an arm in {argument} must be one of {names}, got {brief(arm)}")
    return known[arm]


def _seen(arm: int, value: Any) -> float:
    if type(value) is float and 0.0 <= value <= 1.0:
        return value
    if value is None or (isinstance(value, (float, np.floating)) and value != value):
        return 0.0
    if isinstance(value, (bool, np.bool_)):
        return float(value)
    seen = number(f"observed[{arm}]", value, at_least=0.0)
    if seen > 1.0:
        raise ValueError(f"observed[{arm}] must be a number from 0 to 1, or None, got {brief(value)}")
    return seen
