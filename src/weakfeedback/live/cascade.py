"""A live cascade of tests, classifiers or models: pay for no more stages than needed, without labels."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from weakfeedback.cascade.audit import Audit
from weakfeedback.cascade.certificate import Certificate, certify
from weakfeedback.live import storage
from weakfeedback.live.auditing import Audited
from weakfeedback.live.base import EXPLAINED
from weakfeedback.live.buying import NO_LABEL, Bought, LabelSource, label_price_of, labels_from_state
from weakfeedback.live.cascade_report import CascadeReport, explanation, make_report
from weakfeedback.live.driver import Examples
from weakfeedback.live.errors import Refused
from weakfeedback.live.labels import (
    Costed,
    Scored,
    as_array,
    freeze,
    majority,
    output_list,
    rights,
    short,
)
from weakfeedback.live.ledger import Content
from weakfeedback.live.metrics import Metric, far_matrix, refuse_tolerance
from weakfeedback.live.rounds import Answer, Decision, RoundRecord
from weakfeedback.live.staged import STATE as COMMON
from weakfeedback.live.staged import Staged, arm_of, check_number, warn_of_prices
from weakfeedback.live.stages import Rows
from weakfeedback.live.stopping import Step
from weakfeedback.settings.catalog import POLICIES, canonical_name, make_policy
from weakfeedback.settings.setting import find_name
from weakfeedback.validate import integer

__all__ = ["EXPLAINED", "Answer", "Audit", "Cascade", "Costed", "Decision", "Scored", "majority"]

STATE: dict[str, type | tuple[type, ...]] = {**COMMON, "metric": bool, "label": bool, "purse": dict}

POLICY = 3  # its position among the arguments


class Cascade(Staged, Audited):
    """Stages of increasing cost whose answers are never checked; learns at which one to stop.

    A sample goes through the stages in order up to the one the policy chose, and the answer is that of the last
    stage called. The cascade learns how often the answers of two stages differ: a later stage is worth its price
    only if it differs often enough. This finds the best stage under weak dominance (thesis, section 2.3), which in
    general can be checked only with labels (`audit`).

    Safe to use from several threads. No lock is held while a stage, ``combine`` or ``compare`` runs. Memory does
    not grow with the number of rounds.

    Parameters
    ----------
    stages : K callables or fitted classifiers, or their number
        A callable takes one sample and returns a label of any type, or ``Costed(label, cost)`` if it knows what
        the call actually cost. If it has a parameter ``earlier``, it gets the tuple of the earlier stages' labels.
        Of a classifier, ``predict`` is called, on one row or on many. A number means that many stages that run
        elsewhere: then use `decide` and `feedback` or `feedback_pairs`.
    stage_costs : K numbers >= 0
        What each call costs, in any unit of money.
    error_cost : number > 0
        What a wrong answer costs, in the same unit.
    policy : name or policy object
        "USS-TS", "USS-UCB", "Hanawal", "USS-WD", "USS-TS-drift", "Q-USS", "Fixed" or "Random" with their
        options, or an object made for the costs ``cumsum(stage_costs) / error_cost``, which belongs to the
        cascade from then on. The default is "Q-USS" if there is a ``label`` or a ``label_price``, else "USS-TS".
        "USS-WD" is for answers with two labels, and raises ValueError when three differ.
        "USS-A", "USS-next", "Agreement" and "Thresholds", and objects with a method ``go_on`` made for
        ``stage_costs / error_cost``, decide after every answer instead: see below.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the policy's generator; fresh entropy if None. A Generator must use PCG64, and is not copied.
    combine : callable, optional
        Computes the answer of stage i from the list of outputs 0, ..., i, for instance `majority`.
    compare : callable, optional
        ``compare(a, b)`` is true when two answers count as the same; ``a == b`` if None. NaN is not a label. A
        tolerance is not allowed, and is refused as soon as it is detected.
    metric : callable, optional
        For numeric answers, in place of ``compare``: ``metric(a, b)`` returns their distance, from 0 to 1, and obeys
        the triangle inequality. An error then costs ``error_cost`` times its distance from the truth. Two answers
        count as different with that probability: when a round is learned, one number is drawn from the policy's
        generator for every pair of stages called, in the order (0, 1), (0, 2), ..., (1, 2), ....
    label : callable, optional
        For a policy that buys labels, "Q-USS": ``label(x)``, or ``label(x, outputs)`` if it takes ``outputs``, returns
        the truth of a sample, or ``Costed(truth, cost)``. It is called during `cascade(x)`, after the stages and
        before anything is learned. If it raises, the decision is cancelled.
    label_price : number >= 0
        What a label costs, in the same unit; required by "Q-USS".
    timeout : number > 0, optional
        Maximum duration of a stage call in seconds. The call itself cannot be stopped: it continues in its thread.
    compiled : bool
        Whether the policy's methods run compiled: faster for many stages, with the same decisions. The constructor
        compiles them, or loads them from the compiler's cache, so that no decision has to wait for it.
    remember : integer >= 0, optional
        How many answers are remembered individually (default 10,000); older ones count as duplicates, unchecked.

    Notes
    -----
    With a policy that decides after every answer, a stage may return ``Scored(label, score)``; a classifier with
    ``predict_proba`` does so automatically. ``judge`` ("last", "score" or "calibrated"; by default "score" if the last
    stage has ``predict_proba``, else "last") selects what USS-A believes in the end. ``calibrate(items, truth)`` lowers
    its limit with about 30 labels. ``begin()`` and ``tell(id, output)`` replace `decide` and `feedback`. `audit`
    compares the rule with every fixed stage. ``combine``, ``metric``, ``label`` and `certificate` are refused.
    Use ``compiled=True``, or each fit takes a second after some thousand rounds.

    Examples
    --------
    >>> cascade = Cascade([lambda x: x > 2, lambda x: x > 3], stage_costs=[1, 30], error_cost=100, seed=0)
    >>> answers = [cascade(x % 10) for x in range(1000)]
    >>> sum(answer.arm == 0 for answer in answers), answers[-1].label
    (956, True)

    Decide after every answer: the first stage errs where it is unsure, and the second is called only there.

    >>> sure = lambda x: Scored(x > 2, abs(x - 2.5))
    >>> cascade = Cascade([sure, lambda x: x > 3], stage_costs=[1, 8], error_cost=100, policy="USS-A", seed=0)
    >>> arms = [cascade(x % 10).arm for x in range(500)]
    >>> arms[-10:]
    [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    """

    kind = "Cascade"
    setting = "cascade"
    form = STATE
    code: ClassVar[tuple[str, ...]] = (*Staged.code, "metric", "label")

    def __new__(cls, *arguments: Any, **named: Any) -> Cascade:
        """Create a cascade that decides after every answer if the policy does."""
        policy = named.get("policy", arguments[POLICY] if len(arguments) > POLICY else None)
        return super().__new__(_adaptive() if cls is Cascade and decides_within(policy) else cls)

    def __init__(
        self,
        stages: Sequence[Any] | int,
        stage_costs: Any,
        error_cost: float = 1.0,
        policy: Any = None,
        seed: Any = None,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        label: Callable[..., Any] | None = None,
        label_price: float | None = None,
        timeout: float | None = None,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stages, stage_costs, error_cost, combine, compare, timeout)
        refuse_tolerance(options, compare)
        if policy is None:
            policy = "USS-TS" if label is None and label_price is None else "Q-USS"
        _check_name(policy)
        self._label_source = None if label is None else LabelSource("label", label)
        self._label_price = label_price_of(policy, label, label_price, self._error_cost, options)
        costs = self._costs
        make = lambda name, **o: make_policy("cascade", name, costs, **o)  # noqa: E731
        self._start(policy, make, seed, options, compiled, remember)
        self._binary = bool(getattr(self._driver.policy, "binary_outputs", False))
        self._proven = compare is None  # whether ``compare`` is known not to be a tolerance
        self._metric = metric
        self._plain = compare is None and metric is None and not self._binary
        self._unready = self._unready or self._label_price is not None
        if metric is not None:
            self._check_metric(metric)
        if self._policy_name not in (None, "Fixed", "Random"):  # one that learns where to stop
            warn_of_prices(self._stage_costs, self._error_cost)

    def _check_metric(self, metric: Any) -> None:
        if not callable(metric):
            raise ValueError(f"metric must be a callable or None, got {short(metric)}")
        if self._compare is not None:
            raise ValueError("metric must not be given together with compare: one of them says what differs")
        if self._binary or self._label_price is not None:
            raise ValueError(f"metric must not be given with {self._label}, which is for labels")

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        examples, undrawn = super()._examples(policy)
        if self._label_price is None:
            return examples, undrawn
        differ, right = freeze(np.zeros((1, 1), dtype=np.bool_)), freeze(np.zeros(1, dtype=np.bool_))
        buying = {"wants_label_pairs": (0, differ), "learn_label_pairs": (0, differ, right)}
        return {**examples, **buying}, (*undrawn, "learn_label_pairs")

    def _bind(self) -> None:
        super()._bind()
        if self._label_price is not None:
            self._wants_label = self._driver.method("wants_label_pairs")
            self._learn_label = self._driver.method("learn_label_pairs")  # type: ignore[method-assign]

    # -- one sample at a time

    async def acall(self, x: Any) -> Answer:
        """Answer for one sample, awaiting the stages; synchronous stages run in a thread."""
        self._refuse_elsewhere()
        self._refuse_unlabelled(awaits=True)
        return await self._answer_async(x)

    # -- many samples

    def predict(self, X: Any, batch_size: int = 256) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size)])

    def answers(self, X: Any, batch_size: int = 256) -> list[Answer]:
        """Answer for many samples, ``batch_size`` at a time.

        The stages of a whole batch are chosen before any of its outputs is seen; then each stage is called on
        the rows that go that far, and the rows are learned in order. ``batch_size=1`` (always used for a policy that
        is not ``delay_safe``) is the same as one call after the other. If anything fails, nothing is learned from
        the current batch and its decisions are cancelled; earlier batches stay learned.
        """
        self._refuse_asynchronous()
        self._refuse_unlabelled(awaits=False)
        samples = Rows(X)
        return self._answers(samples, [()] * samples.size, batch_size)

    # -- by hand

    def decide(self) -> Decision:
        """Decide for one sample; call the stages yourself and give their outputs to `feedback`."""
        return self._give_decision()

    def wants_label(self, id: int, outputs: Sequence[Any]) -> bool:
        """Return whether the policy buys the label of a decision with these outputs; False if it buys no labels.

        Nothing is changed. Call this before `feedback`, buy the label, and pass outputs and label to `feedback`.
        """
        given = output_list("outputs", outputs)
        with self._ledger.lock:
            self._recover()
            arm = arm_of(self._ledger.decided(id))
        check_number(given, arm)
        return self._wants(self._compared(int(id), arm, given, ()))

    def feedback(self, id: int, outputs: Sequence[Any], label: Any = NO_LABEL) -> str:
        """Learn the outputs of stages 0, ..., arm of a decision. Feedback may come at any time and in any order.

        ``label`` is the truth, bought because `wants_label` returned True. It is part of the content: the same outputs
        with another label, or without one, are a conflict. A label that the policy does not want is refused, because
        labels selected by the user would bias the estimates. A wanted label may be left out.

        Return "accepted", or "duplicate" if the same feedback was given before. `FeedbackConflict`, `UnknownDecision`
        and ValueError leave everything unchanged.
        """
        return self._feedback(id, outputs, label)

    def begin(self) -> Step:
        """Begin a round: run ``step.stage`` and `tell` its output. For a policy that decides after every answer."""
        raise Refused(
            f"begin is for a policy that decides after every answer, not for {self._label}: use decide"
        )

    def tell(self, id: int, output: Any, stage: int | None = None) -> Step:
        """Tell the output of the stage that was to be run; return the next one to run, or the answer; see `begin`."""
        raise Refused(
            f"tell is for a policy that decides after every answer, not for {self._label}: use feedback"
        )

    def calibrate(self, items: Any, truth: Any) -> int:
        """Learn from labelled samples how reliable the last stage is. For a policy that judges, such as USS-A."""
        raise Refused(f"calibrate is for a policy that judges, such as USS-A, not for {self._label}")

    def calibrate_outputs(self, outputs: Any, scores: Any, truth: Any) -> int:
        """Calibrate as `calibrate` does, with existing outputs of all stages."""
        raise Refused(f"calibrate_outputs is for a policy that judges, such as USS-A, not for {self._label}")

    def warm_start(self, outputs: Any) -> int:
        """Learn from logs in which all stages ran: ``outputs`` has a row of K labels per sample.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing. The samples
        must be like future ones; selected samples (for instance hard ones) bias the disagreements.
        """
        return self._warm_start(outputs, None)

    # -- what was learned

    def report(self) -> CascadeReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        with self._ledger.lock:
            self._recover()
            pending, buys = len(self._ledger.pending), self._label_price is not None
            counts, certified = self._counts, not self._forgets()
            return make_report(
                self._label, self._stage_costs, self._error_cost, pending, counts, buys, certified
            )

    def certificate(self, alpha: float = 0.05) -> Certificate:
        """Return what the comparisons so far prove without labels.

        Either the first stage is optimal whatever the truth is, or weak dominance fails (then labels are needed), or
        neither is decided yet. The confidence ``1 - alpha`` holds however often you look. Rows of a warm start count.
        Not available for a policy that forgets: its comparisons may be out of date.

        >>> cascade = Cascade([lambda x: x > 2, lambda x: x > 3], stage_costs=[1, 30], error_cost=100, seed=0)
        >>> answers = [cascade(x % 10) for x in range(1000)]
        >>> cascade.certificate().verdict
        'undecided'
        >>> rows = cascade.warm_start([[x % 10 > 2, x % 10 > 3] for x in range(200)])
        >>> print(cascade.certificate())
        The first stage is optimal for certain (at confidence 95 %), whatever the truth is.
        """
        if self._forgets():
            raise Refused(f"certificate is not offered for {self._label}, which forgets: use audit")
        with self._ledger.lock:
            self._recover()
            counts, costs = self._counts, self._costs
        return certify(costs, counts.compared, counts.differed, alpha)

    def _forgets(self) -> bool:
        return bool(getattr(self._driver.policy, "forgets", False))

    def audit(self, items: Any, truth: Any, alpha: float = 0.05, arm: int | None = None) -> Audit:
        """Estimate from a few labels how much more a stage costs than the cheapest, without weak dominance.

        Parameters
        ----------
        items : samples
            Fresh ones, drawn like future samples. They go through stages 0, ..., ``arm``, and nothing is learned.
        truth : labels, one per item, or a callable
            Used only where the answers of these stages differ. A callable is called like ``label``.
        alpha : number between 0 and 1
            How often the interval may miss the truth.
        arm : integer, optional
            The stage to audit; by default the one at which most rounds stopped.

        Earlier stages are compared by the labels, later ones by how often they differed from this one so far,
        so let some rounds go there first. Do not repeat it until you like the verdict: ``alpha`` is for one audit.

        >>> stages = [lambda x: x > 3, lambda x: x > 2]
        >>> cascade = Cascade(stages, stage_costs=[0, 1], error_cost=100, policy="Fixed", arm=1)
        >>> answer = cascade(5)
        >>> print(cascade.audit([x % 10 for x in range(500)], lambda x: x > 2))
        Audit of stage 1 on 500 fresh items, 50 of them labelled: optimal
        it costs 0 to 0 per round more than the cheapest stage (95 % confidence)
          against stage 0: -11.64 to -6.283, by labels
        """
        return self._audit(items, truth, alpha, arm)

    def audit_outputs(self, outputs: Any, truth: Any, alpha: float = 0.05, arm: int | None = None) -> Audit:
        """Audit a stage as `audit` does, on existing outputs.

        ``outputs`` has one row per fresh item: the outputs of the stages 0, ..., ``arm``, or of all. ``truth`` is a
        sequence of labels, or a callable that takes the number of a row.
        """
        return self._audit_outputs(outputs, truth, alpha, arm)

    def _used(self) -> int:
        with self._ledger.lock:
            self._recover()
            stops = self._counts.stops
        if not any(stops):
            raise ValueError("arm must be given, because no round was learned yet")
        return int(np.argmax(stops))

    def explain(self, id: int) -> str:
        """Explain why a stage was chosen, for the last 1000 decisions made since this object was loaded."""
        arm, counts, (stage_costs, error_cost) = self._explained(id)
        return explanation(int(id), arm, counts, stage_costs, error_cost, self._label, self._how())

    # -- saving

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        stages: Sequence[Any] | int,
        *,
        policy: Any = None,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        label: Callable[..., Any] | None = None,
        compiled: bool = False,
        fresh_ids: bool = False,
    ) -> Cascade:
        """Return the cascade that was saved to ``path``; it decides as if it had never stopped.

        The stages, ``combine``, ``compare``, ``metric`` and ``label`` are code and not in the file: pass them again. So
        is a policy of your own: pass a fresh object. A file that cannot be used raises `StateError`.

        The file does not record ids that were issued after it was written. If there may be any (after a crash, or if
        a second object was loaded from the same file), pass ``fresh_ids=True``: ids then continue after a random gap,
        so that a late answer to one of those decisions is refused and not taken for another. `open` does not need this.
        """
        code = {"stages": stages, "combine": combine, "compare": compare, "metric": metric, "label": label}
        return cls._load(path, code, policy, compiled, fresh_ids)

    @classmethod
    def from_state(
        cls,
        state: dict[str, Any],
        stages: Sequence[Any] | int | None = None,
        *,
        policy: Any = None,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        label: Callable[..., Any] | None = None,
        compiled: bool = False,
    ) -> Cascade:
        """Return the cascade that gave ``state``; if ``stages`` is left out, they run elsewhere. See `load`."""
        body = storage.checked_copy(state)
        if stages is None:
            stages = storage.count_of(body, "stage_costs")
        code = {"stages": stages, "combine": combine, "compare": compare, "metric": metric, "label": label}
        found: Cascade = cls._made_again(body, code, policy, compiled, "the state")
        return found

    @classmethod
    def _arguments_in(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {**super()._arguments_in(body), "label_price": body["purse"].get("price")}

    @classmethod
    def _made_again(
        cls, body: dict[str, Any], code: dict[str, Any], policy: Any, compiled: bool, where: str
    ) -> Any:
        made: Any = _adaptive() if cls is Cascade and isinstance(body, dict) and "setting" in body else cls
        return super(Cascade, made)._made_again(body, code, policy, compiled, where)

    def _state(self) -> dict[str, Any]:
        functions = {"metric": self._metric is not None, "label": self._label_source is not None}
        counts = self._counts
        bought = {"price": self._label_price, "labels": counts.labels, "spent": counts.label_spent}
        return {**super()._state(), **functions, "purse": bought}

    def _code(self) -> dict[str, Any]:
        asked = None if self._label_source is None else self._label_source.function
        return {**super()._code(), "metric": self._metric, "label": asked}

    @classmethod
    def _arguments_of(cls, state: dict[str, Any]) -> dict[str, Any]:
        price = state["purse"]["price"]
        return {**super()._arguments_of(state), **({} if price is None else {"label_price": price})}

    def _restore(self, body: dict[str, Any]) -> None:
        super()._restore(body)
        labels, spent = labels_from_state(body["purse"], self._label_price)
        self._counts = self._counts._replace(labels=labels, label_spent=spent)

    def _encode_decision(self, decided: int) -> int:
        return decided

    def _decode_decision(self, data: Any) -> int:
        return integer("arm", data, 0, len(self._stages) - 1)

    # -- how answers are compared

    def _difference(self, answers: list[Any]) -> tuple[np.ndarray | None, np.ndarray | None]:
        differ, far = super()._difference(answers)
        if self._binary:
            self._refuse_third_label(differ, answers)
        return differ, far

    def _refuse_third_label(self, differ: Any, answers: list[Any]) -> None:
        first = differ[0]
        if (differ[1:] != np.triu(first != first[:, None], 1)[1:]).any():
            raise ValueError(
                f"outputs must take at most two values in a round for {self._label}, got {short(answers)}"
            )

    def _record_of_pairs(
        self, id: int, arm: int, differ: Any, far: Any, costs: Any, content: Content
    ) -> RoundRecord:
        if self._metric is None:
            record = super()._record_of_pairs(id, arm, differ, far, costs, content)
            if self._binary:
                self._refuse_third_label(record.differ, list(differ))
            return record
        if far is None or output_list("differ", differ):
            raise ValueError("far must be given, and differ empty, for a cascade with a metric")
        record = super()._record_of_pairs(id, arm, (), None, costs, content)
        record.differ, record.far = None, far_matrix(far, arm)
        return record

    # -- labels

    def _refuse_call(self) -> None:
        super()._refuse_call()
        self._refuse_unlabelled(awaits=False)

    def _refuse_unlabelled(self, awaits: bool) -> None:
        if self._label_price is not None and self._label_source is None:
            raise ValueError(f"label must be given to call the cascade, because {self._label} buys labels")
        if self._label_source is not None and self._label_source.asynchronous and not awaits:
            raise ValueError("label is asynchronous: use `await cascade.acall(x)`")

    def _wants(self, record: RoundRecord) -> bool:
        if self._label_price is None:
            return False
        with self._ledger.lock:
            self._recover()
            return bool(self._wants_label(record.arm, record.differ, self._rng))

    def _labelled(self, record: RoundRecord, label: Any) -> None:
        if self._label_price is None:
            super()._labelled(record, label)
        if not self._wants(record):
            words = f"label must be given only when wants_label says so, got {short(label)}"
            raise Refused(words, "wrong_label")
        if isinstance(label, Bought):
            record.right, cost = freeze(label.right), label.cost
        else:
            truth, cost = (label.label, label.cost) if isinstance(label, Costed) else (label, None)
            record.right, record.truth = freeze(rights(record.answers, truth, self._compare)), truth
        record.label_cost = self._label_price or 0.0 if cost is None else cost


def _signature() -> inspect.Signature:
    """Return the signature of the constructor, not that of __new__, which only looks up the policy."""
    found = inspect.signature(Cascade.__init__)
    return found.replace(parameters=list(found.parameters.values())[1:])


setattr(Cascade, "__signature__", _signature())  # noqa: B010


def decides_within(policy: Any) -> bool:
    """Return whether a policy (a name or an object) decides after every answer. "Fixed" means the one that does not."""
    if isinstance(policy, str):
        known = {name.lower() for name in POLICIES["adaptive"]} - {
            name.lower() for name in POLICIES["cascade"]
        }
        return policy.lower() in known - {"promise"}  # which names the stages itself
    return not isinstance(policy, type) and callable(getattr(policy, "go_on", None))


def _check_name(policy: Any) -> None:
    """Refuse a name that no policy has, with all names: also of those that decide after every answer."""
    try:
        if isinstance(policy, str):
            canonical_name("cascade", policy)
    except ValueError:
        find_name("policy", policy, dict.fromkeys((*POLICIES["cascade"], *POLICIES["adaptive"])))


def _adaptive() -> type[Cascade]:
    from weakfeedback.live.adaptive import AdaptiveCascade

    return AdaptiveCascade
