"""What cascades with and without context have in common: stages that are called lazily, and what they teach."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.base import Live
from weakfeedback.live.buying import NO_LABEL
from weakfeedback.live.labels import answers_of, costs_of, differences, labels_of, output_list, short
from weakfeedback.live.ledger import (
    PENDING_LIMIT,
    Content,
    PendingDecision,
    UnknownDecision,
    fingerprint,
    plain_content,
)
from weakfeedback.live.rounds import Answer, Decision, Lesson, check_number, make_lesson
from weakfeedback.live.stages import Rows, make_stages
from weakfeedback.live.storage import StateError
from weakfeedback.live.tally import Tally
from weakfeedback.validate import integer, number, vector

EXPLAINED = 1000  # decisions that can be explained
# What the file of every cascade holds.
STATE: dict[str, type | tuple[type, ...]] = {
    "core": dict,
    "counts": dict,
    "stage_costs": list,
    "error_cost": (int, float),
    "timeout": (int, float, type(None)),
    "combine": bool,
    "compare": bool,
}
METHODS = ("select", "update_pairs")


class Staged(Live):
    """Stages, their costs, and the rounds played with them.

    A subclass says what a ``context`` is (None if there is none): how the policy is asked (``_select``) and
    taught (``_teach``), what the ledger keeps of a decision (``_kept``, ``_arm``) and what explains it (``_record``).
    """

    def __init__(
        self,
        stages: Sequence[Any],
        stage_costs: Any,
        error_cost: float,
        combine: Callable[[list[Any]], Any] | None,
        compare: Callable[[Any, Any], Any] | None,
        timeout: float | None,
    ) -> None:
        # The policy needs the costs: a subclass calls this first, and Live.__init__ through _start.
        self._timeout = None if timeout is None else number("timeout", timeout, above=0.0)
        self._stages = make_stages(stages, self._timeout)
        self._stage_costs = vector("stage_costs", stage_costs, at_least=0.0, size=len(self._stages))
        self._prices = self._stage_costs.tolist()  # the same, quicker to read one by one
        arms = range(len(self._prices))
        self._spends = [sum(self._prices[: arm + 1]) for arm in arms]  # what the calls up to each stage cost
        self._savings = [sum(self._prices[arm + 1 :]) for arm in arms]
        self._error_cost = number("error_cost", error_cost, above=0.0)
        for name, function in (("combine", combine), ("compare", compare)):
            if function is not None and not callable(function):
                raise ValueError(f"{name} must be a callable or None, got {short(function)}")
        self._combine, self._compare = combine, compare
        self._plain = combine is None and compare is None  # labels are compared by !=, as they are
        self._costs = policy_costs(self._stage_costs, self._error_cost)
        self._tally = Tally(len(self._stages))
        self._records: OrderedDict[int, Any] = OrderedDict()

    def _start(self, policy: Any, make: Callable[..., Any], seed: Any, options: dict[str, Any]) -> None:
        Live.__init__(self, policy, make, METHODS, seed, options)
        check_costs(self._policy, self._costs)

    def __repr__(self) -> str:
        return f"<{self.kind} of {len(self._stages)} stages, {self._label}, {self.rounds} rounds>"

    def _select(self, context: Any) -> int:
        raise NotImplementedError

    def _teach(self, decided: Any, arm: int, differ: np.ndarray) -> None:
        raise NotImplementedError

    def _kept(self, arm: int, context: Any) -> Any:
        raise NotImplementedError

    def _arm(self, decided: Any) -> int:
        raise NotImplementedError

    def _record(self, arm: int, context: Any) -> Any:
        raise NotImplementedError

    # -- rounds

    def _answer(self, x: Any, context: Any) -> Answer:
        """Answer for one sample."""
        decision = self._decide(context)
        outputs: list[Any] = []
        try:
            for stage in self._stages[: decision.arm + 1]:
                outputs.append(stage.one(x, labels_of(outputs)))
            lesson = self._with_label(x, decision, self._lesson(decision.arm, outputs))
            answer = self._learn([decision], [lesson])[0]
        except BaseException:
            self._abandon([decision], [outputs])
            raise
        self._acknowledge()
        return answer

    async def _answer_async(self, x: Any, context: Any) -> Answer:
        """Answer for one sample, awaiting the stages."""
        decision = self._decide(context)
        outputs: list[Any] = []
        try:
            for stage in self._stages[: decision.arm + 1]:
                outputs.append(await stage.one_async(x, labels_of(outputs)))
            lesson = await self._with_label_async(x, decision, self._lesson(decision.arm, outputs))
            answer = self._learn([decision], [lesson])[0]
        except BaseException:
            self._abandon([decision], [outputs])
            raise
        if self._autosave is not None:
            await asyncio.to_thread(self._acknowledge)
        return answer

    def _answers(self, samples: Rows, contexts: Sequence[Any], batch_size: Any) -> list[Answer]:
        """Answer for many samples, one context each."""
        size = integer("batch_size", batch_size, 1, PENDING_LIMIT)
        step = size if self._delay_safe else 1
        found: list[Answer] = []
        for start in range(0, samples.size, step):
            rows = range(start, min(start + step, samples.size))
            found += self._answer_batch(samples, contexts, rows)
            self._acknowledge()
        return found

    def _answer_batch(self, samples: Rows, contexts: Sequence[Any], rows: range) -> list[Answer]:
        decisions: list[Decision] = []
        outputs: list[list[Any]] = [[] for _ in rows]
        try:
            with self._ledger.lock:  # the decisions of a batch are consecutive, whatever other threads do
                self._ledger.ensure_room(len(rows))
                decisions.extend(self._decide(contexts[row]) for row in rows)
            for k, stage in enumerate(self._stages):
                going = [p for p, decision in enumerate(decisions) if decision.arm >= k]
                if going:
                    earlier = [labels_of(outputs[p]) for p in going]
                    results = stage.many(samples, [rows[p] for p in going], earlier)
                    for p, output in zip(going, results):
                        outputs[p].append(output)
            lessons = [self._lesson(decision.arm, seen) for decision, seen in zip(decisions, outputs)]
            lessons = [
                self._with_label(samples[row], decision, lesson)
                for row, decision, lesson in zip(rows, decisions, lessons)
            ]
            return self._learn(decisions, lessons)
        except BaseException:
            self._abandon(decisions, outputs)
            raise

    def _given_out(self, context: Any) -> Decision:
        decision = self._decide(context)
        if self._autosave is not None:
            self._give_out(decision.id)
        return decision

    def _decide(self, context: Any) -> Decision:
        with self._ledger.lock:
            self._ledger.ensure_room()
            arm = self._select(context)
            if type(arm) is not int or not 0 <= arm < len(self._stages):
                arm = integer("the arm chosen by the policy", arm, 0, len(self._stages) - 1)
            id = self._ledger.enter(self._kept(arm, context))
            self._records[id] = self._record(arm, context)
            if len(self._records) > EXPLAINED:
                self._records.popitem(last=False)
            return Decision(id, arm)

    def feedback(self, id: int, outputs: Sequence[Any]) -> str:
        """Learn the outputs of stages 0, ..., arm of a decision, at any time and in any order.

        Return "accepted", or "duplicate" if the same was said before. Raise `FeedbackConflict`,
        `UnknownDecision` or ValueError, and then nothing has changed.
        """
        return self._fed_back(id, outputs, NO_LABEL)

    def _fed_back(self, id: int, outputs: Any, label: Any) -> str:
        content = given = None
        if self._plain and label is NO_LABEL and type(outputs) in (list, tuple):
            given = tuple(outputs)
            content = plain_content(given)
        if given is not None and content is not None:
            outcome = self._learn_plain(id, given, content)
        else:
            outcome = self._learn_feedback(id, output_list("outputs", outputs), label)
        if self._autosave is not None:
            self._acknowledge()
        return outcome

    def _learn_plain(self, id: int, given: tuple[Any, ...], content: Content) -> str:
        """Do what `_learn_feedback` does, at once: nobody's code runs on plain labels, so the lock can be kept."""
        with self._ledger.lock:
            decided = self._ledger.awaited(id, content)
            if decided is None:
                return "duplicate"
            arm = self._arm(decided)
            if len(given) != arm + 1:
                check_number(list(given), arm)
            self._teach_plain(decided, arm, given)
            self._ledger.close(int(id), content)
            self._tally.stop(arm, self._spends[arm], self._savings[arm])
        return "accepted"

    def _teach_plain(self, decided: Any, arm: int, given: tuple[Any, ...]) -> None:
        """Teach the policy, and count, what plain labels show."""
        differ = self._compared(list(given))
        self._teach(decided, arm, differ)
        self._tally.compare(arm, differ)

    def _learn_feedback(self, id: int, given: list[Any], label: Any = NO_LABEL) -> str:
        digest = content = fingerprint(given)
        if label is not NO_LABEL:
            digest = fingerprint([digest, label])
        with self._ledger.lock:
            if self._ledger.check(id, digest) == "duplicate":
                return "duplicate"
            decision = Decision(int(id), self._arm(self._ledger.decided(id)))
        check_number(given, decision.arm)
        lesson = self._lesson(decision.arm, given, content)
        if label is not NO_LABEL:
            lesson = self._labelled(lesson, label)
        with self._ledger.lock:
            if self._ledger.check(id, digest) == "duplicate":  # another thread was faster
                return "duplicate"
            self._learn([decision], [lesson])
            return "accepted"

    def _warm_start(self, outputs: Any, contexts: Sequence[Any] | None) -> int:
        """Learn from logs in which all stages ran; ``contexts`` as the ledger would keep them, one per row."""
        table, K = Rows(outputs), len(self._stages)
        if contexts is not None and len(contexts) != table.size:
            raise ValueError(f"outputs must have {len(contexts)} rows, one per context, got {table.size}")
        differs = []
        for row in range(table.size):
            given = output_list(f"outputs[{row}]", table[row])
            if len(given) != K:
                raise ValueError(f"outputs[{row}] must be {K} labels, one per stage, got {short(given)}")
            differs.append(self._compared(answers_of(labels_of(given), self._combine)))
        with self._ledger.lock:
            if not self._delay_safe and self._ledger.pending:
                raise PendingDecision("a decision is open, and this policy learns in order: answer it first")
            for row, compared in enumerate(differs):
                differ = self._settled(compared)
                self._teach(self._kept(K - 1, None if contexts is None else contexts[row]), K - 1, differ)
                self._tally.compare(K - 1, differ)
            self._ledger.changes += len(differs)
        self._acknowledge()
        return len(differs)

    def _explained(self, id: int) -> Any:
        """Return what was recorded of a decision."""
        with self._ledger.lock:
            record = self._records.get(integer("id", id, 0))
        if record is None:
            raise UnknownDecision(
                f"decision {id} cannot be explained: this is kept for the last {EXPLAINED} decisions, and not saved"
            )
        return record

    # -- saving

    @classmethod
    def _read(
        cls,
        path: str | os.PathLike[str],
        state: dict[str, type | tuple[type, ...]],
        stages: Any,
        functions: dict[str, Any],
    ) -> dict[str, Any]:
        """Return what a file holds, having checked that the code given with it fits."""
        body = storage.read(path, cls.kind)
        storage.require("state", body, state)
        if len(make_stages(stages, None)) != len(body["stage_costs"]):
            raise ValueError(
                f"stages must be {len(body['stage_costs'])}, as the file holds, got {len(stages)}"
            )
        for name, function in functions.items():
            if (function is not None) != body[name]:
                was = "with" if body[name] else "without"
                raise ValueError(f"{name} must be given if and only if it was: {path} was saved {was} it")
        return body

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
        check_costs(self._policy, self._costs)
        self._tally = Tally.from_state(len(self._stages), body["counts"])
        if int(self._tally.stops.sum()) != self.rounds:
            raise StateError("the counts contradict the ledger")

    # -- the parts of a round

    def _refuse_asynchronous(self) -> None:
        for stage in self._stages:
            if stage.asynchronous:
                raise ValueError(f"stages[{stage.index}] is asynchronous: use `await cascade.acall(x)`")

    def _lesson(self, arm: int, outputs: list[Any], digest: str | None = None) -> Lesson:
        return make_lesson(arm, outputs, self._prices, self._combine, self._compared, digest)

    def _compared(self, answers: list[Any]) -> np.ndarray:
        """Return which pairs of answers differ, or how far they are apart."""
        return differences(answers, self._compare)

    def _settled(self, compared: np.ndarray) -> np.ndarray:
        """Return which pairs differ, once and for all; called under the lock, in the order of learning."""
        return compared

    def _with_label(self, x: Any, decision: Decision, lesson: Lesson) -> Lesson:
        """Return the lesson with the truth of the sample, if the policy buys it."""
        return lesson

    async def _with_label_async(self, x: Any, decision: Decision, lesson: Lesson) -> Lesson:
        return lesson

    def _labelled(self, lesson: Lesson, label: Any) -> Lesson:
        """Return the lesson with a label that was bought by hand."""
        raise NotImplementedError

    def _teach_label(self, lesson: Lesson) -> None:
        """Teach the policy the label of a lesson that has one."""
        raise NotImplementedError

    def _learn(self, decisions: list[Decision], lessons: list[Lesson]) -> list[Answer]:
        """Teach the policy these rounds, all or (if one is no longer pending) none."""
        with self._ledger.lock:
            decided = [self._ledger.decided(decision.id) for decision in decisions]
            for kept, decision, lesson in zip(decided, decisions, lessons):
                differ = self._settled(lesson.differ)
                if lesson.right is not None:
                    self._teach_label(lesson)
                self._teach(kept, lesson.arm, differ)
                self._ledger.settle(decision.id, lesson.digest)
                self._tally.compare(lesson.arm, differ)
                self._tally.stop(lesson.arm, lesson.cost, lesson.saved)
        return [
            Answer(lesson.answers[-1], lesson.arm, lesson.cost, lesson.labels, decision.id, lesson.truth)
            for decision, lesson in zip(decisions, lessons)
        ]

    def _abandon(self, decisions: list[Decision], outputs: list[list[Any]]) -> None:
        """Cancel decisions whose round failed; what was paid for them is not forgotten."""
        with self._ledger.lock:
            for decision, seen in zip(decisions, outputs):
                with suppress(UnknownDecision):
                    self._ledger.cancel(decision.id)
                    self._tally.wasted += sum(costs_of(seen, self._stage_costs))


def policy_costs(stage_costs: np.ndarray, error_cost: float) -> np.ndarray:
    """Return the cumulative costs in units of one error, which is what policies take."""
    with np.errstate(over="ignore"):
        costs = np.cumsum(stage_costs) / error_cost
    if not np.isfinite(costs).all():
        raise ValueError(f"stage_costs / error_cost must be finite, got error_cost={error_cost!r}")
    return costs


def check_costs(policy: Any, costs: np.ndarray) -> None:
    """Refuse a policy object that was made for another cascade."""
    built = getattr(policy, "C", None)
    arms = getattr(policy, "K", costs.size)
    fits = arms == costs.size and (built is None or np.shape(built) == costs.shape)
    if not fits or (built is not None and not np.allclose(built, costs, rtol=1e-9, atol=1e-12)):
        raise ValueError(
            f"policy must be made for the costs cumsum(stage_costs) / error_cost = {costs.tolist()}, "
            f"got one for {np.asarray(built).tolist() if built is not None else f'{arms} arms'}"
        )
