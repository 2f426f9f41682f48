"""A live allocator: splits a budget over arms in every round, and observes only some of the outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.live.allocation_report import AllocationReport, history_table, make_allocation_report
from weakfeedback.live.errors import UnknownDecision
from weakfeedback.live.games.allocation import OTHER, AllocationCounts, AllocationGame, arm_names
from weakfeedback.live.live import Live
from weakfeedback.plaintext import numbered
from weakfeedback.settings.catalog import make_policy, option_names, policy_class
from weakfeedback.validate import brief, integer, number
from weakfeedback.words import names_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEFAULTS = {"threshold": "CSB-TS", "gradual": "CSB-ISO"}  # the policy for each response
LEGEND = 16  # maximum number of arms named beside a plot


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
        ``names=`` says the same beside a number.
    budget : number > 0
    policy : name or policy object, optional
        Losses or rewards: "CSB-TS" (several thresholds; the default), "CSB-TS-same" (one threshold for all arms),
        "Known" (the thresholds are given), "CSB-ISO" (gradual effects; the default with ``response="gradual"``).
        Losses: "CSB-SK", "CSB-ST", "CSB-SU" (one threshold), "CSB-MK", "CSB-DT", "CSB-DU" (several). Rewards: "NUM-SK",
        "NUM-MK". Options of the policy are passed by name. Or an object made for these arms and this budget, which
        belongs to the allocator from then on.
    setting : "loss" or "reward"
        What is observed.
    response : "threshold" or "gradual", optional
        "gradual": more always helps, by and by; there is no amount that is enough. What is observed is then what
        happened, at every arm.
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

    kind = AllocationGame.kind
    setting = AllocationGame.setting
    form = AllocationGame.form
    _game: AllocationGame

    def __init__(
        self,
        arms: int | Sequence[str] | np.ndarray,
        budget: float,
        policy: Any = None,
        setting: str = "loss",
        seed: Any = None,
        *,
        response: str | None = None,
        compiled: bool = False,
        remember: int | None = None,
        names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        known = arm_names(arms)
        number_of_arms = integer("arms", arms, 1) if known is None else len(known)
        called = names_of(names, number_of_arms, "arm") or known
        amount = number("budget", budget, above=0.0)
        if not isinstance(setting, str) or setting not in OTHER:
            raise ValueError(f"setting must be 'loss' or 'reward', got {brief(setting)}")
        if response is not None and response not in DEFAULTS:
            raise ValueError(f"response must be 'threshold' or 'gradual', got {brief(response)}")
        if policy is None:
            policy = DEFAULTS[response or "threshold"]
        elif response is not None:
            chosen = policy_class("allocation", policy) if isinstance(policy, str) else policy
            takes = getattr(chosen, "response", "threshold")
            if takes != response:
                raise ValueError(
                    f"response must be {takes!r} with this policy, got {response!r}; leave the policy out"
                )
        game = AllocationGame(number_of_arms, called, amount, setting)
        counts = AllocationCounts.of(number_of_arms)

        def make(name: str, **options: Any) -> Any:
            game.check_setting(name, policy_class("allocation", name))
            told = {"setting": setting} if "setting" in option_names("allocation", name) else {}
            return make_policy("allocation", name, number_of_arms, amount, **told, **options)

        self._begin(game, policy, make, seed, options, compiled, remember, counts, ())

    def __repr__(self) -> str:
        game, rounds = self._game, numbered(self._core.ledger.rounds, "round")
        return f"<Allocator of {game.budget:g} over {numbered(game.arms, 'arm')}, {self._label}, {rounds}>"

    def _allotment(self, id: int, allocation: np.ndarray) -> Allotment:
        return Allotment(id, np.array(allocation), self._game.names)

    # -- rounds

    def decide(self) -> Allotment:
        """Return what each arm gets in this round: numbers >= 0 whose sum is at most the budget, up to rounding."""
        id, allocation = self._core.decide()
        if self._journal is not None:
            self._give_out(id)
        return self._allotment(id, allocation)

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
        seen = self._game.seen(observed, missing)
        record = self._game.record(0, None, seen, ())
        outcome = "duplicate"
        if self._core.awaited(id, record.content) is not None:
            record.id = int(id)
            outcome = self._core.settle(record)
        self._wait()
        return outcome

    # -- what was done

    def decision(self, id: int) -> Allotment:
        """Return a past decision: a pending one, or one of those in `history`."""
        return self._core.run(self._decision, id)

    def _decision(self, id: int) -> Allotment:
        core = self._core
        try:
            allocation = core.ledger.decided(id)
        except UnknownDecision as error:
            if id not in core.kept:
                raise UnknownDecision(
                    f"{error}; the history has the last {self._game.keeps} rounds"
                ) from None
            allocation = core.kept[int(id)][1]
        return self._allotment(int(id), allocation)

    def history(self) -> pd.DataFrame:
        """Return the last rounds that were answered as a table: round, id, arm, given and seen.

        There is a row for each arm of each round; the rounds are in the order in which they were answered. ``seen`` is
        0 where nothing was seen and NaN where the report is missing. The last 500 rounds are kept (fewer with more than
        20 arms: 10,000 amounts in total). They are saved, and recovered from a journal, with everything else.
        """
        game = self._game
        return self._core.view(lambda view: history_table(view.kept, game.arms, game.names))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw what each arm got in the rounds of `history` as a stacked plot, with a line for the budget.

        The plot has a legend if there are at most 16 arms.
        """
        from weakfeedback.figures import axes_or_new

        table, ax = self.history(), axes_or_new(ax)
        game = self._game
        rounds = table["round"].to_numpy().reshape(-1, game.arms)[:, 0]
        given = table["given"].to_numpy().reshape(-1, game.arms)
        names = [str(arm).replace("$", r"\$") for arm in game.names or range(game.arms)]
        if rounds.size:
            ax.stackplot(rounds, given.T, labels=names, step="mid")
        ax.axhline(game.budget, color="#1f2933", linewidth=1.0, linestyle="--", label="budget")
        ax.set_xlabel("round")
        ax.set_ylabel("given")
        ax.set_ylim(0.0, 1.05 * game.budget)
        if game.arms <= LEGEND:
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        return ax

    # -- what was learned

    def report(self) -> AllocationReport:
        """Return what each arm got, what was observed and what was learned; ``print`` it for a table."""
        return self._core.view(lambda view: make_allocation_report(view, self._game, self._label))
