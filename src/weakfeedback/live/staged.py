"""Base class of cascades with and without context: stages that are called lazily, and what is learned from them.

Every round follows the same path: decide, call the stages, compare, learn, count, acknowledge. A call, a coroutine
and a batch differ only in how they call the stages; with `decide` and `feedback` the caller calls them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from weakfeedback.contract.decisions import checked_arm
from weakfeedback.live.base import Live
from weakfeedback.live.buying import NO_LABEL, Bought
from weakfeedback.live.comparing import (
    Comparing,
    check_costs,
    check_functions,
    content_of_pairs,
    stop_by_means,
)
from weakfeedback.live.counts import Counts
from weakfeedback.live.driver import Examples
from weakfeedback.live.errors import Refused
from weakfeedback.live.labels import (
    Costed,
    Scored,
    answers_of,
    costs_of,
    differences,
    freeze,
    labels_of,
    output_list,
    pairs_of,
    short,
    sorted_pairs,
)
from weakfeedback.live.ledger import (
    PENDING_LIMIT,
    Content,
    content_of,
    labelled_content,
)
from weakfeedback.live.metrics import sample_disagreements
from weakfeedback.live.rounds import Answer, Decision, RoundRecord
from weakfeedback.live.stages import Rows, call_each, make_stages
from weakfeedback.live.warning import warn_caller
from weakfeedback.validate import number, vector

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


class Staged(Comparing):
    """Stages, their costs, and the rounds played with them.

    For each decision the ledger keeps the chosen stage or, with a context, the stage and the features.
    """

    code: ClassVar[tuple[str, ...]] = ("stages", "combine", "compare", "policy")
    methods: ClassVar[tuple[str, ...]] = ("select", "update_pairs")  # of a policy
    scored: ClassVar[bool] = False  # whether stages should give a score

    def __init__(
        self,
        stages: Any,
        stage_costs: Any,
        error_cost: float,
        combine: Callable[[list[Any]], Any] | None,
        compare: Callable[[Any, Any], Any] | None,
        timeout: float | None,
    ) -> None:
        # The policy needs the costs: a subclass calls this first, and Live.__init__ through _start.
        self._timeout = None if timeout is None else number("timeout", timeout, above=0.0)
        self._targets = stages
        self._stages = self._make_stages(stages, self._timeout)
        self._unready = any(stage.asynchronous for stage in self._stages)  # a plain call may be refused
        prices = vector("stage_costs", stage_costs, at_least=0.0, size=len(self._stages))
        error = number("error_cost", error_cost, above=0.0)
        check_functions(combine=combine, compare=compare)
        self._combine, self._compare = combine, compare
        self._plain = compare is None  # answers are compared with != only
        self._label_source: Any = None  # the source of labels, for a policy that buys them
        self._set_prices(prices, error)

    def _set_prices(self, stage_costs: np.ndarray, error_cost: float) -> None:
        costs = policy_costs(stage_costs, error_cost)
        prices = stage_costs.tolist()
        self._spends = [
            sum(prices[: arm + 1]) for arm in range(len(prices))
        ]  # what the calls up to each stage cost
        self._savings = [sum(prices[arm + 1 :]) for arm in range(len(prices))]
        # The cost of the last answer alone: a combined answer needs the outputs of all stages.
        self._last = prices[-1] if self._combine is None else sum(prices)
        self._stage_costs, self._prices, self._error_cost, self._costs = (
            stage_costs,
            prices,
            error_cost,
            costs,
        )
        self._tariff = stage_costs, error_cost  # what explanations remember

    def _start(
        self,
        policy: Any,
        make: Callable[..., Any],
        seed: Any,
        options: dict[str, Any],
        compiled: Any,
        remember: int | None,
    ) -> None:
        Live.__init__(self, policy, make, self.methods, seed, options, compiled, remember)
        self._check_costs()
        self._counts: Counts = Counts.of(len(self._stages))

    def _check_costs(self) -> None:
        check_costs(self._driver.policy, self._costs)

    def _bind(self) -> None:
        self._select = self._driver.method("select")
        self._update = self._driver.method("update_pairs")

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        return {"select": (), "update_pairs": (0, freeze(np.zeros((1, 1), dtype=np.bool_)))}, ()

    # -- one round

    def __call__(self, x: Any) -> Answer:
        """Answer for one sample. A stage that raises cancels the decision; nothing is learned from it."""
        if self._unready:
            self._refuse_call()
        return self._answer(x)

    def _refuse_call(self) -> None:
        """Raise ValueError if the stages, or the label source, cannot be called in this way."""
        self._refuse_asynchronous()

    def _answer(self, x: Any, *context: Any) -> Answer:
        """Answer for one sample."""
        opened, outputs = list[int](), list[Any]()
        try:
            id, decided = self._decide(*context, opened=opened)
            self._call_stages(id, decided, x, outputs)
            record = self._compared(id, len(outputs) - 1, outputs)
            if self._label_source is not None and self._wants(record):
                self._buy(record, self._label_source.ask(x, record.labels))
            self._learn([record])
        except BaseException:
            self._abandon(opened, [outputs])
            raise
        if self._log is not None:
            self._acknowledge_paid()
        return made_answer(record)

    async def _answer_async(self, x: Any, *context: Any) -> Answer:
        """Answer for one sample, awaiting the stages."""
        opened, outputs = list[int](), list[Any]()
        try:
            id, decided = self._decide(*context, opened=opened)
            for stage in self._stages:
                outputs.append(await stage.one_async(x, outputs))
                if self._is_enough(id, decided, outputs):
                    break
            record = self._compared(id, len(outputs) - 1, outputs)
            if self._label_source is not None and self._wants(record):
                self._buy(record, await self._label_source.ask_async(x, record.labels))
            self._learn([record])
        except BaseException:
            self._abandon(opened, [outputs])
            raise
        if self._log is not None:
            await asyncio.to_thread(self._acknowledge_paid)
        return made_answer(record)

    def _answers(self, samples: Rows, contexts: Sequence[tuple[Any, ...]], batch_size: Any) -> list[Answer]:
        """Answer for many samples, one context each."""
        found: list[Answer] = []
        for rows in self._batches(samples.size, batch_size, PENDING_LIMIT):
            found += map(made_answer, self._answer_batch(samples, contexts, rows))
            if self._log is not None:
                self._acknowledge_paid()
        return found

    def _answer_batch(
        self, samples: Rows, contexts: Sequence[tuple[Any, ...]], rows: range
    ) -> list[RoundRecord]:
        opened: list[int] = []
        outputs: list[list[Any]] = [[] for _ in rows]
        try:
            decisions = self._decide_many(contexts[rows.start : rows.stop], opened)
            going = list(range(len(rows)))
            for stage in self._stages:
                results = stage.many(samples, [rows[p] for p in going], [outputs[p] for p in going])
                for p, output in zip(going, results):
                    outputs[p].append(output)
                going = [p for p in going if not self._is_enough(*decisions[p], outputs[p])]
                if not going:
                    break
            records = [self._compared(id, len(seen) - 1, seen) for (id, _), seen in zip(decisions, outputs)]
            for row, record in zip(rows, records):
                if self._label_source is not None and self._wants(record):
                    self._buy(record, self._label_source.ask(samples[row], record.labels))
            self._learn(records)
        except BaseException:
            self._abandon(opened, outputs)
            raise
        return records

    def _call_stages(self, id: int, decided: Any, x: Any, outputs: list[Any]) -> None:
        """Call the stages of a round; append the output of each to ``outputs`` as soon as it is available."""
        call_each(self._stages[: arm_of(decided) + 1], x, outputs)

    def _is_enough(self, id: int, decided: Any, outputs: list[Any]) -> bool:
        """Return whether a round with these outputs so far calls no further stage."""
        return len(outputs) > arm_of(decided)

    def _give_decision(self, *context: Any) -> Decision:
        """Decide, and return the decision: the caller calls the stages."""
        id, decided = self._decide(*context)
        if self._log is not None:
            self._give_out(id)
        return Decision(id, arm_of(decided))

    def _feedback(self, id: int, outputs: Any, label: Any) -> str:
        given = output_list("outputs", outputs)
        content = content_of(given)
        if label is not NO_LABEL:
            content = labelled_content(content, label)
        decided = self._awaited(id, content)
        if decided is None:
            return "duplicate"
        arm = arm_of(decided)
        record = self._compared(int(id), arm, given, content)
        if label is not NO_LABEL:
            self._labelled(record, label)
        return self._settle(record)

    def feedback_pairs(
        self,
        id: int,
        differ: Sequence[tuple[int, int]],
        *,
        far: Sequence[float] | None = None,
        costs: Sequence[float] | None = None,
        label: Any = None,
        digest: str | None = None,
    ) -> str:
        """Learn comparisons that were made elsewhere. Feedback may come at any time and in any order.

        Parameters
        ----------
        id : integer
            The id of the decision.
        differ : pairs (i, j), i < j <= arm
            The stages whose answers differed.
        far : numbers from 0 to 1, optional
            For a cascade with a ``metric``, instead of ``differ`` (which must then be empty): how far apart the pairs
            (0, 1), (0, 2), ..., (1, 2), ... are. Disagreements are sampled as in `feedback`.
        costs : numbers >= 0, one per stage called, optional
            What the calls cost, if it differs from the stated costs.
        label : bools, one per stage called, or `Costed` of them, optional
            Which of the answers are right according to a bought label; for a policy that wanted it.
        digest : string, optional
            Distinguishes a repeated answer from a conflict; made from the comparisons if left out.

        Draws, counts and result are the same as for `feedback` with such outputs. Return "accepted" or "duplicate", or
        raise as `feedback` does.
        """
        differ = sorted_pairs(differ)
        content = content_of_pairs(digest, differ, far, costs, label)
        decided = self._awaited(id, content)
        if decided is None:
            return "duplicate"
        arm = arm_of(decided)
        record = self._record_of_pairs(int(id), arm, differ, far, costs, content)
        if label is not None:
            self._labelled(record, Bought.of(label, arm))
        return self._settle(record)

    def _compared(self, id: int, arm: int, outputs: list[Any], content: Content | None = None) -> RoundRecord:
        """Return the record of the outputs of stages 0, ..., arm; ValueError if they cannot be compared.

        ``content`` is what is remembered of them, if already known.
        """
        if len(outputs) != arm + 1:
            check_number(outputs, arm)
        labels, costs, cost, last = outputs, None, self._spends[arm], self._last
        kinds = set(map(type, outputs))
        if Costed in kinds or Scored in kinds:
            labels = labels_of(outputs)
        if Costed in kinds:
            costs = costs_of(outputs, self._prices)
            cost, last = sum(costs), self._last_paid(costs)
        answers = labels if self._combine is None else answers_of(labels, self._combine)
        differ, far = (differences(answers, None), None) if self._plain else self._difference(answers)
        if content is None:
            content = content_of(outputs)
        return RoundRecord(id, arm, answers, labels, content, differ, far, cost, last, costs)

    def _record_of_pairs(
        self, id: int, arm: int, differ: Any, far: Any, costs: Any, content: Content
    ) -> RoundRecord:
        if far is not None:
            raise ValueError("far must be left out: it is for a cascade with a metric")
        matrix = pairs_of(differ, arm)
        paid = None if costs is None else vector("costs", costs, at_least=0.0, size=arm + 1).tolist()
        cost, last = self._spends[arm], self._last
        if paid is not None:
            cost, last = sum(paid), self._last_paid(paid)
        return RoundRecord(id, arm, [], [], content, matrix, None, cost, last, paid)

    def _last_paid(self, costs: list[float]) -> float:
        """Return what the last answer alone would have cost: the actual cost if it was given, else the stated one."""
        if len(costs) < len(self._stages):
            found: float = self._last
            return found
        return costs[-1] if self._combine is None else sum(costs)

    def _choose(self, *context: Any) -> tuple[Any, Any]:
        arm = self._select(self._rng)
        if type(arm) is not int or not 0 <= arm < len(self._prices):
            arm = checked_arm(self._driver.policy, arm, len(self._prices))
        return arm, (arm, self._counts, self._tariff)  # neither is ever changed

    def _teach(self, decided: Any, record: RoundRecord, counts: Counts) -> Counts:
        arm, differ = record.arm, record.differ
        self._price(record)
        if differ is None:
            differ = record.differ = sample_disagreements(record.far, self._rng)  # type: ignore[arg-type]
        if record.right is not None:
            self._learn_label(arm, differ, record.right)
            counts = counts.after_label(record.label_cost)
        if type(decided) is int:
            self._update(arm, differ, self._rng)
        else:
            self._update(decided[1], arm, differ, self._rng)
        return counts.after_round(arm, differ, record.cost, self._savings[arm], record.last)

    def _price(self, record: RoundRecord) -> None:
        """Set the costs of a record when it is learned: the prices may have changed since it was made."""
        if record.costs is None:
            record.cost, record.last = self._spends[record.arm], self._last
        else:
            record.last = self._last_paid(record.costs)

    def _learn_label(self, arm: int, differ: np.ndarray, right: np.ndarray) -> None:
        raise NotImplementedError

    def _paid(self, outputs: list[Any]) -> float:
        return sum(costs_of(outputs, self._prices))

    # -- labels, for policies that buy them

    def _wants(self, record: RoundRecord) -> bool:
        """Return whether the policy buys the label of the sample."""
        return False

    def _buy(self, record: RoundRecord, label: Any) -> None:
        """Add a bought label to the record."""
        self._labelled(record, label)
        record.content = labelled_content(record.content, label)

    def _labelled(self, record: RoundRecord, label: Any) -> None:
        """Add to the record which of its answers are right according to a label."""
        words = f"label goes with a policy that buys labels, such as Q-USS, not with {self._label}"
        raise Refused(words, "wrong_label")

    # -- other ways to learn

    def _teach_row(self, context: tuple[Any, ...], differ: np.ndarray, counts: Counts) -> Counts:
        last = len(self._stages) - 1
        self._update(*context, last, differ, self._rng)
        return counts.after_comparison(last, differ)

    def recost(self, stage_costs: Any, error_cost: float) -> None:
        """Continue with new prices; the counts stay.

        Only for policies whose statistics do not depend on the costs: USS-TS, USS-UCB, USS-TS-drift, USS-WD,
        USS-PD, USS-PD-TS, Fixed, Random, and for those that decide after every answer, which keep what they need to
        learn again. Other policies raise ValueError, and nothing has changed.
        """
        prices = vector("stage_costs", stage_costs, at_least=0.0, size=len(self._stages))
        error = number("error_cost", error_cost, above=0.0)
        policy_costs(prices, error)  # rejects overflow
        policy = self._driver.policy
        if not getattr(policy, "recostable", False):
            raise Refused(f"recost is not for {self._label}: what it has learned depends on the costs")
        self._recost(prices, error)

    def _take_costs(self, stage_costs: np.ndarray, error_cost: float) -> None:
        fields = self._driver.fields()
        if "C" in fields:  # a policy that learns nothing may have no costs
            fields["C"][:] = policy_costs(stage_costs, error_cost)

    def settled(self) -> int:
        """Return the stage at which the policy would stop now if its mean estimates were exact."""
        with self._ledger.lock:
            self._recover()
            guess = getattr(self._driver.policy, "best_guess", None)
            if callable(guess):
                self._driver.write_back()
                return int(guess())
            counts = self._counts
            return stop_by_means(self._costs, counts.differed, counts.compared)

    def _how(self) -> str:
        """Return the policy's own sentence on how it decides."""
        return str(getattr(self._driver.policy, "explained", ""))

    # -- events of the journal

    def _decision_event(self, decided: Any) -> dict[str, Any]:
        if type(decided) is int:
            return {"stage": decided}
        return {"stage": decided[0], "phi": decided[1].tolist()}

    def _answer_event(self, decided: Any, record: RoundRecord) -> dict[str, Any]:
        body = super()._answer_event(decided, record)
        if record.costs is not None:
            body["costs"] = record.costs
        if record.right is not None:
            body |= {"right": record.right.tolist(), "label_cost": record.label_cost}
        return body

    def _decoded(self, body: dict[str, Any]) -> Any:
        return self._decode_decision(body["stage"])

    def _record_from_event(self, id: int, decided: Any, body: dict[str, Any]) -> RoundRecord:
        arm = arm_of(decided)
        far, digest = body.get("far"), body["digest"]
        pairs = () if far is not None else body["differ"]
        record = self._record_of_pairs(id, arm, pairs, far, body.get("costs"), digest)
        if "right" in body:
            record.right = freeze(np.array(body["right"], dtype=np.bool_))
            record.label_cost = body["label_cost"]
        return record

    # -- states

    def _code(self) -> dict[str, Any]:
        return {
            **super()._code(),
            "stages": self._targets,
            "combine": self._combine,
            "compare": self._compare,
        }

    @classmethod
    def _make_stages(cls, targets: Any, timeout: float | None) -> list[Any]:
        return make_stages(targets, timeout, cls.scored)

    def _state(self) -> dict[str, Any]:
        return {
            "stage_costs": self._stage_costs.tolist(),
            "error_cost": self._error_cost,
            "timeout": self._timeout,
            "combine": self._combine is not None,
            "compare": self._compare is not None,
            "counts": self._counts.state(),
        }


def arm_of(decided: Any) -> int:
    """Return the stage of a decision, from what the ledger keeps of it."""
    return decided if type(decided) is int else decided[0]


def made_answer(record: RoundRecord) -> Answer:
    """Return the answer of a round that was learned."""
    outputs = tuple(record.labels)
    return Answer(
        record.answers[-1], record.arm, record.cost, outputs, record.id, record.truth, record.scores
    )


def check_number(outputs: list[Any], arm: int) -> None:
    """Reject a number of outputs other than the number of stages called."""
    if len(outputs) != arm + 1:
        raise ValueError(
            f"outputs must be {arm + 1} in number, of the stages 0 to {arm}, got {len(outputs)}: {short(outputs)}"
        )


def policy_costs(stage_costs: np.ndarray, error_cost: float) -> np.ndarray:
    """Return the cumulative costs in units of one error, which is what policies take."""
    with np.errstate(over="ignore"):
        costs = np.cumsum(stage_costs) / error_cost
    if not np.isfinite(costs).all():
        raise ValueError(f"stage_costs / error_cost must be finite, got error_cost={error_cost!r}")
    return costs


def warn_of_prices(stage_costs: np.ndarray, error_cost: float) -> None:
    """Warn if going on can never pay, not even if the first stage is always wrong and the second never."""
    if stage_costs.size > 1 and stage_costs[1] >= error_cost:
        warn_caller(
            f"at these prices no stage after the first can ever pay: the second costs {stage_costs[1]:g}, and an error "
            f"no more than error_cost={error_cost:g}"
        )
