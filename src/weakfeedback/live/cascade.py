"""A cascade of tests, classifiers or models in use: pay for no more stages than needed, without labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weakfeedback.catalog import make_policy
from weakfeedback.live.base import remade, saved_policy
from weakfeedback.live.labels import Costed, as_array, majority
from weakfeedback.live.report import CascadeReport, Record, explanation, make_report
from weakfeedback.live.rounds import Answer, Decision
from weakfeedback.live.staged import EXPLAINED, STATE, Staged
from weakfeedback.live.stages import Rows
from weakfeedback.validate import integer

__all__ = ["EXPLAINED", "Answer", "Cascade", "Costed", "Decision", "majority"]


class Cascade(Staged):
    """Stages of rising cost whose answers are never checked; learns at which one to stop.

    A sample goes through the stages in order up to the one the policy chose, and the answer is that of the last
    stage called. What is learned is how often the answers of two stages differ: a later stage is worth its
    price only if it differs often enough. That this finds the best stage needs weak dominance (thesis, section
    2.3), which cannot be checked without labels.

    Safe to use from several threads. No lock is held while a stage, ``combine`` or ``compare`` runs. Memory does
    not grow with the number of rounds.

    Parameters
    ----------
    stages : K callables or fitted classifiers
        A callable takes one sample and returns a label of any type, or ``Costed(label, cost)`` if it knows what
        the call really cost. If it has a parameter ``earlier`` it gets the tuple of the labels before it. A
        classifier is called by its ``predict``, on one row or on many.
    stage_costs : K numbers >= 0
        What each call costs, in money of your choice.
    error_cost : number > 0
        What a wrong answer costs, in the same money.
    policy : name or policy object
        "USS-TS", "USS-UCB", "Hanawal", "Fixed" or "Random" with their options, or an object made for the costs
        ``cumsum(stage_costs) / error_cost``, which belongs to the cascade from then on.
    seed : integer >= 0, SeedSequence or Generator, optional
        Of the policy's generator; fresh entropy if None. A Generator must be over PCG64, and is used as it is.
    combine : callable, optional
        Forms the answer of stage i from the list of outputs 0, ..., i, for instance `majority`.
    compare : callable, optional
        ``compare(a, b)`` is true when two answers count as the same; ``a == b`` if None. Not NaN: it is no label.
    timeout : number > 0, optional
        Seconds a stage call may take. The call itself cannot be stopped: it is left behind in its thread.

    Examples
    --------
    >>> cascade = Cascade([lambda x: x > 2, lambda x: x > 3], stage_costs=[1, 30], error_cost=100, seed=0)
    >>> answers = [cascade(x % 10) for x in range(1000)]
    >>> sum(answer.arm == 0 for answer in answers), answers[-1].label
    (956, True)
    """

    kind = "Cascade"
    setting = "cascade"

    def __init__(
        self,
        stages: Sequence[Any],
        stage_costs: Any,
        error_cost: float = 1.0,
        policy: Any = "USS-TS",
        seed: Any = None,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stages, stage_costs, error_cost, combine, compare, timeout)
        costs = self._costs
        self._start(policy, lambda name, **o: make_policy("cascade", name, costs, **o), seed, options)

    # -- one sample at a time

    def __call__(self, x: Any) -> Answer:
        """Answer for one sample. A stage that raises cancels the decision; nothing is learned from it."""
        self._refuse_asynchronous()
        return self._answer(x, None)

    async def acall(self, x: Any) -> Answer:
        """Answer for one sample, awaiting the stages; those that are not asynchronous run in a thread."""
        return await self._answer_async(x, None)

    # -- many samples

    def predict(self, X: Any, batch_size: int = 256) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size)])

    def answers(self, X: Any, batch_size: int = 256) -> list[Answer]:
        """Answer for many samples, ``batch_size`` at a time.

        The stages of a whole batch are chosen before any of its outputs is seen; then each stage is called on
        the rows that go that far, and the rows are learned in order. With ``batch_size=1`` (always so for a
        policy that is not ``delay_safe``) this is the same as one call after the other. If anything fails,
        nothing is learned from the batch under way and its decisions are cancelled; earlier batches stay learned.
        """
        self._refuse_asynchronous()
        samples = Rows(X)
        return self._answers(samples, [None] * samples.size, batch_size)

    # -- by hand

    def decide(self) -> Decision:
        """Decide for one sample; call the stages yourself and give their outputs to `feedback`."""
        return self._given_out(None)

    def warm_start(self, outputs: Any) -> int:
        """Learn from logs in which all stages ran: ``outputs`` has a row of K labels per sample.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing. The samples
        must be like those to come; picked ones (for instance the hard ones) teach wrong disagreements.
        """
        return self._warm_start(outputs, None)

    # -- what was learned

    def report(self) -> CascadeReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        with self._ledger.lock:
            return make_report(self._label, self._stage_costs, len(self._ledger.pending), self._tally)

    def explain(self, id: int) -> str:
        """Say in words why a stage was chosen, for the last 1000 decisions made since this object was loaded."""
        record = self._explained(id)
        return explanation(int(id), record, self._stage_costs, self._error_cost, self._label)

    # -- saving

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        stages: Sequence[Any],
        *,
        policy: Any = None,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
    ) -> Cascade:
        """Return the cascade that was saved to ``path``; it decides as if it had never stopped.

        The stages, ``combine`` and ``compare`` are code, and not in the file: give them again. So is a policy of
        your own: give a fresh object. A file that cannot be used raises `StateError`.
        """
        functions = {"combine": combine, "compare": compare}
        return cls._remade(cls._read(path, STATE, stages, functions), stages, policy, functions)

    @classmethod
    def _remade(cls, body: dict[str, Any], stages: Any, policy: Any, functions: dict[str, Any]) -> Cascade:
        chosen, options = saved_policy(body["core"], policy)
        options |= {**functions, "timeout": body["timeout"], "seed": 0}
        cascade = remade(lambda: cls(stages, body["stage_costs"], body["error_cost"], chosen, **options))
        remade(lambda: cascade._restore(body))
        return cascade

    def _encode_decision(self, decided: int) -> int:
        return decided

    def _decode_decision(self, data: Any) -> int:
        return integer("arm", data, 0, len(self._stages) - 1)

    # -- what a round without context is

    def _select(self, context: None) -> int:
        return self._policy.select(self._rng)

    def _teach(self, decided: int, arm: int, differ: np.ndarray) -> None:
        self._policy.update_pairs(arm, differ, self._rng)

    def _kept(self, arm: int, context: None) -> int:
        return arm

    def _arm(self, decided: int) -> int:
        return decided

    def _record(self, arm: int, context: None) -> Record:
        return Record(arm, self._tally.differed, self._tally.compared)
