"""A cascade of tests, classifiers or models in use: pay for no more stages than needed, without labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from weakfeedback.catalog import make_policy
from weakfeedback.live import storage
from weakfeedback.live.base import Live, remade, saved_policy
from weakfeedback.live.labels import (
    Costed,
    answers_of,
    as_array,
    costs_of,
    differences,
    labels_of,
    majority,
    output_list,
    short,
)
from weakfeedback.live.ledger import PENDING_LIMIT, PendingDecision, UnknownDecision, fingerprint
from weakfeedback.live.report import CascadeReport, Record, explanation, make_report
from weakfeedback.live.rounds import Answer, Decision, Lesson, make_lesson
from weakfeedback.live.stages import Rows, make_stages
from weakfeedback.live.storage import StateError
from weakfeedback.live.tally import Tally
from weakfeedback.validate import integer, number, vector

__all__ = ["Answer", "Cascade", "Costed", "Decision", "majority"]

EXPLAINED = 1000  # decisions that can be explained
# What a file holds.
STATE: dict[str, type | tuple[type, ...]] = {
    "core": dict,
    "counts": dict,
    "stage_costs": list,
    "error_cost": (int, float),
    "timeout": (int, float, type(None)),
    "combine": bool,
    "compare": bool,
}


class Cascade(Live):
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
    seed : integer >= 0, optional
        Of the policy's generator; fresh entropy if None.
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
        seed: int | None = None,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        self._timeout = None if timeout is None else number("timeout", timeout, above=0.0)
        self._stages = make_stages(stages, self._timeout)
        self._stage_costs = vector("stage_costs", stage_costs, at_least=0.0, size=len(self._stages))
        self._error_cost = number("error_cost", error_cost, above=0.0)
        for name, function in (("combine", combine), ("compare", compare)):
            if function is not None and not callable(function):
                raise ValueError(f"{name} must be a callable or None, got {short(function)}")
        self._combine, self._compare = combine, compare
        costs = _policy_costs(self._stage_costs, self._error_cost)
        methods = ("select", "update_pairs")
        super().__init__(
            policy, lambda name, **o: make_policy("cascade", name, costs, **o), methods, seed, options
        )
        _check_costs(self._policy, costs)
        self._tally = Tally(len(self._stages))
        self._records: dict[int, Record] = {}

    def __repr__(self) -> str:
        return f"<Cascade of {len(self._stages)} stages, {self._label}, {self.rounds} rounds>"

    # -- one sample at a time

    def __call__(self, x: Any) -> Answer:
        """Answer for one sample. A stage that raises cancels the decision; nothing is learned from it."""
        self._refuse_asynchronous()
        decision = self.decide()
        outputs: list[Any] = []
        try:
            for stage in self._stages[: decision.arm + 1]:
                outputs.append(stage.one(x, labels_of(outputs)))
            return self._learn([decision], [self._lesson(decision.arm, outputs)])[0]
        except BaseException:
            self._abandon([decision], [outputs])
            raise

    async def acall(self, x: Any) -> Answer:
        """Answer for one sample, awaiting the stages; those that are not asynchronous run in a thread."""
        decision = self.decide()
        outputs: list[Any] = []
        try:
            for stage in self._stages[: decision.arm + 1]:
                outputs.append(await stage.one_async(x, labels_of(outputs)))
            return self._learn([decision], [self._lesson(decision.arm, outputs)])[0]
        except BaseException:
            self._abandon([decision], [outputs])
            raise

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
        size = integer("batch_size", batch_size, 1, PENDING_LIMIT)
        samples = Rows(X)
        step = size if self._delay_safe else 1
        found: list[Answer] = []
        for start in range(0, samples.size, step):
            found += self._answer_batch(samples, range(start, min(start + step, samples.size)))
        return found

    def _answer_batch(self, samples: Rows, rows: range) -> list[Answer]:
        decisions: list[Decision] = []
        outputs: list[list[Any]] = [[] for _ in rows]
        try:
            with self._ledger.lock:  # the decisions of a batch are consecutive, whatever other threads do
                self._ledger.ensure_room(len(rows))
                decisions.extend(self.decide() for _ in rows)
            for k, stage in enumerate(self._stages):
                going = [p for p, decision in enumerate(decisions) if decision.arm >= k]
                if going:
                    earlier = [labels_of(outputs[p]) for p in going]
                    results = stage.many(samples, [rows[p] for p in going], earlier)
                    for p, output in zip(going, results):
                        outputs[p].append(output)
            lessons = [self._lesson(decision.arm, seen) for decision, seen in zip(decisions, outputs)]
            return self._learn(decisions, lessons)
        except BaseException:
            self._abandon(decisions, outputs)
            raise

    # -- by hand

    def decide(self) -> Decision:
        """Decide for one sample; call the stages yourself and give their outputs to `feedback`."""
        with self._ledger.lock:
            self._ledger.ensure_room()
            arm = integer(
                "the arm chosen by the policy", self._policy.select(self._rng), 0, len(self._stages) - 1
            )
            id = self._ledger.open(arm)
            self._records[id] = Record(arm, self._tally.differed, self._tally.compared)
            if len(self._records) > EXPLAINED:
                del self._records[next(iter(self._records))]
            return Decision(id, arm)

    def feedback(self, id: int, outputs: Sequence[Any]) -> str:
        """Learn the outputs of stages 0, ..., arm of a decision, at any time and in any order.

        Return "accepted", or "duplicate" if the same was said before. Raise `FeedbackConflict`,
        `UnknownDecision` or ValueError, and then nothing has changed.
        """
        given = output_list("outputs", outputs)
        digest = fingerprint(given)
        with self._ledger.lock:
            if self._ledger.check(id, digest) == "duplicate":
                return "duplicate"
            decision = Decision(int(id), self._ledger.decided(id))
        if len(given) != decision.arm + 1:
            raise ValueError(
                f"outputs must be {decision.arm + 1} in number, of the stages 0 to {decision.arm}, "
                f"got {len(given)}: {short(outputs)}"
            )
        lesson = self._lesson(decision.arm, given)
        with self._ledger.lock:
            if self._ledger.check(id, digest) == "duplicate":  # another thread was faster
                return "duplicate"
            self._learn([decision], [lesson])
            return "accepted"

    def warm_start(self, outputs: Any) -> int:
        """Learn from logs in which all stages ran: ``outputs`` has a row of K labels per sample.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing. The samples
        must be like those to come; picked ones (for instance the hard ones) teach wrong disagreements.
        """
        table, K = Rows(outputs), len(self._stages)
        differs = []
        for row in range(table.size):
            given = output_list(f"outputs[{row}]", table[row])
            if len(given) != K:
                raise ValueError(f"outputs[{row}] must be {K} labels, one per stage, got {short(given)}")
            differs.append(differences(answers_of(labels_of(given), self._combine), self._compare))
        with self._ledger.lock:
            if not self._delay_safe and self._ledger.pending:
                raise PendingDecision("a decision is open, and this policy learns in order: answer it first")
            for differ in differs:
                self._policy.update_pairs(K - 1, differ, self._rng)
                self._tally.compare(K - 1, differ)
        return len(differs)

    # -- what was learned

    def report(self) -> CascadeReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        with self._ledger.lock:
            return make_report(self._label, self._stage_costs, len(self._ledger.pending), self._tally)

    def explain(self, id: int) -> str:
        """Say in words why a stage was chosen, for the last 1000 decisions made since this object was loaded."""
        with self._ledger.lock:
            record = self._records.get(integer("id", id, 0))
        if record is None:
            raise UnknownDecision(
                f"decision {id} cannot be explained: this is kept for the last {EXPLAINED} decisions, and not saved"
            )
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
        body = storage.read(path, cls.kind)
        storage.require("state", body, STATE)
        if len(make_stages(stages, None)) != len(body["stage_costs"]):
            raise ValueError(
                f"stages must be {len(body['stage_costs'])}, as the file holds, got {len(stages)}"
            )
        for name, function in (("combine", combine), ("compare", compare)):
            if (function is not None) != body[name]:
                was = "with" if body[name] else "without"
                raise ValueError(f"{name} must be given if and only if it was: {path} was saved {was} it")
        chosen, options = saved_policy(body["core"], policy)
        options |= {"combine": combine, "compare": compare, "timeout": body["timeout"], "seed": 0}
        cascade = remade(lambda: cls(stages, body["stage_costs"], body["error_cost"], chosen, **options))
        remade(lambda: cascade._restore(body))
        return cascade

    def _state(self) -> dict[str, Any]:
        return {
            "stage_costs": self._stage_costs.tolist(),
            "error_cost": self._error_cost,
            "timeout": self._timeout,
            "combine": self._combine is not None,
            "compare": self._compare is not None,
            "counts": self._tally.state(),
        }

    def _restore(self, body: dict[str, Any]) -> None:
        self._restore_core(body["core"])
        _check_costs(self._policy, _policy_costs(self._stage_costs, self._error_cost))
        self._tally = Tally.from_state(len(self._stages), body["counts"])
        if int(self._tally.stops.sum()) != self.rounds:
            raise StateError("the counts contradict the ledger")

    def _encode_decision(self, decided: int) -> int:
        return decided

    def _decode_decision(self, data: Any) -> int:
        return integer("arm", data, 0, len(self._stages) - 1)

    # -- the parts of a round

    def _refuse_asynchronous(self) -> None:
        for stage in self._stages:
            if stage.asynchronous:
                raise ValueError(f"stages[{stage.index}] is asynchronous: use `await cascade.acall(x)`")

    def _lesson(self, arm: int, outputs: list[Any]) -> Lesson:
        return make_lesson(arm, outputs, self._stage_costs, self._combine, self._compare)

    def _learn(self, decisions: list[Decision], lessons: list[Lesson]) -> list[Answer]:
        """Teach the policy these rounds, all or (if one is no longer pending) none."""
        with self._ledger.lock:
            for decision in decisions:
                self._ledger.decided(decision.id)
            for decision, lesson in zip(decisions, lessons):
                self._policy.update_pairs(lesson.arm, lesson.differ, self._rng)
                self._ledger.settle(decision.id, lesson.digest)
                self._tally.compare(lesson.arm, lesson.differ)
                self._tally.stops[lesson.arm] += 1
                self._tally.spent += lesson.cost
                self._tally.saved += lesson.saved
        return [
            Answer(lesson.answer, lesson.arm, lesson.cost, lesson.labels, decision.id)
            for decision, lesson in zip(decisions, lessons)
        ]

    def _abandon(self, decisions: list[Decision], outputs: list[list[Any]]) -> None:
        """Cancel decisions whose round failed; what was paid for them is not forgotten."""
        with self._ledger.lock:
            for decision, seen in zip(decisions, outputs):
                with suppress(UnknownDecision):
                    self._ledger.cancel(decision.id)
                    self._tally.wasted += sum(costs_of(seen, self._stage_costs))


def _policy_costs(stage_costs: np.ndarray, error_cost: float) -> np.ndarray:
    """Return the cumulative costs in units of one error, which is what policies take."""
    with np.errstate(over="ignore"):
        costs = np.cumsum(stage_costs) / error_cost
    if not np.isfinite(costs).all():
        raise ValueError(f"stage_costs / error_cost must be finite, got error_cost={error_cost!r}")
    return costs


def _check_costs(policy: Any, costs: np.ndarray) -> None:
    """Refuse a policy object that was made for another cascade."""
    built = getattr(policy, "C", None)
    arms = getattr(policy, "K", costs.size)
    fits = arms == costs.size and (built is None or np.shape(built) == costs.shape)
    if not fits or (built is not None and not np.allclose(built, costs, rtol=1e-9, atol=1e-12)):
        raise ValueError(
            f"policy must be made for the costs cumsum(stage_costs) / error_cost = {costs.tolist()}, "
            f"got one for {np.asarray(built).tolist() if built is not None else f'{arms} arms'}"
        )
