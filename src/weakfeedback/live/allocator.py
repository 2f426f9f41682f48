"""A live allocator: splits a budget over arms in every round, and observes only some of the outcomes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.contract.decisions import checked_allocation
from weakfeedback.live import storage
from weakfeedback.live.allocation_report import (
    AllocationReport,
    History,
    make_allocation_report,
)
from weakfeedback.live.base import Live
from weakfeedback.live.counts import AllocationCounts
from weakfeedback.live.driver import Examples
from weakfeedback.live.labels import freeze, short
from weakfeedback.live.ledger import UnknownDecision, fingerprint
from weakfeedback.live.report import counted
from weakfeedback.live.storage import StateError
from weakfeedback.settings.catalog import make_policy, option_names, policy_class
from weakfeedback.validate import brief, integer, number, vector

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SLACK = 1e-9  # relative tolerance on the budget
LEGEND = 16  # maximum number of arms named beside a plot
MOST_NAMED = 20  # maximum number of arms named in a message
OTHER = {"loss": "reward", "reward": "loss"}
STATE: dict[str, type | tuple[type, ...]] = {
    "core": dict,
    "counts": dict,
    "arms": int,
    "names": (list, type(None)),
    "budget": (int, float),
    "setting": str,
    "history": list,
}


@dataclass(frozen=True, slots=True, eq=False)
class Allotment:
    """A decision: give ``allocation[i]`` to arm i, and report what was seen as feedback under ``id``."""

    id: int
    allocation: np.ndarray
    names: tuple[str, ...] | None = None

    @property
    def amounts(self) -> dict[Any, float]:
        """What each arm gets, by its name or number."""
        keys = range(self.allocation.size) if self.names is None else self.names
        return dict(zip(keys, self.allocation.tolist()))


@dataclass(frozen=True, slots=True, eq=False)
class AllocationRecord:
    """The observation that belongs to a decision."""

    id: int
    content: str
    seen: np.ndarray


class Allocator(Live):
    """Splits a budget over K arms whose needs are unknown, in every round (thesis, chapter 4).

    Each arm has a threshold, the same in all rounds. Losses are seen only at arms that got less than their threshold,
    rewards only at arms that got enough. So seeing nothing at an arm has two possible causes, and a policy must tell
    them apart.

    Feedback may come late and in any order if the policy is ``delay_safe``, as all policies named here are; with other
    policies, `decide` raises `PendingDecision` while a decision is open. Safe to use from several threads. Memory does
    not grow with the number of rounds.

    Parameters
    ----------
    arms : integer >= 1, or names
        The number of arms, or their names: different strings. Decisions, feedback and reports then use the names.
    budget : number > 0
    policy : name or policy object
        Losses or rewards: "CSB-TS" (several thresholds; ``step`` is its resolution), "CSB-TS-same" (one threshold for
        all arms), "Known" (the thresholds are given). Losses: "CSB-SK", "CSB-ST", "CSB-SU" (one threshold), "CSB-MK",
        "CSB-DT", "CSB-DU" (several). Rewards: "NUM-SK", "NUM-MK". Options of the policy are passed by name. Or an
        object made for these arms and this budget, which belongs to the allocator from then on.
    setting : "loss" or "reward"
        What is observed.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the policy's generator; fresh entropy if None. A Generator must use PCG64, and is not copied.
    compiled, remember
        As for `Cascade`.

    Examples
    --------
    Four patrols for eight places; half a patrol makes a place safe, so all eight can be safe.

    >>> allocator = Allocator(8, budget=4.0, policy="CSB-SU", seed=0)
    >>> for _ in range(20):
    ...     decision = allocator.decide()
    ...     outcome = allocator.feedback(decision.id, [None if a >= 0.5 else 1.0 for a in decision.allocation])
    >>> decision.allocation.tolist()
    [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]

    Power for three channels that need different amounts; the budget is enough for two. Rewards are what arrives:

    >>> needed = np.array([0.3, 0.7, 0.5])
    >>> allocator = Allocator(3, budget=0.85, setting="reward", seed=0)
    >>> for _ in range(300):
    ...     decision = allocator.decide()
    ...     outcome = allocator.feedback(decision.id, (decision.allocation >= needed).astype(float))
    >>> (decision.allocation >= needed).tolist(), allocator.report().thresholds.round(2).tolist()
    ([True, False, True], [0.3, 0.64, 0.5])
    """

    kind = "Allocator"
    setting = "allocation"
    form = STATE

    def __init__(
        self,
        arms: int | Sequence[str] | np.ndarray,
        budget: float,
        policy: Any = "CSB-TS",
        setting: str = "loss",
        seed: Any = None,
        *,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        self._names = arm_names(arms)
        self._arms = integer("arms", arms, 1) if self._names is None else len(self._names)
        self._budget = number("budget", budget, above=0.0)
        if not isinstance(setting, str) or setting not in OTHER:
            raise ValueError(f"setting must be 'loss' or 'reward', got {brief(setting)}")
        self._observes = setting
        super().__init__(policy, self._made, ("select", "update"), seed, options, compiled, remember)
        self._check_policy()
        self._counts: AllocationCounts = AllocationCounts.of(self._arms)
        self._history = History(self._arms)

    def _made(self, name: str, **options: Any) -> Any:
        self._check_setting(name, policy_class("allocation", name))
        told = {"setting": self._observes} if "setting" in option_names("allocation", name) else {}
        return make_policy("allocation", name, self._arms, self._budget, **told, **options)

    def __repr__(self) -> str:
        arms, rounds = counted(self._arms, "arm"), counted(self._ledger.rounds, "round")
        return f"<Allocator of {self._budget:g} over {arms}, {self._label}, {rounds}>"

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        numbers = freeze(np.zeros(1))
        return {"select": (), "update": (numbers, numbers)}, ()

    def _bind(self) -> None:
        self._select = self._driver.method("select")
        self._update = self._driver.method("update")

    # -- rounds

    def decide(self) -> Allotment:
        """Return what each arm gets in this round: numbers >= 0 whose sum is at most the budget, up to rounding."""
        id, allocation = self._decide()
        if self._log is not None:
            self._give_out(id)
        return Allotment(id, allocation.copy(), self._names)

    def _choose(self, *context: Any) -> tuple[np.ndarray, None]:
        return freeze(self._checked(self._select(self._rng)).astype(float)), None

    def _checked(self, allocation: Any) -> np.ndarray:
        return checked_allocation(self._driver.policy, allocation, self._arms, self._budget)

    def feedback(self, id: int, observed: Any, missing: Iterable[int | str] = ()) -> str:
        """Learn what was seen under a decision. Feedback may come at any time and in any order.

        ``observed`` has one number from 0 to 1 per arm: the loss or reward that was seen. None, NaN and 0 all mean that
        nothing was seen there: nothing happened, or it stayed hidden. A mapping from arms, or from their names, to
        numbers is also accepted; nothing was seen at arms that are left out.

        ``missing`` are the arms, by number or name, whose report is missing. Nothing is learned about them, and
        ``observed`` must have nothing for them. A policy that needs a report from every arm (all but CSB-TS,
        CSB-TS-same and Known) learns nothing from such a round; the round still counts.

        Return "accepted", or "duplicate" if the same feedback was given before. `FeedbackConflict`, `UnknownDecision`
        and ValueError leave everything unchanged.
        """
        seen = freeze(with_gaps(seen_values(observed, self._arms, self._names), missing, self._names))
        digest = fingerprint(seen)
        with self._ledger.lock:
            self._recover()
            duplicate = self._ledger.awaited(id, digest) is None
            if not duplicate:
                self._learn([AllocationRecord(int(id), digest, seen)])
        self._acknowledge()
        return "duplicate" if duplicate else "accepted"

    def _teach(
        self, decided: np.ndarray, record: AllocationRecord, counts: AllocationCounts
    ) -> AllocationCounts:
        learned = getattr(self._driver.policy, "takes_gaps", False) or not np.isnan(record.seen).any()
        if learned:
            self._update(decided, record.seen, self._rng)
        return counts.after_round(record.id, decided, record.seen, learned)

    def _set_counts(self, counts: AllocationCounts) -> None:
        first = counts.rounds - len(counts.news) + 1
        for n, (id, allocation, seen) in enumerate(counts.news):
            self._history.add(first + n, id, allocation, seen)
        super()._set_counts(counts._replace(news=()))

    def _decision_event(self, decided: np.ndarray) -> dict[str, Any]:
        return {"allocation": decided.tolist()}

    def _answer_event(self, decided: np.ndarray, record: AllocationRecord) -> dict[str, Any]:
        gaps = np.isnan(record.seen)
        told = {"observed": np.where(gaps, 0.0, record.seen).tolist(), "digest": record.content}
        return {**told, "missing": np.flatnonzero(gaps).tolist()} if gaps.any() else told

    def _decoded(self, body: dict[str, Any]) -> np.ndarray:
        return self._decode_decision(body["allocation"])

    def _record_from_event(self, id: int, decided: np.ndarray, body: dict[str, Any]) -> AllocationRecord:
        seen = with_gaps(seen_values(body["observed"], self._arms), body.get("missing", ()))
        return AllocationRecord(id, body["digest"], freeze(seen))

    @classmethod
    def _arguments_of(cls, state: dict[str, Any]) -> dict[str, Any]:
        own = {name: state[name] for name in ("arms", "budget", "setting")}
        if state["names"] is not None:
            own["arms"] = state["names"]
        return {**super()._arguments_of(state), **own}

    # -- what was done

    def decision(self, id: int) -> Allotment:
        """Return a past decision: a pending one, or one of those in `history`."""
        with self._ledger.lock:
            self._recover()
            try:
                allocation = self._ledger.decided(id)
            except UnknownDecision as error:
                if id not in self._history.kept:
                    raise UnknownDecision(
                        f"{error}; the history has the last {self._history.most} rounds"
                    ) from None
                allocation = self._history.kept[int(id)][1]
        return Allotment(int(id), np.array(allocation), self._names)

    def history(self) -> pd.DataFrame:
        """Return the last rounds that were answered as a table: round, id, arm, given and seen.

        There is a row for each arm of each round; the rounds are in the order in which they were answered. ``seen`` is
        0 where nothing was seen and NaN where the report is missing. The last 500 rounds are kept (fewer with more than
        20 arms: 10,000 amounts in total). They are saved, and recovered from a journal, with everything else.
        """
        with self._ledger.lock:
            self._recover()
            return self._history.table(self._names)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what each arm got in the rounds of `history` as a stacked plot, with a line for the budget.

        The plot has a legend if there are at most 16 arms.
        """
        table = self.history()
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        rounds = table["round"].to_numpy().reshape(-1, self._arms)[:, 0]
        given = table["given"].to_numpy().reshape(-1, self._arms)
        names = [str(arm).replace("$", r"\$") for arm in self._names or range(self._arms)]
        if rounds.size:
            ax.stackplot(rounds, given.T, labels=names, step="mid")
        ax.axhline(self._budget, color="#1f2933", linewidth=1.0, linestyle="--", label="budget")
        ax.set_xlabel("round")
        ax.set_ylabel("given")
        ax.set_ylim(0.0, 1.05 * self._budget)
        if self._arms <= LEGEND:
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        return ax

    # -- what was learned

    def report(self) -> AllocationReport:
        """Return what each arm got, what was observed and what was learned; ``print`` it for a table."""
        with self._ledger.lock:
            self._recover()
            pending, policy = len(self._ledger.pending), self._driver.write_back()
            return make_allocation_report(
                self._label, policy, self._budget, self._observes, pending, self._counts, self._names
            )

    # -- saving

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        policy: Any = None,
        compiled: bool = False,
        fresh_ids: bool = False,
    ) -> Allocator:
        """Return the allocator that was saved to ``path``; it decides as if it had never stopped.

        A policy that was given as an object may have options that are not in the file: pass a fresh object. A file that
        cannot be used raises `StateError`.

        The file does not record ids that were issued after it was written. If there may be any (after a crash, or if
        a second object was loaded from the same file), pass ``fresh_ids=True``: ids then continue after a random gap,
        so that a late answer to one of those decisions is refused and not taken for another. `open` does not need this.
        """
        return cls._load(path, {}, policy, compiled, fresh_ids)

    @classmethod
    def from_state(cls, state: dict[str, Any], *, policy: Any = None, compiled: bool = False) -> Allocator:
        """Return the allocator that gave ``state``. See `load`."""
        return cls._made_again(storage.checked_copy(state), {}, policy, compiled, "the state")

    @classmethod
    def _arguments_in(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "arms": body["names"] or body["arms"],
            "budget": body["budget"],
            "setting": body["setting"],
        }

    def _state(self) -> dict[str, Any]:
        return {
            "arms": self._arms,
            "names": None if self._names is None else list(self._names),
            "budget": self._budget,
            "setting": self._observes,
            "counts": self._counts.state(),
            "history": self._history.state(),
        }

    def _check_state(self, body: dict[str, Any]) -> None:
        super()._check_state(body)
        counts, ledger = AllocationCounts.from_state(self._arms, body["counts"]), body["core"]["ledger"]
        if counts.rounds != ledger["rounds"]:
            raise StateError("the counts contradict the ledger")
        History.from_state(self._arms, body["history"], counts, ledger["next"])

    def _restore(self, body: dict[str, Any]) -> None:
        self._restore_core(body["core"])
        self._check_policy()
        self._counts = AllocationCounts.from_state(self._arms, body["counts"])
        if self._counts.rounds != self._ledger.rounds:
            raise StateError("the counts contradict the ledger")
        self._history = History.from_state(self._arms, body["history"], self._counts, self._ledger.next)

    def _encode_decision(self, decided: np.ndarray) -> list[float]:
        found: list[float] = decided.tolist()
        return found

    def _decode_decision(self, data: Any) -> np.ndarray:
        return freeze(self._checked(vector("allocation", data, size=self._arms)))

    # -- checks

    def _check_setting(self, name: str, made: Any) -> None:
        if self._observes not in getattr(made, "made_for", (self._observes,)):
            raise ValueError(
                f"{name} learns from {' and '.join(made.made_for)} feedback: setting must be "
                f"{OTHER[self._observes]!r} with it, got {self._observes!r}"
            )

    def _check_policy(self) -> None:
        """Reject a policy object made for another problem."""
        policy = self._driver.policy
        self._check_setting(self._label, policy)
        arms, budget = getattr(policy, "K", self._arms), getattr(policy, "Q", self._budget)
        rewards = getattr(policy, "reward", self._observes == "reward")
        if arms != self._arms or not math.isclose(budget, self._budget, rel_tol=SLACK):
            raise ValueError(
                f"policy must be made for {self._arms} arms and a budget of {self._budget:g}, "
                f"got one for {arms} arms and {budget:g}"
            )
        if bool(rewards) != (self._observes == "reward"):
            raise ValueError(f"policy must be made for setting={self._observes!r}, got one for the other")


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
