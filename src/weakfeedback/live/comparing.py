"""Base class of the cascades and of the router: what they learn by comparing answers.

Stages and models are in the order of their prices, and what is learned about them is which pairs differ. Comparing,
settling, journalling, warm starts and new prices are the same for all; what a decision is differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from weakfeedback.live.base import EXPLAINED, Change, DurabilityWarning, Live, Step
from weakfeedback.live.labels import (
    answers_of,
    differences,
    labels_of,
    output_list,
    pairs_of,
    short,
)
from weakfeedback.live.ledger import Content, PendingDecision, UnknownDecision, digest_of, fingerprint
from weakfeedback.live.metrics import distances, far_matrix, refuse_closeness, sample_disagreements
from weakfeedback.live.report import counted
from weakfeedback.live.stages import Rows
from weakfeedback.live.storage import StateError
from weakfeedback.live.warning import warn_caller
from weakfeedback.validate import brief, integer

Difference = tuple[np.ndarray | None, np.ndarray | None]  # which pairs differ, or how far apart they are


class Comparing(Live):
    """Stages or models of increasing price, whose answers are compared.

    A subclass defines what a decision calls (``_choose``), what is learned from its answers (``_teach``,
    ``_teach_row``) and what a round has cost so far (``_paid``).
    """

    _noun: ClassVar[str] = "stage"  # what is called
    _whole: ClassVar[str] = "cascade"  # what they form together
    _priced: ClassVar[str] = "stage_costs"  # the argument that holds the prices
    _done: ClassVar[str] = "the answer is learned"  # what has happened when an answer is returned

    _stages: list[Any]
    _prices: list[float]
    _stage_costs: np.ndarray
    _costs: np.ndarray
    _error_cost: float
    _combine: Any = None
    _compare: Any = None
    _metric: Any = None
    _proven: bool = True  # whether ``compare`` is known not to be a tolerance, where that matters

    def __repr__(self) -> str:
        stages, rounds = counted(len(self._stages), self._noun), counted(self._counts.rounds, "round")
        return f"<{self.kind} of {stages}, {self._label}, {rounds}>"

    # -- many samples

    def _batches(self, count: int, batch_size: Any, most: int) -> Iterator[range]:
        """Yield the rows of each batch; single rows for a policy that must learn in order."""
        size = integer("batch_size", batch_size, 1, most)
        step = size if self._delay_safe else 1
        for start in range(0, count, step):
            yield range(start, min(start + step, count))

    def _decide_many(self, contexts: Sequence[tuple[Any, ...]], opened: list[int]) -> list[tuple[int, Any]]:
        """Return a decision for each of the contexts, with consecutive ids, independently of other threads."""
        with self._ledger.lock:
            self._recover()
            self._ledger.ensure_room(len(contexts))
            return [self._decide(*context, opened=opened) for context in contexts]

    # -- how answers are compared

    def _difference(self, answers: list[Any]) -> Difference:
        """Return which pairs of answers differ or, with a metric, how far apart they are."""
        if self._metric is not None:
            return None, distances(answers, self._metric)
        differ = differences(answers, self._compare)
        if not self._proven and self._compare is not None:
            self._proven = refuse_closeness(answers, self._compare)
        return differ, None

    # -- the end of a round

    def _awaited(self, id: int, content: Content) -> Any:
        """Return what was decided under a pending id; None, once that is on disk, if it has this answer already."""
        with self._ledger.lock:
            if self._change is not None:
                self._recover()
            decided = self._ledger.awaited(id, content)
        if decided is None:
            self._acknowledge()
        return decided

    def _settle(self, record: Any) -> str:
        """Learn a round, unless another thread has learned it already."""
        with self._ledger.lock:
            self._recover()
            duplicate = self._ledger.awaited(record.id, record.content) is None
            if not duplicate:
                self._learn([record])
        if self._log is not None:
            self._acknowledge()
        return "duplicate" if duplicate else "accepted"

    def _abandon(self, ids: list[int], outputs: Sequence[Any]) -> None:
        """Cancel decisions whose round failed; their costs stay counted."""
        with self._ledger.lock:
            self._recover()  # completes the list if the decision was interrupted
        for id, seen in zip(ids, outputs):
            self._close([id], self._paid(seen), reason="the round failed")
        with suppress(OSError):  # the caller must see the error that made the round fail
            self._acknowledge()

    def _paid(self, outputs: Any) -> float:
        """Return what the outputs of a round cost so far."""
        raise NotImplementedError

    def _acknowledge_paid(self) -> None:
        """Wait for the journal; an answer that was paid for is returned even if the disk is full."""
        try:
            self._acknowledge()
        except OSError as error:
            words = f"{self._done} in memory only, the journal could not be written: {error}"
            warn_caller(words, DurabilityWarning)

    # -- other ways to learn

    def _warm_start(self, outputs: Any, contexts: Sequence[Any] | None) -> int:
        """Learn from logs in which all stages ran; ``contexts`` are arguments of `_decide`, one per row."""
        table, K = Rows(outputs, "outputs"), len(self._stages)
        if contexts is not None and len(contexts) != table.size:
            raise ValueError(f"outputs must have {len(contexts)} rows, one per context, got {table.size}")
        found: list[Difference] = []
        digests = []
        for row in range(table.size):
            given = output_list(f"outputs[{row}]", table[row])
            if len(given) != K:
                raise ValueError(
                    f"outputs[{row}] must be {K} labels, one per {self._noun}, got {short(given)}"
                )
            found.append(self._difference(answers_of(labels_of(given), self._combine)))
            digests.append(fingerprint(given))
        call = ("warm_start", fingerprint(digests))
        if self._settle_debt(call):
            return len(found)
        self._learn_warm(found, contexts)
        self._acknowledge(call)
        return len(found)

    def _learn_warm(self, found: list[Difference], contexts: Sequence[Any] | None) -> None:
        with self._ledger.lock:
            self._recover()
            if not self._delay_safe and self._ledger.pending:
                raise PendingDecision("a decision is open, and this policy learns in order: answer it first")
            change = self._change = Change(self._driver.backup(), self._rng.bit_generator.state)
            try:
                counts, sampled = self._counts, []
                for row, (differ, far) in enumerate(found):
                    if differ is None:
                        differ = sample_disagreements(far, self._rng)  # type: ignore[arg-type]
                    counts = self._teach_row(() if contexts is None else contexts[row], differ, counts)
                    sampled.append(differ)
                steps: list[Step] = [(self._set_counts, (counts,))]
                if self._log is not None:
                    steps.append(self._noted("warm", None, self._warm_event(sampled, found, contexts)))
                self._commit(change, steps)
            except BaseException as error:
                self._recover()
                self._tell_borrower(error)
                raise

    def _teach_row(self, context: tuple[Any, ...], differ: np.ndarray, counts: Any) -> Any:
        """Teach the policy a comparison of all stages outside a round, and return the counts after it."""
        raise NotImplementedError

    def _recost(self, prices: np.ndarray, error_cost: float) -> None:
        """Continue with new prices, which must be valid."""
        with self._ledger.lock:
            self._recover()
            change = self._change = Change(self._driver.backup(), None)
            try:
                self._take_costs(prices, error_cost)
                steps = self._steps_of_recost(prices, error_cost)
                if self._log is not None:
                    body = {"stage_costs": prices.tolist(), "error_cost": error_cost}
                    steps.append(self._noted("recost", None, body))
                self._commit(change, steps)
            except BaseException:
                self._recover()
                raise
        self._acknowledge()

    def recost(self, prices: Any, error_cost: float, /) -> None:
        """Continue with new prices."""
        raise NotImplementedError

    def _take_costs(self, prices: np.ndarray, error_cost: float) -> None:
        """Give the policy new costs."""
        raise NotImplementedError

    def _set_prices(self, prices: np.ndarray, error_cost: float) -> None:
        raise NotImplementedError

    def _steps_of_recost(self, prices: np.ndarray, error_cost: float) -> list[Step]:
        """Return the steps of a change of prices other than those of the policy."""
        return [(self._set_prices, (prices, error_cost))]

    def _explained(self, id: int) -> Any:
        """Return what was recorded of a decision."""
        with self._ledger.lock:
            self._recover()
            record = self._records.get(integer("id", id, 0))
        if record is None:
            raise UnknownDecision(
                f"decision {id} cannot be explained: this is kept for the last {EXPLAINED} decisions, and not saved"
            )
        return record

    # -- events of the journal

    def _answer_event(self, decided: Any, record: Any) -> dict[str, Any]:
        earlier, later = record.differ.nonzero()  # argwhere takes three times as long
        differ = [list(pair) for pair in zip(earlier.tolist(), later.tolist())]
        body = {"differ": differ, "digest": digest_of(record.content)}
        if record.far is not None:
            body["far"] = upper(record.far)
        return body

    def _warm_event(
        self, sampled: list[np.ndarray], found: list[Difference], contexts: Sequence[Any] | None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"differ": [np.argwhere(differ).tolist() for differ in sampled]}
        if contexts is not None:
            body["phi"] = [context[-1].tolist() for context in contexts]
        fars = [far for _, far in found if far is not None]
        if fars:
            body["far"] = [upper(far) for far in fars]
        return body

    def _apply_other(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "recost":
            self.recost(body["stage_costs"], body["error_cost"])
        elif kind == "warm":
            last = len(self._stages) - 1
            found: list[Difference] = [(pairs_of(differ, last), None) for differ in body["differ"]]
            if "far" in body:
                found = [(None, far_matrix(far, last)) for far in body["far"]]
            self._learn_warm(found, self._warm_contexts(body))
        else:
            super()._apply_other(kind, body)

    def _warm_contexts(self, body: dict[str, Any]) -> Sequence[Any] | None:
        return None

    # -- states

    @classmethod
    def _make_stages(cls, targets: Any, timeout: float | None) -> list[Any]:
        """Return the stages or models, validated; a number means that many that run elsewhere."""
        raise NotImplementedError

    @classmethod
    def _check_code(cls, body: dict[str, Any], code: dict[str, Any], where: str) -> None:
        name, wanted = f"{cls._noun}s", len(body[cls._priced])
        given = len(cls._make_stages(code[name], None))
        if given != wanted:
            raise ValueError(f"{name} must be {wanted}, as {where} holds, got {given}")
        for name in code:
            if name in body and (code[name] is not None) != body[name]:
                was = "with" if body[name] else "without"
                raise ValueError(f"{name} must be given if and only if it was: {where} was saved {was} it")

    @classmethod
    def _arguments_in(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {name: body[name] for name in (cls._priced, "error_cost", "timeout")}

    def _check_state(self, body: dict[str, Any]) -> None:
        super()._check_state(body)
        self._counts_in(body, body["core"]["ledger"]["rounds"])

    def _restore(self, body: dict[str, Any]) -> None:
        self._restore_core(body["core"])
        self._check_costs()
        self._counts = self._counts_in(body, self._ledger.rounds)

    def _counts_in(self, body: dict[str, Any], rounds: int) -> Any:
        """Return the counts that a state holds, which must be those of ``rounds`` feedbacks."""
        counts = type(self._counts).from_state(len(self._stages), body["counts"])
        if counts.learned != rounds:
            raise StateError("the counts contradict the ledger")
        return counts

    # -- checks

    def _check_costs(self) -> None:
        """Reject a policy object made for other costs."""
        raise NotImplementedError

    def _refuse_asynchronous(self) -> None:
        for stage in self._stages:
            if stage.asynchronous:
                raise ValueError(
                    f"{self._noun}s[{stage.index}] is asynchronous: use `await {self._whole}.acall(x)`"
                )

    def _refuse_elsewhere(self) -> None:
        if self._stages[0].elsewhere:
            raise ValueError(f"the {self._noun}s run elsewhere: use decide() and feedback(), not a call")


def upper(matrix: np.ndarray) -> list[Any]:
    """Return the entries of the pairs (0, 1), (0, 2), ..., (1, 2), ....

    >>> upper(np.array([[0, 1, 2], [0, 0, 3], [0, 0, 0]]))
    [1, 2, 3]
    """
    found: list[Any] = matrix[np.triu_indices(len(matrix), 1)].tolist()
    return found


def content_of_pairs(digest: Any, *said: Any) -> Content:
    """Return what distinguishes a repeated answer from a conflict: the given digest, else one of the content."""
    if digest is None:
        return fingerprint(["pairs", *said])
    if not isinstance(digest, str):
        raise ValueError(f"digest must be a string or None, got {brief(digest)}")
    return digest


def check_functions(**functions: Any) -> None:
    """Reject values that are neither callables nor None."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise ValueError(f"{name} must be a callable or None, got {short(function)}")


def check_costs(
    policy: Any,
    costs: np.ndarray,
    field: str = "C",
    words: str = "the costs cumsum(stage_costs) / error_cost",
    noun: str = "arm",
) -> None:
    """Reject a policy object made for other costs; the policy keeps its costs in ``field``."""
    built = getattr(policy, field, None)
    size = getattr(policy, "K", costs.size)
    fits = size == costs.size and (built is None or np.shape(built) == costs.shape)
    if not fits or (built is not None and not np.allclose(built, costs, rtol=1e-9, atol=1e-12)):
        got = f"{size} {noun}s" if built is None else np.asarray(built).tolist()
        raise ValueError(f"policy must be made for {words} = {costs.tolist()}, got one for {got}")


def stop_by_means(costs: np.ndarray, differed: np.ndarray, compared: np.ndarray) -> int:
    """Return the first stage from which going on to each later stage costs more than the mean disagreement with it.

    The mean of a disagreement is (differed + 1) / (compared + 2), the posterior mean under a uniform prior.
    """
    K = costs.size
    for i in range(K - 1):
        means = (differed[i, i + 1 :] + 1.0) / (compared[i, i + 1 :] + 2.0)
        if (costs[i + 1 :] - costs[i] > means).all():
            return i
    return K - 1
