"""A live router for models that can be called alone: pay for a comparison only while it is worth its price."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from weakfeedback.cascade.audit import Audit
from weakfeedback.cascade.certificate import Certificate, certify
from weakfeedback.contract.decisions import checked_call
from weakfeedback.live import storage
from weakfeedback.live.auditing import Audited
from weakfeedback.live.base import Step
from weakfeedback.live.comparing import (
    Difference,
    check_costs,
    check_functions,
    content_of_pairs,
    stop_by_means,
)
from weakfeedback.live.counts import RouterCounts
from weakfeedback.live.driver import Examples
from weakfeedback.live.errors import Refused
from weakfeedback.live.labels import (
    Costed,
    as_array,
    costs_of,
    freeze,
    is_nan,
    labels_of,
    output_list,
    short,
    sorted_pairs,
)
from weakfeedback.live.ledger import Content, UnknownDecision, content_of
from weakfeedback.live.metrics import Metric, far_matrix, refuse_tolerance, sample_disagreements
from weakfeedback.live.router_report import Known, RouterReport, explanation, make_router_report
from weakfeedback.live.stages import Rows, Stage, make_stages
from weakfeedback.live.storage import StateError
from weakfeedback.routing.policies.pay_to_compare import PayToCompare
from weakfeedback.routing.prices import model_prices
from weakfeedback.settings.catalog import make_policy
from weakfeedback.validate import integer, number

METHODS = ("select", "start", "update_pairs", "cancel")
ALONE = 100  # decisions of one model alone that can still be cancelled
STATE: dict[str, type | tuple[type, ...]] = {
    "core": dict,
    "counts": dict,
    "prices": list,
    "error_cost": (int, float),
    "timeout": (int, float, type(None)),
    "compare": bool,
    "metric": bool,
    "alone": list,
}


@dataclass(frozen=True, slots=True)
class RouterDecision:
    """A decision: call the models of ``call`` and use the answer of ``answer``, the last of them.

    If there are several, give their outputs, in this order, as feedback under ``id``. A single model needs no feedback.
    """

    id: int
    call: tuple[int, ...]
    answer: int


@dataclass(frozen=True, slots=True)
class RouterAnswer:
    """The answer to one sample, the model that gave it, and the total cost of the calls.

    ``outputs`` are the labels of the models of ``call``, None for those in ``failed``, which has their exceptions.
    If a model other than the answering one fails, the comparison is lost, but not the answer.
    """

    label: Any
    model: int
    cost: float
    call: tuple[int, ...]
    outputs: tuple[Any, ...]
    id: int
    failed: dict[int, Exception] = field(default_factory=dict)


@dataclass(slots=True)
class ComparisonRecord:
    """The record of one comparison."""

    id: int
    call: tuple[int, ...]
    content: Content
    differ: np.ndarray | None  # indexed by model; None while they are still to be sampled
    far: np.ndarray | None  # with a metric, how far apart the outputs are, in the order of ``call``


class Router(Audited):
    """Models of increasing price that can be called alone; learns which to trust, and compares only while that pays.

    Every decision calls a set of models, usually one. The last of them answers, and is known before any call. The
    router learns how often two models differ. With the policy "Pay-to-compare" two things are guaranteed. Whatever the
    models answer, the router never spends more than the last model alone, plus 5 %, plus 50 calls. And, up to
    estimation errors, money plus errors are at most 5 % above those of always calling the last model.

    Safe to use from several threads. No lock is held while a model, ``compare`` or ``metric`` runs. Memory does not
    grow with the number of rounds.

    Parameters
    ----------
    models : K callables or fitted classifiers, or their number
        From the cheapest to the most expensive. A callable takes one sample and returns a label of any type, or
        ``Costed(label, cost)``. A number means that many models that run elsewhere: then use `decide` and `feedback`.
    prices : K non-decreasing numbers >= 0, the last > 0
        What a call of each model alone costs, in any unit of money.
    error_cost : number > 0
        What a wrong answer costs, in the same unit.
    policy : name or policy object
        "Pay-to-compare", "Double-Thompson" or "Fixed-model" with their options, or an object made for
        ``prices / error_cost``, which belongs to the router from then on.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the policy's generator; Pay-to-compare draws nothing, unless there is a ``metric``.
    compare, metric : callables, optional
        As for `Cascade`: when two answers count as the same, or how far apart they are.
    timeout, compiled, remember
        As for `Cascade`.

    Examples
    --------
    Two models that differ on one sample in ten; the second costs a fifth of an error more.

    >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 20], error_cost=100)
    >>> answers = [router(x % 10) for x in range(1000)]
    >>> router.settled(), router.comparisons, sum(len(answer.call) == 1 for answer in answers)
    (0, 29, 971)
    """

    kind = "Router"
    setting = "routing"
    form = STATE
    _noun = "model"
    _whole = "router"
    _priced = "prices"
    _done = "the round is counted"
    _audit_argument = "model"
    code: ClassVar[tuple[str, ...]] = ("models", "compare", "metric", "policy")
    choosing_learns = True  # a decision is counted: its price, and its open comparisons
    cancelling_learns = True

    def __init__(
        self,
        models: Sequence[Any] | int,
        prices: Any,
        error_cost: float = 1.0,
        policy: Any = "Pay-to-compare",
        seed: Any = None,
        *,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        timeout: float | None = None,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        self._timeout = None if timeout is None else number("timeout", timeout, above=0.0)
        self._targets = models
        self._stages = self._make_stages(models, self._timeout)
        self._set_prices(*self._checked_prices(prices, error_cost))
        refuse_tolerance(options, compare)
        check_functions(compare=compare, metric=metric)
        if compare is not None and metric is not None:
            raise ValueError("metric must not be given together with compare: one of them says what differs")
        self._compare, self._metric = compare, metric
        self._proven = compare is None  # whether ``compare`` is known not to be a tolerance
        self._alone: OrderedDict[int, int] = OrderedDict()  # decisions of one model, the latest last
        self._chosen: tuple[int, ...] = ()  # what the policy chose last
        costs = self._costs
        make = lambda name, **o: make_policy("routing", name, costs, **o)  # noqa: E731
        super().__init__(policy, make, METHODS, seed, options, compiled, remember)
        self._check_costs()
        self._counts: RouterCounts = RouterCounts.of(self._prices)

    def _checked_prices(self, prices: Any, error_cost: Any) -> tuple[np.ndarray, float]:
        """Return prices for these models and the price of an error."""
        found, error = model_prices(prices), number("error_cost", error_cost, above=0.0)
        if found.size != len(self._stages):
            raise ValueError(f"prices must be {len(self._stages)} numbers, one per model, got {found.size}")
        with np.errstate(over="ignore", under="ignore"):
            costs = found / error
        if not np.isfinite(costs).all() or costs[-1] <= 0.0:
            raise ValueError(f"prices / error_cost must be finite and end above 0, got error_cost={error!r}")
        return found, error

    def _set_prices(self, prices: np.ndarray, error_cost: float) -> None:
        self._stage_costs, self._prices, self._error_cost = prices, prices.tolist(), error_cost
        self._costs = prices / error_cost

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        call, differ = freeze(np.zeros(1, dtype=np.bool_)), freeze(np.zeros((1, 1), dtype=np.bool_))
        examples: dict[str, tuple[Any, ...]] = {
            "select": (),
            "start": (call,),
            "update_pairs": (call, differ),
            "cancel": (call,),
        }
        undrawn = ["cancel"]
        for name, example in (("reprice", freeze(np.zeros(1))), ("warm_pairs", differ)):
            if callable(getattr(policy, name, None)):
                examples[name] = (example,)
                undrawn.append(name)
        return examples, tuple(undrawn)

    def _bind(self) -> None:
        method = self._driver.method
        self._select, self._begin = method("select"), method("start")
        self._update, self._free = method("update_pairs"), method("cancel")
        self._warm: Any = (
            method("warm_pairs") if callable(getattr(self._driver.policy, "warm_pairs", None)) else None
        )

    # -- what can be seen

    @property
    def rounds(self) -> int:
        """The number of decisions made and not cancelled."""
        with self._ledger.lock:
            self._recover()
            return self._counts.rounds

    @property
    def comparisons(self) -> int:
        """The number of feedbacks accepted so far."""
        with self._ledger.lock:
            self._recover()
            return self._ledger.rounds

    # -- one sample at a time

    def __call__(self, x: Any) -> RouterAnswer:
        """Answer for one sample.

        If the answering model raises, the decision is cancelled and nothing is learned from it. If another one
        raises, the comparison is cancelled and the answer stands.
        """
        self._refuse_asynchronous()
        self._refuse_elsewhere()
        opened, outputs = list[int](), dict[int, Any]()
        try:
            id, call = self._decide(opened=opened)
            outputs[call[-1]] = self._stages[call[-1]].one(x, ())
            failed: dict[int, Exception] = {}
            for k in call[:-1]:
                try:
                    outputs[k] = self._stages[k].one(x, ())
                except Exception as error:
                    failed[k] = error
            self._learn_answers(id, call, outputs, failed)
        except BaseException:
            self._abandon(opened, [outputs])
            raise
        if self._log is not None:
            self._acknowledge_paid()
        return self._made_answer(id, call, outputs, failed)

    async def acall(self, x: Any) -> RouterAnswer:
        """Answer for one sample, calling all models of the decision at once; synchronous models run in threads."""
        self._refuse_elsewhere()
        opened, outputs = list[int](), dict[int, Any]()
        tasks: dict[int, asyncio.Task[Any]] = {}
        try:
            id, call = self._decide(opened=opened)
            for k in call:
                tasks[k] = asyncio.ensure_future(self._stages[k].one_async(x, ()))
            outputs[call[-1]] = await tasks[call[-1]]
            failed: dict[int, Exception] = {}
            for k in call[:-1]:
                try:
                    outputs[k] = await tasks[k]
                except Exception as error:
                    failed[k] = error
            self._learn_answers(id, call, outputs, failed)
        except BaseException:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
            self._abandon(opened, [outputs])
            raise
        if self._log is not None:
            await asyncio.to_thread(self._acknowledge_paid)
        return self._made_answer(id, call, outputs, failed)

    # -- many samples

    def predict(self, X: Any, batch_size: int = 50) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size)])

    def answers(self, X: Any, batch_size: int = 50) -> list[RouterAnswer]:
        """Answer for many samples, ``batch_size`` at a time, at most 100.

        The models of a whole batch are chosen before any of its outputs is seen, so keep the first batches small. Then
        each model is called on its rows, a classifier once for all of them, and the comparisons are learned in order.
        ``batch_size=1`` (always used for a policy that is not ``delay_safe``) is the same as one call after the other.
        If a model fails on a row that it answers, nothing is learned from the current batch and its decisions are
        cancelled; if it fails on another row, only the comparison of that row is cancelled.

        >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 20], error_cost=100)
        >>> answers = router.answers([x % 10 for x in range(1000)])
        >>> router.settled(), router.comparisons
        (0, 50)
        """
        self._refuse_asynchronous()
        self._refuse_elsewhere()
        samples, found = Rows(X), list[RouterAnswer]()
        for rows in self._batches(samples.size, batch_size, ALONE):
            found += self._answer_batch(samples, rows)
            if self._log is not None:
                self._acknowledge_paid()
        return found

    def _answer_batch(self, samples: Rows, rows: range) -> list[RouterAnswer]:
        opened: list[int] = []
        outputs: list[dict[int, Any]] = [{} for _ in rows]
        failed: list[dict[int, Exception]] = [{} for _ in rows]
        try:
            decisions = self._decide_many([()] * len(rows), opened)
            for model in reversed(self._stages):  # so that models that answer usually come first
                places = [p for p, (_, call) in enumerate(decisions) if model.index in call]
                for p, output in zip(places, model.each(samples, [rows[p] for p in places])):
                    if not isinstance(output, _Failed):
                        outputs[p][model.index] = output
                    elif decisions[p][1][-1] == model.index:
                        raise output.error
                    else:
                        failed[p][model.index] = output.error
            records = []
            for (id, call), seen, errors in zip(decisions, outputs, failed):
                self._note_nan(call, seen, errors)
                if len(call) > 1 and not errors:
                    given = [seen[k] for k in call]
                    records.append(self._compared(id, call, given, content_of(given)))
            self._learn(records)
            for (id, _), seen, errors in zip(decisions, outputs, failed):
                if errors:
                    self._close([id], self._paid(seen), reason="a model failed")
        except BaseException:
            self._abandon(opened, outputs)
            raise
        return [
            self._made_answer(id, call, seen, errors)
            for (id, call), seen, errors in zip(decisions, outputs, failed)
        ]

    def _learn_answers(
        self, id: int, call: tuple[int, ...], outputs: dict[int, Any], failed: dict[int, Exception]
    ) -> None:
        if len(call) == 1:
            return
        self._note_nan(call, outputs, failed)
        if failed:
            self._close([id], self._paid(outputs), reason="a model failed")
            return
        given = [outputs[k] for k in call]
        self._learn([self._compared(id, call, given, content_of(given))])

    def _note_nan(self, call: tuple[int, ...], outputs: dict[int, Any], failed: dict[int, Exception]) -> None:
        """Mark models other than the answering one as failed if they gave NaN, which is no label; the answer stands."""
        for k in call[:-1]:
            if k in outputs and k not in failed and is_nan(labels_of([outputs[k]])[0], self._compare):
                failed[k] = ValueError(f"models[{k}] gave NaN, which is no label")

    def _made_answer(
        self, id: int, call: tuple[int, ...], outputs: dict[int, Any], failed: dict[int, Exception]
    ) -> RouterAnswer:
        labels = tuple(labels_of([outputs.get(k) for k in call]))
        return RouterAnswer(labels[-1], call[-1], self._paid(outputs), call, labels, id, failed)

    def _paid(self, outputs: dict[int, Any]) -> float:
        return sum(costs_of(list(outputs.values()), [self._prices[k] for k in outputs]))

    # -- by hand

    def decide(self) -> RouterDecision:
        """Decide for one sample: which models to call, and whose answer counts."""
        id, call = self._decide()
        if self._log is not None:
            self._give_out(id)
        return RouterDecision(id, call, call[-1])

    def decide_many(self, count: int) -> list[RouterDecision]:
        """Decide for several samples at once, at most 100: all or, if one is refused, none.

        Open comparisons are taken into account, although their outcome is not yet known. With a journal, all these
        decisions wait for the disk once.
        """
        number, opened = integer("count", count, 1, ALONE), list[int]()
        try:
            decisions = self._decide_many([()] * number, opened)
            if self._log is not None:
                self._acknowledge()
        except BaseException:
            self._abandon(opened, [{} for _ in range(number)])
            raise
        return [RouterDecision(id, call, call[-1]) for id, call in decisions]

    def feedback(self, id: int, outputs: Sequence[Any]) -> str:
        """Learn the outputs of the models of a decision, in the order of its ``call``.

        Feedback may come at any time and in any order. Return "accepted", or "duplicate" if the same feedback was given
        before. `FeedbackConflict`, `UnknownDecision` (also for a single model, which does not wait for feedback) and
        ValueError leave everything unchanged.
        """
        given = output_list("outputs", outputs)
        content = content_of(given)
        call = self._awaited(id, content)
        if call is None:
            return "duplicate"
        return self._settle(self._compared(int(id), call, given, content))

    def feedback_pairs(
        self,
        id: int,
        differ: Sequence[tuple[int, int]],
        *,
        far: Sequence[float] | None = None,
        digest: str | None = None,
    ) -> str:
        """Learn a comparison that was made elsewhere: ``differ`` has the pairs of models (i, j), i < j, that differed.

        ``far`` is for a router with a ``metric``, instead of ``differ``: the distances of the pairs of ``call``, in the
        order (first, second), (first, third), .... ``digest`` distinguishes a repeated answer from a conflict. Return
        and raise as `feedback` does.
        """
        differ = sorted_pairs(differ)
        content = content_of_pairs(digest, differ, far)
        call = self._awaited(id, content)
        if call is None:
            return "duplicate"
        return self._settle(self._record_of_pairs(int(id), call, differ, far, content))

    def _awaited(self, id: int, content: Content) -> Any:
        try:
            return super()._awaited(id, content)
        except UnknownDecision:
            if not 1 <= id < self._ledger.next or self._is_known_to_have_ended(id):
                raise
            raise UnknownDecision(
                f"decision {id} waits for no feedback: it called one model alone, or was cancelled"
            ) from None

    def _is_known_to_have_ended(self, id: int) -> bool:
        """Return whether the journal records how a decision ended without an answer; the error then says it."""
        with self._ledger.lock:
            ending = self._ledger.ending
            return ending is not None and ending(int(id)) is not None

    def warm_start(self, outputs: Any) -> int:
        """Learn from logs in which all models ran: ``outputs`` has a row of K labels per sample.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing. The samples must
        be like future ones; selected samples bias the disagreements.
        """
        return self._warm_start(outputs, None)

    def _learn_warm(self, found: list[Difference], contexts: Sequence[Any] | None) -> None:
        if self._warm is None:
            raise Refused(f"warm_start is not for {self._label}, which has no warm_pairs()")
        super()._learn_warm(found, contexts)

    def _teach_row(self, context: tuple[Any, ...], differ: np.ndarray, counts: RouterCounts) -> RouterCounts:
        self._warm(differ)
        return counts.after_comparison(tuple(range(len(self._stages))), differ, learned=0)

    def recost(self, prices: Any, error_cost: float) -> None:
        """Continue with new prices; the counts stay, and the bound on spending starts again for this period."""
        found, error = self._checked_prices(prices, error_cost)
        policy = self._driver.policy
        if not getattr(policy, "recostable", False) or not callable(getattr(policy, "reprice", None)):
            raise Refused(f"recost is not for {self._label}: what it has learned depends on the prices")
        self._recost(found, error)

    def _take_costs(self, prices: np.ndarray, error_cost: float) -> None:
        self._driver.method("reprice")(freeze(prices / error_cost))

    def _steps_of_recost(self, prices: np.ndarray, error_cost: float) -> list[Step]:
        counts = self._counts.after_recost(prices.tolist())
        return [*super()._steps_of_recost(prices, error_cost), (self._set_counts, (counts,))]

    # -- what was learned

    def settled(self) -> int:
        """Return the model that the policy trusts now."""
        with self._ledger.lock:
            self._recover()
            return self._settled()

    def _settled(self) -> int:
        policy = self._driver.write_back()
        known = getattr(policy, "settled", None)
        if callable(known):
            return int(known())
        return stop_by_means(self._costs, self._counts.differed, self._counts.compared)

    def report(self) -> RouterReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        with self._ledger.lock:
            self._recover()
            settled, pending = self._settled(), len(self._ledger.pending)
            policy = self._driver.policy
            return make_router_report(
                self._label, self._prices, self._error_cost, pending, settled, policy, self._counts
            )

    def certificate(self, alpha: float = 0.05) -> Certificate:
        """Return what the comparisons so far prove without labels, at the prices of the models alone.

        Either the first model is optimal whatever the truth is, or weak dominance fails, or neither is decided yet. The
        confidence ``1 - alpha`` holds however often you look. Rows of a warm start count. Not available for a policy
        that forgets: its comparisons may be out of date. Pay-to-compare stops comparing long before anything is proved;
        ``needed`` says how many comparisons are missing, which a warm start can provide.

        >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 40], error_cost=100)
        >>> answers = [router(x % 10) for x in range(1000)]
        >>> router.certificate().verdict
        'undecided'
        >>> rows = router.warm_start([[x % 10 > 2, x % 10 > 3] for x in range(200)])
        >>> print(router.certificate())
        The first model is optimal for certain (at confidence 95 %), whatever the truth is.
        """
        with self._ledger.lock:
            self._recover()
            if getattr(self._driver.policy, "memory", 0) > 0:
                raise ValueError(f"certificate is not offered for {self._label} with a memory: use audit")
            counts, costs = self._counts, self._costs
        return dataclasses.replace(certify(costs, counts.compared, counts.differed, alpha), noun="model")

    def audit(self, items: Any, truth: Any, alpha: float = 0.05, model: int | None = None) -> Audit:
        """Estimate from a few labels how much more a model costs than the cheapest, without weak dominance.

        Parameters
        ----------
        items : samples
            Fresh ones, drawn like future samples. They go through models 0, ..., ``model``, and nothing is learned.
        truth : labels, one per item, or a callable
            Used only where the answers of these models differ. A callable takes an item, and the outputs of the
            models if it has a parameter ``outputs``.
        alpha : number between 0 and 1
            How often the interval may miss the truth.
        model : integer, optional
            The model to audit; by default the settled one.

        Cheaper models are compared by the labels, more expensive ones by how often they differed from this one so far,
        so make some comparisons first. Do not repeat it until you like the verdict: ``alpha`` is for one audit.

        >>> router = Router([lambda x: x > 3, lambda x: x > 2], prices=[1, 2], error_cost=100)
        >>> answers = [router(x % 10) for x in range(500)]
        >>> print(router.audit([x % 10 for x in range(500)], lambda x: x > 2))
        Audit of model 1 on 500 fresh items, 50 of them labelled: optimal
        it costs 0 to 0 per round more than the cheapest model (95 % confidence)
          against model 0: -11.64 to -6.283, by labels
        """
        return self._audit(items, truth, alpha, model)

    def audit_outputs(self, outputs: Any, truth: Any, alpha: float = 0.05, model: int | None = None) -> Audit:
        """Audit a model as `audit` does, on existing outputs.

        ``outputs`` has one row per fresh item: the outputs of the models 0, ..., ``model``, or of all. ``truth`` is a
        sequence of labels, or a callable that takes the number of a row.
        """
        return self._audit_outputs(outputs, truth, alpha, model)

    def _used(self) -> int:
        return self.settled()

    def explain(self, id: int) -> str:
        """Explain, also in money, why these models were called, for the last 1000 decisions of this object."""
        known = self._explained(id)
        return explanation(int(id), known, self._label)

    # -- how a round is decided, learned and cancelled

    def _choose(self, *context: Any) -> tuple[tuple[int, ...], Known]:
        """Ask the policy which models to call; in a replay, ``context`` holds the models that were played instead."""
        known = self._known()
        chosen = checked_call(self._driver.policy, self._select(self._rng), len(self._stages))
        self._chosen = tuple(np.flatnonzero(chosen).tolist())
        call = context[0] if context else self._chosen
        self._begin(self._bools(call), self._rng)
        return call, known._replace(call=call)

    def _chosen_again(self, decided: tuple[int, ...]) -> tuple[int, ...]:
        return self._chosen

    def _steps_of_decision(self, id: int, decided: tuple[int, ...]) -> list[Step]:
        """Count the decision; several models wait for feedback, one alone does not."""
        counts = self._counts.after_decision(decided, self._prices)
        if len(decided) > 1:
            return [*super()._steps_of_decision(id, decided), (self._set_counts, (counts,))]
        alone: list[Step] = [(self._ledger.skip_to, (id + 1,)), (self._keep_alone, (id, decided[0]))]
        return [*alone, (self._set_counts, (counts,))]

    def _bools(self, call: tuple[int, ...]) -> np.ndarray:
        found = np.zeros(len(self._stages), dtype=np.bool_)
        found[list(call)] = True
        return freeze(found)

    def _known(self) -> Known:
        """Return what explains the next decision; for a policy that looks ahead, also what it expects."""
        settled, policy = self._settled(), self._driver.policy  # the policy is now up to date
        ahead, evidence = None, None
        if isinstance(policy, PayToCompare):
            ahead, evidence = float(policy.ahead()), (policy.D.copy(), policy.N.copy())
        rho = float(getattr(policy, "rho", 0.0))
        return Known((), self._counts, self._prices, self._error_cost, settled, ahead, rho, evidence)

    def _keep_alone(self, id: int, model: int) -> None:
        self._alone[id] = model
        while len(self._alone) > ALONE:
            self._alone.popitem(last=False)

    def _compared(
        self, id: int, call: tuple[int, ...], outputs: list[Any], content: Content
    ) -> ComparisonRecord:
        """Return the record of these outputs; ValueError if they cannot be compared."""
        if len(outputs) != len(call):
            raise ValueError(
                f"outputs must be {len(call)} in number, of the models {', '.join(map(str, call))}, "
                f"got {len(outputs)}: {short(outputs)}"
            )
        differ, far = self._difference(labels_of(outputs))
        return ComparisonRecord(
            id, call, content, None if differ is None else self._by_models(call, differ), far
        )

    def _record_of_pairs(
        self, id: int, call: tuple[int, ...], differ: Any, far: Any, content: Content
    ) -> ComparisonRecord:
        pairs = output_list("differ", differ)
        if (self._metric is not None) != (far is not None) or (far is not None and pairs):
            raise ValueError(
                "far must be given for a router with a metric, and differ be empty, else left out"
            )
        if far is not None:
            return ComparisonRecord(id, call, content, None, far_matrix(far, len(call) - 1))
        matrix = np.zeros((len(self._stages), len(self._stages)), dtype=np.bool_)
        for pair in pairs:
            known = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(type(k) is int for k in pair)
            if not known or pair[0] >= pair[1] or not set(pair) <= set(call):
                raise ValueError(
                    f"differ must be pairs (i, j), i < j, of the models {call}, got {short(pair)}"
                )
            matrix[pair[0], pair[1]] = True
        return ComparisonRecord(id, call, content, freeze(matrix), None)

    def _by_models(self, call: tuple[int, ...], differ: np.ndarray) -> np.ndarray:
        """Return a matrix indexed by model from one in the order of the call."""
        matrix = np.zeros((len(self._stages), len(self._stages)), dtype=np.bool_)
        matrix[np.ix_(call, call)] = differ
        return freeze(matrix)

    def _teach(
        self, decided: tuple[int, ...], record: ComparisonRecord, counts: RouterCounts
    ) -> RouterCounts:
        if record.differ is None:
            record.differ = self._by_models(decided, sample_disagreements(record.far, self._rng))  # type: ignore[arg-type]
        self._update(self._bools(decided), record.differ, self._rng)
        return counts.after_comparison(decided, record.differ)

    def _can_be_cancelled(self, id: int) -> bool:
        return id in self._alone or super()._can_be_cancelled(id)

    def _steps_of_cancel(self, id: int, cost: float) -> list[Step]:
        """Close its comparisons; the round and its spending stay counted."""
        if id in self._ledger.waiting:
            self._free(self._bools(self._ledger.waiting[id]))
        return [(self._set_counts, (self._counts.after_cancel(cost),)), (self._alone.pop, (id, None))]

    def cancel(self, id: int, cost: float = 0.0) -> None:
        """Cancel a decision that waits for feedback, or one of the last 100 that called one model alone.

        Its comparisons are no longer open. Its price stays counted, and ``cost`` is shown as wasted in the report.
        """
        super().cancel(id, cost)

    # -- events of the journal

    def _decision_event(self, decided: tuple[int, ...]) -> dict[str, Any]:
        return {"call": list(decided), "answer": decided[-1]}

    def _context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        return (self._decoded(body),)

    def _decoded(self, body: dict[str, Any]) -> tuple[int, ...]:
        return self._checked_models(body["call"])

    def _let_stand(self, id: int, body: dict[str, Any]) -> None:
        """Do nothing: the journal holds what was played."""

    def _record_from_event(self, id: int, decided: tuple[int, ...], body: dict[str, Any]) -> ComparisonRecord:
        far = body.get("far")
        return self._record_of_pairs(
            id, decided, () if far is not None else body["differ"], far, body["digest"]
        )

    def _code(self) -> dict[str, Any]:
        return {
            **super()._code(),
            "models": self._targets,
            "compare": self._compare,
            "metric": self._metric,
        }

    # -- saving

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        models: Sequence[Any] | int,
        *,
        policy: Any = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        compiled: bool = False,
        fresh_ids: bool = False,
    ) -> Router:
        """Return the router that was saved to ``path``; it decides as if it had never stopped.

        The models, ``compare`` and ``metric`` are code and not in the file: pass them again. So is a policy of your
        own: pass a fresh object. A file that cannot be used raises `StateError`.

        The file does not record ids that were issued after it was written. If there may be any (after a crash, or if
        a second object was loaded from the same file), pass ``fresh_ids=True``: ids then continue after a random gap,
        so that a late answer to one of those decisions is refused and not taken for another. `open` does not need this.
        """
        code = {"models": models, "compare": compare, "metric": metric}
        return cls._load(path, code, policy, compiled, fresh_ids)

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        models: Sequence[Any] | int | None = None,
        *,
        policy: Any = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        compiled: bool = False,
    ) -> Router:
        """Return the router that gave ``state``; if ``models`` is left out, they run elsewhere. See `load`."""
        body = storage.checked_copy(state)
        if models is None:
            models = storage.count_of(body, "prices")
        code = {"models": models, "compare": compare, "metric": metric}
        return cls._made_again(body, code, policy, compiled, "the state")

    @classmethod
    def _make_stages(cls, targets: Any, timeout: float | None) -> list[Any]:
        try:
            made = make_stages(targets, timeout)
            return (
                made if made[0].elsewhere else [Model(k, model, timeout) for k, model in enumerate(targets)]
            )
        except ValueError as error:
            raise ValueError(str(error).replace("stages", "models")) from None

    def _state(self) -> dict[str, Any]:
        return {
            "prices": self._stage_costs.tolist(),
            "error_cost": self._error_cost,
            "timeout": self._timeout,
            "compare": self._compare is not None,
            "metric": self._metric is not None,
            "counts": self._counts.state(),
            "alone": [[id, model] for id, model in self._alone.items()],
        }

    def _restore(self, body: dict[str, Any]) -> None:
        super()._restore(body)
        for item in body["alone"]:
            if not isinstance(item, list) or len(item) != 2:
                raise StateError("alone must be pairs of a decision and a model")
            id = integer("id", item[0], 1, self._ledger.next - 1)
            self._keep_alone(id, integer("model", item[1], 0, len(self._stages) - 1))

    def _encode_decision(self, decided: tuple[int, ...]) -> list[int]:
        return list(decided)

    def _decode_decision(self, data: Any) -> tuple[int, ...]:
        call = self._checked_models(data)
        if len(call) < 2:
            raise StateError("a decision of one model alone waits for no feedback")
        return call

    # -- checks

    def _checked_models(self, data: Any) -> tuple[int, ...]:
        """Return the models, validated: at least one, in increasing order."""
        if not isinstance(data, list) or not data:
            raise ValueError(f"call must be a list of models, got {short(data)}")
        call = tuple(integer("a model of call", k, 0, len(self._stages) - 1) for k in data)
        if list(call) != sorted(set(call)):
            raise ValueError(f"call must be increasing, got {short(data)}")
        return call

    def _check_costs(self) -> None:
        check_costs(self._driver.policy, self._costs, "c", "prices / error_cost", self._noun)


@dataclass(slots=True)
class _Failed:
    """Placeholder for the output of a failed call."""

    error: Exception


class Model(Stage):
    """A stage that is called a model."""

    def each(self, samples: Rows, rows: list[int]) -> list[Any]:
        """Return the output or the failure of each row; a classifier is called once for all rows, and fails for all."""
        found: list[Any] = []
        try:
            if self._predicts and rows:
                return list(self.many(samples, rows, ()))
        except Exception as error:
            return [_Failed(error)] * len(rows)
        for row in rows:
            try:
                found.append(self.one(samples[row], ()))
            except Exception as error:
                found.append(_Failed(error))
        return found

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"models[{self.index}] took longer than {self._timeout:g} s")


__all__ = ["Costed", "Router", "RouterAnswer", "RouterDecision", "RouterReport"]
