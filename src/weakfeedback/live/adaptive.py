"""A live cascade that decides after every answer whether it is good enough."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from weakfeedback.adaptive.audit import RuleAudit, audit_stops
from weakfeedback.cascade.audit import checked_level
from weakfeedback.contract.decisions import checked_bool
from weakfeedback.live.adaptive_report import (
    AdaptiveReport,
    Ask,
    adaptive_explanation,
    make_adaptive_report,
)
from weakfeedback.live.auditing import run_stages, teller
from weakfeedback.live.base import Change
from weakfeedback.live.base import Step as Action
from weakfeedback.live.cascade import STATE, Cascade
from weakfeedback.live.comparing import check_costs
from weakfeedback.live.driver import Examples
from weakfeedback.live.errors import Refused
from weakfeedback.live.journalled import check_decision
from weakfeedback.live.labels import (
    Costed,
    Scored,
    costs_of,
    freeze,
    label_of,
    labels_of,
    output_list,
    pattern,
    rights,
    short,
)
from weakfeedback.live.ledger import Content, FeedbackConflict, fingerprint
from weakfeedback.live.metrics import refuse_closeness, refuse_tolerance
from weakfeedback.live.rounds import Answer, RoundRecord
from weakfeedback.live.staged import Staged, warn_of_prices
from weakfeedback.live.stages import Rows
from weakfeedback.live.stopping import (
    Lost,
    Progress,
    Step,
    Told,
    alone,
    in_table,
    progress_from,
    told_from,
    told_of,
)
from weakfeedback.settings.catalog import canonical_name, make_policy, option_names
from weakfeedback.validate import integer

SETTING = "adaptive"
LEARNERS = ("USS-A", "USS-next")  # policies that depend on the prices


class AdaptiveCascade(Cascade):
    """A `Cascade` whose policy is asked after every stage; made by ``Cascade(..., policy="USS-A")`` and the like.

    For each decision the ledger keeps the round so far, a `Progress`. `begin` starts a round, `tell` adds the output of
    one stage after the other until the policy stops. The round is then learned like any round of a live object.
    """

    setting = SETTING
    form: ClassVar[dict[str, type | tuple[type, ...]]] = {**STATE, "setting": str}
    opening: ClassVar[str] = "begin"
    methods: ClassVar[tuple[str, ...]] = ("go_on", "update")
    scored: ClassVar[bool] = True

    def __init__(
        self,
        stages: Sequence[Any] | int,
        stage_costs: Any,
        error_cost: float = 1.0,
        policy: Any = "USS-A",
        seed: Any = None,
        *,
        combine: Any = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Any = None,
        label: Any = None,
        label_price: Any = None,
        timeout: float | None = None,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        for name, value in (("combine", combine), ("metric", metric)):
            if value is not None:
                raise ValueError(f"{name} must be left out for a policy that decides after every answer")
        for name, value in (("label", label), ("label_price", label_price)):
            if value is not None:
                raise ValueError(f"{name} goes with a policy that buys labels, such as Q-USS: use calibrate")
        Staged.__init__(self, stages, stage_costs, error_cost, None, compare, timeout)
        refuse_tolerance(options, compare)
        self._label_source = self._label_price = self._metric = None
        self._binary, self._proven = False, compare is None
        if isinstance(policy, str):
            options = self._options_for(canonical_name(SETTING, policy), options)
        costs = self._stage_costs / self._error_cost
        make = lambda name, **o: make_policy(SETTING, name, costs, **o)  # noqa: E731
        self._start(policy, make, seed, options, compiled, remember)
        self._unready = self._unready or self._stages[0].elsewhere
        if self._policy_name in LEARNERS:
            warn_of_prices(self._stage_costs, self._error_cost)

    def _options_for(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a policy; the last stage gives the defaults of the judge and the number of labels."""
        given = {key: value for key, value in options.items() if key != "judge" or value is not None}
        if "judge" in option_names(SETTING, name):
            last = self._stages[-1]
            given.setdefault("judge", "score" if last.gives_chances else "last")
            if last.gives_chances and given.get("labels") is None:
                given["labels"] = max(2, len(self._targets[-1].classes_))
        return given

    def _set_prices(self, stage_costs: np.ndarray, error_cost: float) -> None:
        super()._set_prices(stage_costs, error_cost)
        self._units = (stage_costs / error_cost).tolist()

    def _check_costs(self) -> None:
        policy = self._driver.policy
        built = getattr(policy, "c", None)
        if built is None:
            check_costs(policy, self._costs)
        elif np.shape(built) != (len(self._units),) or not np.allclose(
            built, self._units, rtol=1e-9, atol=1e-12
        ):
            raise ValueError(
                f"policy must be made for the costs stage_costs / error_cost = {self._units}, "
                f"got one for {np.asarray(built).tolist()}"
            )

    def _bind(self) -> None:
        policy = self._driver.policy
        self._gains = hasattr(policy, "gain")  # whether it reports what it compares with the price
        self._go = self._driver.method("gain" if self._gains else "go_on")
        self._update = self._driver.method("update")

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        numbers, scores = freeze(np.zeros(1, dtype=np.int64)), freeze(np.zeros(1))
        asked = "gain" if hasattr(policy, "gain") else "go_on"
        return {asked: (0, numbers, scores), "update": (0, numbers, scores, scores)}, ()

    # -- by hand

    def begin(self) -> Step:
        """Begin a round: run stage ``step.stage``, the first one, and give its output to `tell`."""
        id, _ = self._decide()
        if self._log is not None:
            self._give_out(id)
        return Step(id, 0)

    def tell(self, id: int, output: Any, stage: int | None = None) -> Step:
        """Tell the output of the stage that was to be run; return the next one to run, or the answer.

        Parameters
        ----------
        id : integer
            The id of the round, from `begin`.
        output : label, `Scored` or `Costed`
            What the stage returned.
        stage : integer, optional
            The stage that returned it; by default the stage that was to be run. Pass it wherever a call may be
            repeated: the same output for the same stage then returns the same step, and a different output raises
            `FeedbackConflict`.

        Nothing is learned from a round that is never finished; `cancel` it, or let it expire. If the last output of a
        finished round is repeated, and the round is not among the last 1000 or is older than this object, the answer
        may hold nothing but the label.
        """
        wanted = None if stage is None else integer("stage", stage, 0, len(self._stages) - 1)
        content = alone(output).content()
        call = ("tell", str(id), content)
        if self._settle_debt(call):
            return self._step_of(int(id), output, wanted)
        after = self._advanced(id, output, wanted, content)
        if after is None:  # a repetition
            self._acknowledge(call)
            return self._step_of(int(id), output, wanted)
        if after.stopped:
            record = self._record_of(int(id), after)
            self._settle(record)
            return self._step_of(int(id), output, wanted)
        self._acknowledge(call)
        return Step(int(id), len(after.told))

    def _advanced(self, id: int, output: Any, wanted: int | None, content: str) -> Progress | None:
        """Return the round after this output, or None if the call is a repetition and nothing is left to do."""
        if self._is_told(id, wanted, content):
            return None
        while True:
            with self._ledger.lock:
                self._recover()
                before = self._ledger.awaited(id, content)
            if before is None:
                return None
            stage = len(before.told)
            repeated = stage - 1 if wanted is None and before.stopped else wanted
            if repeated is not None and repeated < stage:
                if before.told[repeated].content() != content:
                    raise FeedbackConflict(
                        f"stage {repeated} of decision {id} was told already, with other content"
                    )
                return before if before.stopped and repeated == stage - 1 else None
            if before.stopped or (wanted is not None and wanted != stage):
                due = "none, for the round has stopped" if before.stopped else str(stage)
                raise ValueError(f"stage must be the one that was to be run ({due}), got {wanted}")
            after = self._shown(int(id), before, output)
            if after is not None:
                return after

    def _is_told(self, id: int, wanted: int | None, content: str) -> bool:
        """Return whether an earlier stage of a finished round had this output; raise FeedbackConflict if it differs."""
        with self._ledger.lock:
            self._recover()
            over = type(id) is int and id not in self._ledger.waiting
            asks: Any = self._records.get(id, ()) if over else ()
        if wanted is None or not 0 <= wanted < len(asks) - 1 or asks[-1].more:
            return False
        if asks[wanted].told.content() != content:
            raise FeedbackConflict(f"stage {wanted} of decision {id} was told already, with other content")
        return True

    def _step_of(self, id: int, output: Any, wanted: int | None) -> Step:
        """Return the next step after an output."""
        with self._ledger.lock:
            self._recover()
            asks: tuple[Ask, ...] = self._records.get(id, ())
            open_round = self._ledger.waiting.get(id)
        if open_round is not None:
            told = open_round.told if wanted is None else open_round.told[: wanted + 1]
            return Step(id, len(told))
        if wanted is not None and wanted < len(asks) - 1:
            return Step(id, wanted + 1)
        told_last = alone(output)
        if not asks or asks[-1].told.content() != told_last.content():
            return Step(id, None, Answer(told_last.label, wanted, math.nan, (), id))  # type: ignore[arg-type]
        told = (*[ask.told for ask in asks[:-1]], told_last)
        cost = sum(price if one.cost is None else one.cost for one, price in zip(told, asks[-1].prices))
        labels = tuple(None if isinstance(one.label, Lost) else one.label for one in told)
        scores = tuple(one.known_score for one in told)
        return Step(id, None, Answer(told_last.label, len(told) - 1, cost, labels, id, None, scores))

    def decide(self) -> NoReturn:
        """Not available: the stop is not known before the first answer."""
        raise ValueError(f"{self._label} decides after every answer: use begin() and tell(), not decide()")

    def feedback(self, id: int, outputs: Sequence[Any], label: Any = None) -> NoReturn:
        """Not available: outputs are given one by one."""
        raise ValueError(f"{self._label} decides after every answer: use tell(id, output), not feedback()")

    def feedback_pairs(self, id: int, *arguments: Any, **named: Any) -> NoReturn:
        """Not available: outputs are given one by one."""
        raise ValueError(
            f"{self._label} decides after every answer: use tell(id, output), not feedback_pairs()"
        )

    def wants_label(self, id: int, outputs: Sequence[Any]) -> bool:
        """Return False: labels are not bought round by round, see `calibrate`."""
        return False

    # -- one round

    def _choose(self, *context: Any) -> tuple[Any, Any]:
        return Progress(), ()

    def _call_stages(self, id: int, decided: Any, x: Any, outputs: list[Any]) -> None:
        for stage in self._stages:
            outputs.append(stage.one(x, outputs))
            if self._is_enough(id, decided, outputs):
                break

    def _is_enough(self, id: int, decided: Any, outputs: list[Any]) -> bool:
        with self._ledger.lock:
            if self._change is not None:
                self._recover()
            before = self._ledger.decided(id)
        after = self._shown(id, before, outputs[-1])
        if after is None:
            raise RuntimeError(f"decision {id} was told by somebody else while it was under way")
        return after.stopped

    def _shown(self, id: int, before: Progress, output: Any) -> Progress | None:
        """Show the policy an output and let it decide; return the round after it, or None if the round has changed."""
        last = len(before.told) == len(self._stages) - 1
        told = told_of(output, before, self._compare, last)
        if self._compare is not None and not self._proven:
            labels = [one.label for one in (*before.told, told)]
            self._proven = refuse_closeness(labels, self._compare)
        if last:
            self._check_last(before, told)
        self._check_sum((*before.told, told))
        return self._asked(id, before, told)

    def _check_sum(self, told: tuple[Told, ...]) -> None:
        """Reject a cost that would overflow the sums, should the round stop here, before anything is changed."""
        if told[-1].cost is not None:
            costs = [price if one.cost is None else one.cost for one, price in zip(told, self._prices)]
            self._counts.check_sum(sum(costs), self._last_paid(costs))

    def _check_last(self, before: Progress, told: Told) -> None:
        """Reject what the judge cannot use before anything is changed."""
        check = getattr(self._driver.policy, "check_last", None)
        if callable(check):
            scores = Progress((*before.told, told)).arrays()[1]
            check(len(before.told), scores, len(told.chances) > 0, np.array(told.chances))

    def _asked(self, id: int, before: Progress, told: Told) -> Progress | None:
        """Ask the policy whether to go on, and record its answer, in a single change."""
        with self._ledger.lock:
            if self._change is not None:
                self._recover()
            if self._ledger.decided(id) is not before:
                return None
            backup = self._driver.backup() if self.choosing_learns else None
            change = self._change = Change(backup, self._rng.bit_generator.state)
            try:
                ask = self._ask(Progress((*before.told, told)))
                after = Progress((*before.told, told), not ask.more)
                asks = (*self._asks_before(id, before), ask)
                steps: list[Action] = [
                    (self._ledger.waiting.__setitem__, (id, after)),
                    (self._records.__setitem__, (id, asks)),
                ]
                if self._log is not None:
                    steps.append(self._noted("tell", id, self._tell_event(after)))
                self._commit(change, steps)
            except BaseException as error:
                self._recover()
                self._tell_borrower(error)
                raise
        return after

    def _asks_before(self, id: int, before: Progress) -> tuple[Ask, ...]:
        """Return the decisions of a round so far; if it began before this object was loaded, only the outputs."""
        known: tuple[Ask, ...] = self._records.get(id, ())
        if len(known) == len(before.told):
            return known
        return tuple(Ask(one, None, self._prices, True) for one in before.told)

    def _ask(self, seen: Progress) -> Ask:
        k = len(seen.told) - 1
        if k == len(self._stages) - 1:
            return Ask(seen.told[k], None, self._prices, False)
        numbers, scores = seen.arrays()
        said = self._go(k, numbers, scores, self._rng)
        if self._gains:
            worth, more = float(said) * self._error_cost, float(said) > self._units[k + 1]
            return Ask(seen.told[k], worth, self._prices, more)
        return Ask(seen.told[k], None, self._prices, checked_bool(self._driver.policy, said, "go_on"))

    def _compared(self, id: int, arm: int, outputs: list[Any], content: Content | None = None) -> RoundRecord:
        with self._ledger.lock:
            self._recover()
            return self._record_of(id, self._ledger.decided(id))

    def _record_of(self, id: int, seen: Progress, content: Content | None = None) -> RoundRecord:
        """Return the record of a round that has stopped."""
        told = seen.told
        if not seen.stopped:
            raise ValueError(f"decision {id} has not stopped yet: tell the output of stage {len(told)}")
        arm, labels = len(told) - 1, [one.label for one in told]
        costs, cost, last = None, self._spends[arm], self._last
        if any(one.cost is not None for one in told):
            costs = [price if one.cost is None else one.cost for one, price in zip(told, self._prices)]
            cost, last = sum(costs), self._last_paid(costs)
        content = told[-1].content() if content is None else content
        scores = tuple(one.known_score for one in told)
        differ = pattern(seen.numbers)
        return RoundRecord(id, arm, labels, labels, content, differ, None, cost, last, costs, scores=scores)

    def _teach(self, decided: Progress, record: RoundRecord, counts: Any) -> Any:
        self._price(record)
        numbers, scores = decided.arrays()
        chances = freeze(np.array(decided.told[-1].chances, dtype=np.float64))
        self._update(record.arm, numbers, scores, chances, self._rng)
        arm = record.arm
        return counts.after_round(arm, record.differ, record.cost, self._savings[arm], record.last)

    # -- labels

    def calibrate(self, items: Any, truth: Any) -> int:
        """Learn from labelled samples how reliable the last stage is; this becomes the judge.

        Parameters
        ----------
        items : samples
            About 30, drawn like future samples and not selected. All stages are run on each of them; the cost of
            these calls is not counted as spent.
        truth : labels, one per item

        Return the number of items. No round is learned from them.
        """
        samples = Rows(items, "items")
        self._refuse_calibration()
        self._refuse_elsewhere("calibrate_outputs()")
        self._refuse_asynchronous()
        told = told_truth(truth, samples.size)  # before any call is paid for
        return self._calibrate(run_stages(samples, self._stages, alone=True), told)

    def calibrate_outputs(self, outputs: Any, scores: Any, truth: Any) -> int:
        """Calibrate as `calibrate` does, with existing outputs of all stages.

        ``outputs`` has one row of K labels per item. The labels may be `Scored`; then ``scores`` is None. Otherwise
        ``scores`` has the shape of ``outputs``, with None or NaN for a missing score.
        """
        self._refuse_calibration()
        rows = self._labelled_rows(outputs, scores)
        return self._calibrate(rows, told_truth(truth, len(rows)))

    def _calibrate(self, rows: list[list[Any]], told: Rows) -> int:
        body = in_table(rows, [told[row] for row in range(told.size)], self._compare)
        call = ("calibrate", fingerprint(body))
        if not self._settle_debt(call):
            self._take_calibration(body)
            self._acknowledge(call)
        return len(rows)

    def _refuse_calibration(self) -> None:
        if not callable(getattr(self._driver.policy, "calibrate", None)):
            raise Refused(f"calibrate is for a policy that judges, such as USS-A, not for {self._label}")

    def _labelled_rows(self, outputs: Any, scores: Any) -> list[list[Any]]:
        """Return the outputs of all stages, row by row, with their scores."""
        table, K = Rows(outputs, "outputs"), len(self._stages)
        rows = []
        for row in range(table.size):
            given = output_list(f"outputs[{row}]", table[row])
            if len(given) != K:
                raise ValueError(f"outputs[{row}] must be {K} labels, one per stage, got {short(given)}")
            rows.append(given)
        return rows if scores is None else with_scores(rows, scores)

    def _take_calibration(self, body: dict[str, Any]) -> None:
        known = [[math.nan if one is None else one for one in row] for row in body["scores"]]
        with self._ledger.lock:
            self._recover()
            change = self._change = Change(self._driver.backup(), None)
            try:
                self._driver.alter(
                    lambda policy: policy.calibrate(
                        body["classes"], np.array(known, dtype=float), body["right"]
                    )
                )
                steps: list[Action] = []
                if self._log is not None:
                    steps.append(self._noted("calibrate", None, body))
                self._commit(change, steps)
            except BaseException:
                self._recover()
                raise

    def warm_start(self, outputs: Any) -> NoReturn:
        """Not available: the policy could learn from logged rows, but they are not rounds."""
        raise ValueError(
            f"warm_start is not for {self._label}, which decides after every answer: play the rows"
        )

    def _take_costs(self, stage_costs: np.ndarray, error_cost: float) -> None:
        units = stage_costs / error_cost
        if callable(getattr(self._driver.policy, "take_costs", None)):
            self._driver.alter(lambda policy: policy.take_costs(units))

    # -- what was learned

    def settled(self) -> int:
        """Return the stage at which most rounds stopped."""
        if callable(getattr(self._driver.policy, "best_guess", None)):
            return super().settled()
        with self._ledger.lock:
            self._recover()
            return int(np.argmax(self._counts.stops))

    def report(self) -> AdaptiveReport:  # type: ignore[override]
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        with self._ledger.lock:
            self._recover()
            policy, pending = self._driver.write_back(), len(self._ledger.pending)
            return make_adaptive_report(
                self._label, policy, self._stage_costs, self._error_cost, pending, self._counts
            )

    def certificate(self, alpha: float = 0.05) -> NoReturn:
        """Not available: which stages were compared depended on the answers, so their disagreements prove nothing."""
        raise ValueError(
            f"certificate is not offered for {self._label}, which chose what to compare: use audit"
        )

    def audit(self, items: Any, truth: Any, alpha: float = 0.05, arm: int | None = None) -> RuleAudit:  # type: ignore[override]
        """Estimate from labels how much more the current rule costs than always stopping at each stage.

        Parameters
        ----------
        items : samples
            Fresh ones, drawn like future samples. All stages are run on each of them, and nothing is learned.
        truth : labels, one per item, or a callable
            A callable is called like ``label`` of a cascade that buys labels.
        alpha : number between 0 and 1
            How often one of the intervals may miss the truth. Do not repeat the audit until you like the verdict.
        arm : None
            Must be None: it is for cascades with fixed stages only.
        """
        samples = Rows(items, "items")
        self._refuse_elsewhere("audit_outputs()")
        self._refuse_asynchronous()
        self._check_audit(samples.size, alpha, arm)  # before any call is paid for
        ask = teller(samples, truth)
        rows = run_stages(samples, self._stages, alone=True)
        found = self._examine(rows, ask, alpha)
        return replace(found, spent=sum(sum(costs_of(row, self._prices)) for row in rows))

    def audit_outputs(  # type: ignore[override]
        self, outputs: Any, truth: Any, alpha: float = 0.05, arm: int | None = None
    ) -> RuleAudit:
        """Audit the rule as `audit` does, on existing outputs of all stages.

        ``outputs`` has one row of K outputs per fresh item, `Scored` where there are scores. ``truth`` is a sequence of
        labels, or a callable that takes the number of a row.
        """
        rows = self._labelled_rows(outputs, None)
        self._check_audit(len(rows), alpha, arm)
        return self._examine(rows, teller(Rows(range(len(rows))), truth), alpha)

    def _check_audit(self, items: int, alpha: float, arm: Any) -> None:
        if arm is not None:
            raise ValueError(f"arm must be left out: {self._label} is compared with all of them")
        if items < 2:
            raise ValueError(f"items must be at least two samples, got {items}")
        checked_level(alpha)

    def _examine(self, rows: list[list[Any]], ask: Any, alpha: float) -> RuleAudit:
        told = [ask(row, labels_of(outputs)) for row, outputs in enumerate(rows)]
        right = [rights(labels_of(row), label_of(one), self._compare) for row, one in zip(rows, told)]
        with self._ledger.lock:
            self._recover()
            policy, rng = copy.deepcopy(self._driver.write_back()), copy.deepcopy(self._rng)
        stops = [self._stop_of(policy, row, rng) for row in rows]
        paid = [costs_of(row, self._prices) for row in rows]
        own = any(isinstance(output, Costed) for row in rows for output in row)
        return audit_stops(
            stops, ~np.array(right), self._stage_costs, alpha, self._error_cost, paid if own else None
        )

    def _stop_of(self, policy: Any, row: list[Any], rng: np.random.Generator) -> int:
        """Return the stage at which a policy stops a row."""
        seen = Progress()
        for k, output in enumerate(row[:-1]):
            seen = Progress((*seen.told, told_of(output, seen, self._compare, False)))
            numbers, scores = seen.arrays()
            if not checked_bool(policy, policy.go_on(k, numbers, scores, rng), "go_on"):
                return k
        return len(row) - 1

    def explain(self, id: int) -> str:
        """Explain why each stage was called, for the last 1000 rounds begun since this object was loaded."""
        asks = self._explained(id)
        return adaptive_explanation(int(id), asks, len(self._stages), self._label)

    # -- events of the journal, and states

    def _decision_event(self, decided: Any) -> dict[str, Any]:
        return {}

    def _tell_event(self, after: Progress) -> dict[str, Any]:
        stage = len(after.told) - 1
        return {"stage": stage, **after.told[-1].body(), "next": None if after.stopped else stage + 1}

    def _decoded(self, body: dict[str, Any]) -> Progress:
        return Progress()

    def _record_from_event(self, id: int, decided: Progress, body: dict[str, Any]) -> RoundRecord:
        return self._record_of(id, decided, body["digest"])

    def _apply_tell(self, event: Any, same: bool, where: str) -> None:
        body = dict(event.body)
        stage, expected = body.pop("stage"), body.pop("next")
        before = self._ledger.decided(event.decision)
        if before.stopped or stage != len(before.told):
            raise ValueError(f"stage {stage} was not to be run")
        after = self._asked(event.decision, before, told_from(body, stage))
        found = None if after is None or after.stopped else stage + 1
        check_decision(event, found, expected, same, where)
        if after is not None and found != expected:  # the journal wins
            self._ledger.waiting[event.decision] = Progress(after.told, expected is None)

    def _apply_other(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "calibrate":
            self._take_calibration(body)
        else:
            super()._apply_other(kind, body)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "setting": SETTING}

    def _encode_decision(self, decided: Any) -> Any:
        return decided.state()

    def _decode_decision(self, data: Any) -> Any:
        return progress_from(data, len(self._stages))

    def _refuse_asynchronous(self) -> None:
        self._refuse_elsewhere()
        super()._refuse_asynchronous()

    def _refuse_elsewhere(self, instead: str = "begin() and tell(), not a call") -> None:
        if self._stages[0].elsewhere:
            raise ValueError(f"the stages run elsewhere: use {instead}")


def told_truth(truth: Any, items: int) -> Rows:
    """Return the truth as rows, one label per item."""
    told = Rows(truth, "truth")
    if told.size != items or not items:
        raise ValueError(f"truth must be {items or 'at least one'} labels, one per item, got {told.size}")
    return told


def with_scores(rows: list[list[Any]], scores: Any) -> list[list[Any]]:
    """Return the outputs with their scores; None or NaN is a missing score."""
    table = Rows(scores, "scores")
    if table.size != len(rows):
        raise ValueError(f"scores must have {len(rows)} rows, as outputs has, got {table.size}")
    found = []
    for row, labels in enumerate(rows):
        given = output_list(f"scores[{row}]", table[row])
        if len(given) != len(labels):
            raise ValueError(
                f"scores[{row}] must be {len(labels)} numbers, one per stage, got {short(given)}"
            )
        missing = [
            one is None or (isinstance(one, (float, np.floating)) and math.isnan(one)) for one in given
        ]
        found.append([a if gap else Scored(a, one) for a, one, gap in zip(labels, given, missing)])
    return found
