"""A cascade of tests, classifiers or models in use: pay for no more stages than needed, without labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weakfeedback.cascade.audit import Audit, audit_arm, checked_level
from weakfeedback.cascade.uss_ts import UssTs
from weakfeedback.catalog import make_policy
from weakfeedback.live.auditing import examine, in_money
from weakfeedback.live.base import remade, saved_policy
from weakfeedback.live.buying import NO_LABEL, Asker, Purse, label_price_of
from weakfeedback.live.labels import MANY, Costed, as_array, majority, output_list, rights, short
from weakfeedback.live.ledger import fingerprint
from weakfeedback.live.many import select_at_once, select_few, update_at_once, update_few
from weakfeedback.live.metrics import Metric, distances, refuse_closeness, refuse_tolerance, tossed
from weakfeedback.live.report import CascadeReport, Record, explanation, make_report
from weakfeedback.live.rounds import Answer, Decision, Lesson, check_number
from weakfeedback.live.staged import EXPLAINED, Staged
from weakfeedback.live.staged import STATE as COMMON
from weakfeedback.live.stages import Rows
from weakfeedback.live.tally import pairs_compared
from weakfeedback.validate import integer

__all__ = ["EXPLAINED", "Answer", "Audit", "Cascade", "Costed", "Decision", "majority"]

STATE: dict[str, type | tuple[type, ...]] = {**COMMON, "metric": bool, "label": bool, "purse": dict}


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
        "USS-TS", "USS-UCB", "Hanawal", "USS-TS-joint", "USS-TS-drift", "Q-USS", "Fixed" or "Random" with their
        options, or an object made for the costs ``cumsum(stage_costs) / error_cost``, which belongs to the
        cascade from then on; "Q-USS" if there is a ``label`` or a ``label_price``, else "USS-TS", unless given.
        "USS-TS-joint" is for answers of two labels, and raises ValueError when three differ.
    seed : integer >= 0, SeedSequence or Generator, optional
        Of the policy's generator; fresh entropy if None. A Generator must be over PCG64, and is used as it is.
    combine : callable, optional
        Forms the answer of stage i from the list of outputs 0, ..., i, for instance `majority`.
    compare : callable, optional
        ``compare(a, b)`` is true when two answers count as the same; ``a == b`` if None. Not NaN: it is no label.
        It must not be a tolerance, which is refused as soon as it shows.
    metric : callable, optional
        For answers that are numbers, in place of ``compare``: ``metric(a, b)`` says how far apart they are, from 0
        to 1, and obeys the triangle inequality. An error then costs ``error_cost`` times its distance from the
        truth. Two answers count as different with that probability: when a round is learned, one number is drawn
        from the policy's generator for every pair of stages called, in the order (0, 1), (0, 2), ..., (1, 2), ....
    label : callable, optional
        For a policy that buys labels, "Q-USS": ``label(x)``, or ``label(x, outputs)`` if it takes ``outputs``, returns
        the truth of a sample, or ``Costed(truth, cost)``. It is asked while `cascade(x)` is under way, after the
        stages and before anything is learned. If it raises, the decision is cancelled.
    label_price : number >= 0
        What a label costs, in the same money; "Q-USS" needs it.
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
        policy: Any = None,
        seed: Any = None,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        label: Callable[..., Any] | None = None,
        label_price: float | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stages, stage_costs, error_cost, combine, compare, timeout)
        refuse_tolerance(options, compare)
        if policy is None:
            policy = "USS-TS" if label is None and label_price is None else "Q-USS"
        self._asker = None if label is None else Asker("label", label)
        self._purse = Purse(label_price_of(policy, label, label_price, self._error_cost, options))
        costs = self._costs
        self._start(policy, lambda name, **o: make_policy("cascade", name, costs, **o), seed, options)
        self._binary = bool(getattr(self._policy, "binary_outputs", False))
        self._proven = compare is None  # that ``compare`` is no tolerance
        self._metric = metric
        if metric is not None:
            self._plain = False
            self._check_metric(metric)

    def _check_metric(self, metric: Any) -> None:
        if not callable(metric):
            raise ValueError(f"metric must be a callable or None, got {short(metric)}")
        if self._compare is not None:
            raise ValueError("metric must not be given together with compare: one of them says what differs")
        if self._binary or self._purse.price is not None:
            raise ValueError(f"metric must not be given with {self._label}, which is for labels")

    # -- one sample at a time

    def __call__(self, x: Any) -> Answer:
        """Answer for one sample. A stage that raises cancels the decision; nothing is learned from it."""
        self._refuse_asynchronous()
        self._refuse_unlabelled(awaits=False)
        return self._answer(x, None)

    async def acall(self, x: Any) -> Answer:
        """Answer for one sample, awaiting the stages; those that are not asynchronous run in a thread."""
        self._refuse_unlabelled(awaits=True)
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
        self._refuse_unlabelled(awaits=False)
        samples = Rows(X)
        return self._answers(samples, [None] * samples.size, batch_size)

    # -- by hand

    def decide(self) -> Decision:
        """Decide for one sample; call the stages yourself and give their outputs to `feedback`."""
        return self._given_out(None)

    def wants_label(self, id: int, outputs: Sequence[Any]) -> bool:
        """Say whether the policy buys the truth of a decision with these outputs; never so if it buys no labels.

        Nothing is changed. Ask before `feedback`, buy the label, and give both to it.
        """
        given = output_list("outputs", outputs)
        with self._ledger.lock:
            arm = self._arm(self._ledger.decided(id))
        check_number(given, arm)
        return self._wants(self._lesson(arm, given))

    def feedback(self, id: int, outputs: Sequence[Any], label: Any = NO_LABEL) -> str:
        """Learn the outputs of stages 0, ..., arm of a decision, at any time and in any order.

        ``label`` is the truth, bought because `wants_label` said so. It is part of the content: the same outputs
        with another label, or without, contradict it. A label that is not wanted is refused, for the labels that
        somebody picks teach wrong shares. One that is wanted may be left out.

        Return "accepted", or "duplicate" if the same was said before. Raise `FeedbackConflict`,
        `UnknownDecision` or ValueError, and then nothing has changed.
        """
        return self._fed_back(id, outputs, label)

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
            pending = len(self._ledger.pending)
            return make_report(self._label, self._stage_costs, pending, self._tally, self._purse)

    def audit(self, items: Any, truth: Any, alpha: float = 0.05, arm: int | None = None) -> Audit:
        """Find out by a few labels what a stage costs more than the cheapest, without weak dominance.

        Parameters
        ----------
        items : samples
            Fresh ones, like those to come. They go through the stages 0, ..., ``arm``, and nothing is learned.
        truth : labels, one per item, or a callable
            Looked at only where the answers of these stages differ. A callable is asked as ``label`` is.
        alpha : number between 0 and 1
            How often the interval may miss the truth.
        arm : integer, optional
            The stage to audit: the one at which most rounds stopped, unless given.

        Earlier stages are compared by the labels, later ones by how often they differed from this one so far,
        so let some rounds go there first. Do not repeat it until the verdict pleases: ``alpha`` is for one.

        >>> stages = [lambda x: x > 3, lambda x: x > 2]
        >>> cascade = Cascade(stages, stage_costs=[0, 1], error_cost=100, policy="Fixed", arm=1)
        >>> answer = cascade(5)
        >>> print(cascade.audit([x % 10 for x in range(500)], lambda x: x > 2))
        Audit of stage 1 on 500 fresh items, 50 of them labelled: optimal
        it costs 0 to 0 per round more than the cheapest stage (95 % confidence)
          against stage 0: -11.64 to -6.283, by labels
        """
        level, samples = checked_level(alpha), Rows(items, "items")
        self._refuse_asynchronous()
        if self._metric is not None:
            raise ValueError("an audit is for labels, not for answers compared by a metric")
        with self._ledger.lock:
            stops, differed, compared = self._tally.stops.copy(), self._tally.differed, self._tally.compared
        if arm is None and not stops.any():
            raise ValueError("arm must be given, because no round was learned yet")
        chosen = int(stops.argmax()) if arm is None else integer("arm", arm, 0, len(self._stages) - 1)
        if chosen > 0 and not samples.size:
            raise ValueError("items must be at least one sample, got none")
        stages, price = self._stages[: chosen + 1], self._purse.price or 0.0
        found = examine(samples, truth, stages, self._stage_costs, self._combine, self._compare, price)
        audit = audit_arm(self._costs, chosen, found.wrong, samples.size, differed, compared, level)
        return in_money(audit, self._error_cost, found.calls + found.labels)

    def explain(self, id: int) -> str:
        """Say in words why a stage was chosen, for the last 1000 decisions made since this object was loaded."""
        arm, differed, seen = self._explained(id)
        record = Record(arm, differed, pairs_compared(seen))
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
        metric: Metric | None = None,
        label: Callable[..., Any] | None = None,
    ) -> Cascade:
        """Return the cascade that was saved to ``path``; it decides as if it had never stopped.

        The stages, ``combine``, ``compare``, ``metric`` and ``label`` are code, and not in the file: give them again.
        So is a policy of your own: give a fresh object. A file that cannot be used raises `StateError`.
        """
        functions = {"combine": combine, "compare": compare, "metric": metric, "label": label}
        return cls._remade(cls._read(path, STATE, stages, functions), stages, policy, functions)

    @classmethod
    def _remade(cls, body: dict[str, Any], stages: Any, policy: Any, functions: dict[str, Any]) -> Cascade:
        chosen, options = saved_policy(body["core"], policy)
        options |= {
            **functions,
            "timeout": body["timeout"],
            "seed": 0,
            "label_price": body["purse"].get("price"),
        }
        cascade = remade(lambda: cls(stages, body["stage_costs"], body["error_cost"], chosen, **options))
        remade(lambda: cascade._restore(body))
        return cascade

    def _state(self) -> dict[str, Any]:
        functions = {"metric": self._metric is not None, "label": self._asker is not None}
        return {**super()._state(), **functions, "purse": self._purse.state()}

    def _restore(self, body: dict[str, Any]) -> None:
        super()._restore(body)
        self._purse.restore(body["purse"])

    def _encode_decision(self, decided: int) -> int:
        return decided

    def _decode_decision(self, data: Any) -> int:
        return integer("arm", data, 0, len(self._stages) - 1)

    # -- what a round without context is

    def _select(self, context: None) -> int:
        policy, rng = self._policy, self._rng
        if type(policy) is not UssTs:
            return policy.select(rng)
        return select_few(policy, rng) if len(self._stages) <= MANY else select_at_once(policy, rng)

    def _teach(self, decided: int, arm: int, differ: np.ndarray) -> None:
        if arm > MANY and type(self._policy) is UssTs:
            update_at_once(self._policy, arm, differ)
        else:
            self._policy.update_pairs(arm, differ, self._rng)

    def _teach_plain(self, decided: int, arm: int, given: tuple[Any, ...]) -> None:
        if arm <= MANY and type(self._policy) is UssTs:
            self._tally.compare_pairs(arm, update_few(self._policy, given))
        else:
            super()._teach_plain(decided, arm, given)

    def _kept(self, arm: int, context: None) -> int:
        return arm

    def _arm(self, decided: int) -> int:
        return decided

    def _record(self, arm: int, context: None) -> tuple[int, np.ndarray, list[int]]:
        return arm, self._tally.differed, self._tally.seen  # which are never changed in place

    # -- how answers are compared

    def _compared(self, answers: list[Any]) -> np.ndarray:
        if self._metric is not None:
            return distances(answers, self._metric)
        differ = super()._compared(answers)
        if not self._proven and self._compare is not None:
            self._proven = refuse_closeness(answers, self._compare)
        first = differ[0]
        if self._binary and (differ[1:] != np.triu(first != first[:, None], 1)[1:]).any():
            raise ValueError(
                f"outputs must take at most two values in a round for {self._label}, got {short(answers)}"
            )
        return differ

    def _settled(self, compared: np.ndarray) -> np.ndarray:
        return compared if self._metric is None else tossed(compared, self._rng)

    # -- labels

    def _refuse_unlabelled(self, awaits: bool) -> None:
        if self._purse.price is not None and self._asker is None:
            raise ValueError(f"label must be given to call the cascade, because {self._label} buys labels")
        if self._asker is not None and self._asker.asynchronous and not awaits:
            raise ValueError("label is asynchronous: use `await cascade.acall(x)`")

    def _wants(self, lesson: Lesson) -> bool:
        if self._purse.price is None:
            return False
        with self._ledger.lock:
            return bool(self._policy.wants_label_pairs(lesson.arm, lesson.differ, self._rng))

    def _with_label(self, x: Any, decision: Decision, lesson: Lesson) -> Lesson:
        if self._asker is None or not self._wants(lesson):
            return lesson
        return self._with_truth(lesson, self._asker.ask(x, lesson.labels))

    async def _with_label_async(self, x: Any, decision: Decision, lesson: Lesson) -> Lesson:
        if self._asker is None or not self._wants(lesson):
            return lesson
        return self._with_truth(lesson, await self._asker.ask_async(x, lesson.labels))

    def _labelled(self, lesson: Lesson, label: Any) -> Lesson:
        if not self._wants(lesson):
            raise ValueError(f"label must be given only when wants_label says so, got {short(label)}")
        return self._with_truth(lesson, label)

    def _with_truth(self, lesson: Lesson, label: Any) -> Lesson:
        price = self._purse.price or 0.0
        truth, cost = (label.label, label.cost) if isinstance(label, Costed) else (label, price)
        return dataclasses.replace(
            lesson,
            right=rights(lesson.answers, truth, self._compare),
            truth=truth,
            label_cost=cost,
            digest=fingerprint([lesson.digest, label]),
        )

    def _teach_label(self, lesson: Lesson) -> None:
        self._policy.learn_label_pairs(lesson.arm, lesson.differ, lesson.right)
        self._purse.labels += 1
        self._purse.spent += lesson.label_cost
