"""The kinds of learners: how each is created from its configuration, asked, taught and shown."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from weakfeedback.canonical import digest_of
from weakfeedback.live.allocator import Allocator
from weakfeedback.live.answers import Costed, Scored, rights
from weakfeedback.live.cascade import Cascade
from weakfeedback.live.cascade_report import WEAK_DOMINANCE
from weakfeedback.live.contextual import ContextualCascade
from weakfeedback.live.errors import FeedbackConflict, Refused
from weakfeedback.live.games.adaptive import alone
from weakfeedback.live.games.promise import group_of
from weakfeedback.live.live import Live
from weakfeedback.live.numbers import Squared
from weakfeedback.live.promise_report import PromiseReport
from weakfeedback.live.report import plain
from weakfeedback.live.router import Router
from weakfeedback.live.talks import key_of, turn_in
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.limits import HISTORY_LIMIT, MATRIX_LIMIT, PAIRS_LIMIT, STAGES_LIMIT
from weakfeedback.serve.models import (
    AgainRequest,
    CalibrateRequest,
    DecideRequest,
    FeedbackRequest,
    ModelsRequest,
    Problem,
    TellRequest,
    wrong,
)
from weakfeedback.serve.outputs import LabelComparator, differ
from weakfeedback.serve.promised import (
    CHANGES,
    CHOICES,
    billed_promise,
    change,
    is_promised,
    money_told,
    promise_arguments,
    promise_body,
    stages_told,
)
from weakfeedback.settings.catalog import POLICIES, canonical_name
from weakfeedback.settings.setting import find_name

STATED_BOUND = (
    "Money: whatever the models answer, at most that of the last model alone, plus 5 %, plus 50 calls of it, at the "
    "prices that the learner knows; they follow what calls cost."
)
PRICED = {"stage_costs": "a cascade", "prices": "a router"}  # fields of prices, and whose they are
ASIDE = {"id", "dry_run"}  # fields of a feedback that are not content


class Kind:
    """One kind of learner, with the configuration of one learner."""

    name: ClassVar[str]
    live: ClassVar[type[Live]]
    takes_context: ClassVar[bool] = False
    opening: ClassVar[str] = "decide"  # the kind of the event that opens a decision
    is_slow: ClassVar[bool] = False  # to replay: thousands of events a second, not tens of thousands

    def __init__(self, config: Any) -> None:
        self.config = config
        self.names = list[str](getattr(config, self._parts))
        if len(self.names) > STAGES_LIMIT:
            raise wrong(
                self._parts,
                f"must be at most {STAGES_LIMIT} in number, got {len(self.names)}",
                "too_many_stages",
            )
        if len(set(self.names)) != len(self.names):
            raise wrong(self._parts, "must have different names")

    _parts: ClassVar[str] = "stages"

    def common(self, seed: int, compiled: bool) -> dict[str, Any]:
        """Return the arguments that all live objects take."""
        policy = {} if self.config.policy is None else {"policy": self.config.policy}
        options = _options(self.config.options)
        return {**policy, **options, "seed": seed, "compiled": compiled, "remember": 0}

    def make(self, seed: int, compiled: bool) -> Live:
        """Return a new live object; ValueError for an impossible configuration."""
        raise NotImplementedError

    def code(self) -> dict[str, Any]:
        """Return the arguments that a state does not contain."""
        return {}

    def again(self, state: dict[str, Any], compiled: bool) -> Live:
        """Return the live object restored from ``state``."""
        made: Any = self.live
        found: Live = made.from_state(state, compiled=compiled, **self.code())
        return self.named(found)

    def named(self, live: Live) -> Live:
        """Return a live object, after telling it the names and the currency to use in texts."""
        live.speak(self.names, self.config.currency)
        return live

    def checked_context(self, live: Any, context: Any) -> tuple[Any, ...]:
        """Return the context, or the group, as the core takes it; Problem if it does not fit."""
        if isinstance(context, DecideRequest):
            raise Problem("wrong_context", f"this is for a router, not for a {self.name} learner")
        if isinstance(context, str):
            if not is_promised(self.config):
                raise wrong("group", "goes with a promise: agree or budget", "wrong_context")
            try:
                return (group_of(context),)
            except ValueError as error:
                raise Problem("wrong_context", str(error), field="group") from None
        if context is not None:
            raise wrong("context", f"must be left out for a {self.name} learner", "wrong_context")
        return ()

    def is_same(self, live: Any, body: dict[str, Any], context: Any) -> bool:
        """Whether the event of a decision belongs to a request with this context, or group."""
        return bool(context == body.get("group"))

    def answer(self, body: dict[str, Any], names: list[str]) -> dict[str, Any]:
        """Return what a client is told about a decision, from its event and the names that there were then."""
        raise NotImplementedError

    def stage(self, body: dict[str, Any]) -> str:
        """Return the name of the stage that answers, from the event of a decision."""
        raise NotImplementedError

    def answering(self, body: dict[str, Any]) -> int:
        """Return the stage that answers, from the event of the last output of a round."""
        return int(body["first"] if self.answers_early(body) else body["stage"])

    def answers_early(self, body: dict[str, Any]) -> bool:
        """Whether the answer of a round goes out before it is compared, from the event of one of its outputs."""
        return bool(getattr(self.config, "background", False)) and 0.0 < body.get("chance", 1.0) < 1.0

    def waits(self, body: dict[str, Any]) -> bool:
        """Whether a decision waits for feedback."""
        return True

    def digest(self, given: FeedbackRequest) -> str:
        """Return the digest under which a feedback is stored."""
        return digest_of({name: getattr(given, name) for name in given.model_fields_set - ASIDE})

    def learn(self, live: Any, id: int, given: FeedbackRequest, digest: str) -> None:
        """Learn the feedback of a pending decision."""
        raise NotImplementedError

    def wants(self, live: Any, id: int, given: FeedbackRequest) -> bool:
        """Whether a label would be bought; changes nothing."""
        return False

    def recost(self, live: Any, given: dict[str, Any]) -> None:
        """Continue with new prices."""
        raise Problem("not_offered", f"a {self.name} learner has no prices")

    def change_models(self, live: Any, given: ModelsRequest) -> None:
        """Add, remove or replace a model."""
        raise Problem("not_offered", f"the stages of a {self.name} learner cannot change: make another one")

    def warm(self, live: Any, outputs: list[list[Any]], contexts: list[list[float]] | None) -> int:
        """Learn rows in which all stages ran."""
        raise Problem("not_offered", f"a {self.name} learner has no warm start")

    def report(self, live: Any, invoice: Invoice) -> dict[str, Any]:
        """Return the part of a report that is specific to this kind."""
        report = live.report()
        return {
            "policy": report.policy,
            "rounds": report.rounds,
            "pending": report.pending,
            "details": report.to_dict(),
        }

    def text(self, live: Any, invoice: Invoice) -> str:
        """Return the report as a table."""
        return str(billed_report(live, invoice))

    def refuse(self, given: FeedbackRequest, allowed: Sequence[str]) -> None:
        """Reject fields of a feedback that do not apply here."""
        for field in given.model_fields_set.difference(allowed, ASIDE):
            raise wrong(field, f"must be left out for a {self.name} learner", "wrong_outputs")


class Compared(Kind):
    """Base class of the kinds that learn from differences between answers."""

    _priced: ClassVar[str] = "stage_costs"  # the field of its prices

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.comparator = LabelComparator(config.compare)

    def recost(self, live: Any, given: dict[str, Any]) -> None:
        """Continue with new prices, or with another promise."""
        other, whose = next(one for one in PRICED.items() if one[0] != self._priced)
        if given.get(other) is not None:
            raise wrong(other, f"are those of {whose}: give {self._priced}")
        prices, error, terms = given.get(self._priced), given.get("error_cost"), live.core.terms
        priced = prices is not None or error is not None
        if priced and any(given.get(name) is not None for name in CHANGES):
            raise Problem("invalid", "change the prices or the promise, one request for each")
        if priced:
            error = terms.error_cost if error is None and terms.promise is None else error
            live.recost(terms.prices if prices is None else prices, error)
        change(live, given, self.names)

    def warm(self, live: Any, outputs: list[list[Any]], contexts: list[list[float]] | None) -> int:
        if contexts is not None:
            words = f"contexts must be left out for a {self.name} learner"
            raise Problem("wrong_context", words, field="contexts")
        found: int = live.warm_start(self.rows(outputs))
        return found

    def seen(self, given: FeedbackRequest, numbers: Sequence[int]) -> tuple[Any, Any, list[Any] | None]:
        """Return pairs, or distances, and any labels, of the called stages ``numbers``."""
        ways = [field for field in ("outputs", "differ", "distance") if getattr(given, field) is not None]
        if len(ways) != 1:
            raise Problem(
                "wrong_outputs", f"one of outputs, differ and distance must be given, got {len(ways)}"
            )
        metric = self.comparator.metric is not None
        if ways[0] == "outputs":
            outputs = given.outputs or []
            self.check_number(outputs, numbers)
            labels = self.comparator.labels("outputs", outputs)
            if metric:
                return (), self.comparator.far(labels), labels
            return differ(labels, numbers), None, labels
        if (ways[0] == "distance") != metric:
            wanted = "distance" if metric else "differ"
            raise wrong(ways[0], f"must be left out here: give outputs or {wanted}", "wrong_outputs")
        if metric:
            return (), given.distance, None
        return [tuple(pair) for pair in given.differ or ()], None, None

    def check_again(self, live: Any, id: int, given: AgainRequest, chance: float) -> bool:
        """Count a second answer of the reference, asked for with this chance; return whether it differs."""
        if (given.differs is None) != ("output" in given.model_fields_set):
            raise Problem("wrong_outputs", "one of output and differs must be given")
        label = None if given.differs is not None else self.comparator.labels("output", [given.output])[0]
        told = label if given.cost is None else Costed(label, given.cost)
        try:
            found: bool = live.check_again(id, told, chance, given.differs)
        except ValueError as error:
            raise Problem("wrong_outputs", str(error)) from None
        return found

    def check_number(self, outputs: list[Any], numbers: Sequence[int]) -> None:
        """Reject outputs if there is not one for each stage called."""
        if len(outputs) != len(numbers):
            which = (
                f"the stages 0 to {numbers[-1]}" if self._parts == "stages" else f"the models {list(numbers)}"
            )
            raise wrong(
                "outputs",
                f"must be {len(numbers)} in number, of {which}, got {len(outputs)}",
                "wrong_outputs",
            )

    def rows(self, outputs: list[list[Any]]) -> list[list[Any]]:
        """Return the rows of a warm start as labels."""
        K = len(self.names)
        if len(outputs) * K * (K - 1) // 2 > PAIRS_LIMIT:
            raise wrong(
                "outputs",
                f"must be at most {2 * PAIRS_LIMIT // (K * (K - 1))} rows of {K} labels in one request, "
                f"got {len(outputs)}",
                "too_many_items",
            )
        for row, given in enumerate(outputs):
            if len(given) != K:
                raise Problem(
                    "wrong_outputs",
                    f"outputs[{row}] must be {K} labels, one for each, got {len(given)}",
                    field="outputs",
                )
        return [self.comparator.labels("outputs", given) for given in outputs]

    def pairs(
        self, report: Any, compared: np.ndarray, costs: Sequence[float], error: float
    ) -> list[dict[str, Any]]:
        """Return how often pairs differed, and above which share the later stage pays."""
        K = len(costs)
        return [
            {
                "pair": [i, j],
                "share": plain(report.disagreement[i, j]),
                "low": float(report.intervals[i, j][0]),
                "high": float(report.intervals[i, j][1]),
                "comparisons": int(compared[i, j]),
                "pays_above": (costs[j] - costs[i]) / error,
            }
            for i in range(K)
            for j in range(i + 1, K)
        ]

    def report(self, live: Any, invoice: Invoice) -> dict[str, Any]:
        report = billed_report(live, invoice)
        if not isinstance(report, PromiseReport):
            return self.unpromised_report(live, report)
        counts = live.core.counts
        answers = counts.answers if self._parts == "models" else counts.stops
        shares = [count / sum(answers) if sum(answers) else None for count in answers]
        return promise_body(report, self.names, live.core.terms.prices, shares)

    def unpromised_report(self, live: Any, report: Any) -> dict[str, Any]:
        """Return the report of a learner without a promise as data."""
        raise NotImplementedError

    def told(
        self,
        report: Any,
        costs: list[float],
        shares: list[float | None],
        settled: int,
        pairs: list[dict[str, Any]] | None = None,
        alone: float | None = None,
    ) -> dict[str, Any]:
        """Return a report as data; ``alone`` is what the last stage alone would have cost."""
        whole = report.spent + report.saved_alone if alone is None else alone
        found = stages_told(report, report.rounds, self.names, costs, shares) | {"settled": settled}
        if pairs is not None:
            found["disagreement"] = pairs
        found |= money_told(report, report.saved_alone, self.names[-1], whole)
        if pairs is not None:
            found["weak_dominance"] = WEAK_DOMINANCE
        return {**found, "details": report.to_dict()}


class CascadeKind(Compared):
    """Stages of rising cost; all stages up to the chosen one are called."""

    name = "cascade"
    live: ClassVar[type[Live]] = Cascade

    def make(self, seed: int, compiled: bool) -> Live:
        config = self.config
        if config.policy is not None:
            # a name of those that decide after every answer is refused
            canonical_name("cascade", config.policy)
        more = {"label_price": config.label_price, **self.numbers(), **self.common(seed, compiled)}
        return Cascade(len(self.names), config.stage_costs, config.error_cost, **more)

    def numbers(self) -> dict[str, Any]:
        """Return the arguments that say how far apart two answers are."""
        compare = self.config.compare
        if not isinstance(self.comparator.metric, Squared):
            return self.code()
        if "scale" in self.config.options:
            raise wrong("options", "must leave out scale, which is that of compare")
        return {"loss": compare.loss, "scale": compare.scale}

    def code(self) -> dict[str, Any]:
        metric = self.comparator.metric
        return {"metric": None if isinstance(metric, Squared) else metric}  # a loss is in the state

    def answer(self, body: dict[str, Any], names: list[str]) -> dict[str, Any]:
        stage = body["stage"]
        return {"stage": stage, "name": names[stage], "call": names[: stage + 1]}

    def stage(self, body: dict[str, Any]) -> str:
        found: str = self.names[body["stage"]]
        return found

    def learn(self, live: Any, id: int, given: FeedbackRequest, digest: str) -> None:
        self.refuse(given, ("outputs", "differ", "distance", "costs", "label", "label_cost", "right"))
        core = live.core
        stages = core.game.calls(core.ledger.waiting[id])
        pairs, far, labels = self.seen(given, stages)
        bought = self._bought(given, labels, len(stages))
        try:
            live.feedback_pairs(id, pairs, far=far, costs=given.costs, label=bought, digest=digest)
        except ValueError as error:
            code = error.code if isinstance(error, Refused) else "wrong_outputs"
            raise Problem(code, str(error)) from None

    def _bought(self, given: FeedbackRequest, labels: list[Any] | None, called: int) -> Any:
        """Return which of the answers are right according to a label."""
        right = given.right
        if "label" in given.model_fields_set:
            if labels is None or right is not None:
                raise wrong("label", "goes with outputs, right with differ", "wrong_label")
            truth = self.comparator.labels("label", [given.label])[0]
            right = rights(labels, truth, None).tolist()
        if right is None:
            return None
        if len(right) != called:
            raise wrong(
                "right", f"must be {called} bools, one per stage called, got {len(right)}", "wrong_label"
            )
        return right if given.label_cost is None else Costed(right, given.label_cost)

    def wants(self, live: Any, id: int, given: FeedbackRequest) -> bool:
        core = live.core
        game, decided = core.game, core.ledger.waiting[id]
        pairs, far, _ = self.seen(given, game.calls(decided))
        try:
            record = game.record_of_pairs(id, decided, core.terms, "", pairs, far, given.costs)
            return game.wants is not None and bool(core.run(game.wants, record, core.rng))
        except ValueError as error:
            raise Problem("wrong_outputs", str(error)) from None

    def unpromised_report(self, live: Any, report: Any) -> dict[str, Any]:
        costs = report.stage_costs.tolist()
        pairs = self.pairs(report, report.comparisons, np.cumsum(costs).tolist(), report.error_cost)
        return self.told(report, costs, plain(report.arm_shares), live.settled(), pairs)


class ContextualKind(CascadeKind):
    """A cascade that looks at a context first."""

    name = "contextual"
    live = ContextualCascade
    takes_context = True
    is_slow = True

    def make(self, seed: int, compiled: bool) -> Live:
        config, pairs = self.config, self._pairs()
        if pairs**3 > MATRIX_LIMIT:
            raise wrong("stages", f"have {pairs} pairs, too many for a contextual learner", "too_many_stages")
        more = {"keep": config.keep, **self.numbers(), **self.common(seed, compiled)}
        return ContextualCascade(len(self.names), config.stage_costs, config.error_cost, **more)

    def checked_context(self, live: Any, context: Any) -> tuple[Any, ...]:
        if isinstance(context, (DecideRequest, str)):  # what other kinds are told of a request
            return super().checked_context(live, context)
        if context is None:
            raise wrong("context", "must be given: this learner looks at it", "wrong_context")
        self._check_size(len(context))
        try:
            found: tuple[Any, ...] = live.context_of(context)
        except ValueError as error:
            raise Problem("wrong_context", str(error), field="context") from None
        return found

    def _pairs(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def _check_size(self, numbers: int) -> None:
        """Reject a context whose matrices would not fit into memory, from its length alone."""
        features = numbers * (numbers + 3) // 2 + 1
        for size, most, what in (
            (self._pairs() * features**2, MATRIX_LIMIT, "matrices"),
            ((self.config.keep or 0) * features, HISTORY_LIMIT, "observations"),
        ):
            if size > most:
                raise wrong(
                    "context",
                    f"must be shorter: with {numbers} numbers and {len(self.names)} stages the {what} have "
                    f"{size} numbers, at most {most} are allowed",
                    "wrong_context",
                )

    def is_same(self, live: Any, body: dict[str, Any], context: Sequence[float] | None) -> bool:
        return bool(self.checked_context(live, context)[1].tolist() == body["phi"])

    def learn(self, live: Any, id: int, given: FeedbackRequest, digest: str) -> None:
        self.refuse(given, ("outputs", "differ", "distance", "costs"))
        super().learn(live, id, given, digest)

    def warm(self, live: Any, outputs: list[list[Any]], contexts: list[list[float]] | None) -> int:
        if contexts is None or len(contexts) != len(outputs):
            raise wrong("contexts", "must be given, one for every row of outputs", "wrong_context")
        self._check_size(max(map(len, contexts), default=0))
        found: int = live.warm_start(contexts, self.rows(outputs))
        return found


class AdaptiveKind(CascadeKind):
    """A cascade that decides after every answer."""

    name = "adaptive"
    live = Cascade
    opening = "begin"
    is_slow = True

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if self.comparator.metric is not None:
            raise wrong("compare", "must be exact or text for an adaptive learner")

    def make(self, seed: int, compiled: bool) -> Live:
        config, common = self.config, self.common(seed, compiled)
        if is_promised(config):
            common |= promise_arguments(config, self.names)
        else:
            common = {"policy": "USS-A", **common, **unpromised(config)}
            find_name(
                "policy", common["policy"], [n for n in POLICIES["adaptive"] if n not in POLICIES["cascade"]]
            )
        return Cascade(len(self.names), config.stage_costs, config.error_cost, **common)

    def code(self) -> dict[str, Any]:
        return {}

    def answer(self, body: dict[str, Any], names: list[str]) -> dict[str, Any]:
        stage = body.get("next", 0)  # at the start of a round
        return {"stage": stage, "name": names[stage], "call": [names[stage]]}

    def digest(self, given: FeedbackRequest) -> str:
        raise Problem("not_offered", "an adaptive learner is told each output as it comes: use tell")

    def output(self, given: TellRequest) -> Any:
        """Return an output in the form that the live object expects."""
        if given.failed:
            return RuntimeError("the stage failed")
        label = self.comparator.labels("output", [given.output])[0]
        told = label
        if given.score is not None:
            chances = None
            if given.chances is not None:
                chances = {
                    self.comparator.labels("chances", [name])[0]: p for name, p in given.chances.items()
                }
            told = Scored(label, given.score, chances)
        elif given.chances is not None:
            raise wrong("chances", "go with a score", "wrong_outputs")
        return told if given.cost is None else Costed(told, given.cost)

    def tell(self, live: Any, id: int, given: TellRequest) -> tuple[int | None, int | None]:
        """Tell an output of an open round; return the next stage, or the one whose answer counts."""
        try:
            step = live.tell(id, self.output(given), given.stage)
        except FeedbackConflict as error:
            raise Problem("conflict", str(error)) from None
        except ValueError as error:
            raise Problem("wrong_outputs", str(error)) from None
        return step.stage, None if step.answer is None else step.answer.arm

    def calibrate(self, live: Any, given: CalibrateRequest) -> None:
        """Learn from labelled rows how far the last stage can be trusted."""
        rows = self.rows(given.outputs)
        truth = self.comparator.labels("truth", given.truth)
        try:
            live.calibrate_outputs(rows, given.scores, truth)
        except ValueError as error:
            code = error.code if isinstance(error, Refused) else "wrong_outputs"
            raise Problem(code, str(error)) from None

    def warm(self, live: Any, outputs: list[list[Any]], contexts: list[list[float]] | None) -> int:
        raise Problem("not_offered", "an adaptive learner has no warm start: calibrate it")

    def unpromised_report(self, live: Any, report: Any) -> dict[str, Any]:
        costs, rounds = report.stage_costs.tolist(), report.rounds
        shares = [int(count) / rounds if rounds else None for count in report.stopped]
        return self.told(report, costs, shares, live.settled())


class RouterKind(Compared):
    """Models that can be called alone."""

    name = "router"
    live = Router
    _parts = "models"
    _priced = "prices"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        if isinstance(self.comparator.metric, Squared):
            raise wrong(
                "compare.loss",
                "must be left out for a router: squared errors are for kinds cascade and contextual",
            )

    def make(self, seed: int, compiled: bool) -> Live:
        config, common = self.config, self.common(seed, compiled)
        common |= promise_arguments(config, self.names) if is_promised(config) else unpromised(config)
        common |= {} if config.context is None else {"context": config.context}
        return Router(len(self.names), config.prices, config.error_cost, **self.code(), **common)

    def named(self, live: Live) -> Live:
        if self.config.conversation_ttl is not None:
            live.conversation_ttl = self.config.conversation_ttl  # type: ignore[attr-defined]
        return super().named(live)

    def checked_context(self, live: Any, context: Any) -> tuple[Any, ...]:
        if not isinstance(context, DecideRequest):
            return super().checked_context(live, context)
        if isinstance(context.context, list):
            raise wrong("context", "must be a table of features, by name", "wrong_context")
        try:
            given = (context.context, context.prices, context.conversation, context.switching)
            found: tuple[Any, ...] = live.told_of(context.group, *given)
        except ValueError as error:
            code = error.code if isinstance(error, Refused) else "wrong_context"
            raise Problem(code, str(error)) from None
        return found

    def is_same(self, live: Any, body: dict[str, Any], context: Any) -> bool:
        if not isinstance(context, DecideRequest):
            return super().is_same(live, body, context)
        known: Any = context.context or {}
        told = {name: str(value) for name, value in known.items() if value is not None}
        talk = None if context.conversation is None else key_of(context.conversation)
        wanted = (context.group, told, talk)  # what it costs may be estimated anew
        return wanted == (body.get("group"), body.get("context", {}), body.get("conversation"))

    def code(self) -> dict[str, Any]:
        return {"metric": self.comparator.metric}

    def answer(self, body: dict[str, Any], names: list[str]) -> dict[str, Any]:
        answer, said = body["answer"], turn_in(body)
        told = {"stage": answer, "name": names[answer], "call": [names[k] for k in body["call"]]}
        return told if said is None else {**told, "turn": said.word(answer)}

    def stage(self, body: dict[str, Any]) -> str:
        found: str = self.names[body["answer"]]
        return found

    def waits(self, body: dict[str, Any]) -> bool:
        return len(body["call"]) > 1

    def learn(self, live: Any, id: int, given: FeedbackRequest, digest: str) -> None:
        self.refuse(given, ("outputs", "differ", "distance", "failed"))
        pairs, far, labels = self.seen(given, live.core.ledger.waiting[id])
        try:
            live.feedback_pairs(
                id, pairs, far=far, digest=digest, failed=given.failed or (), outputs=labels or ()
            )
        except ValueError as error:
            raise Problem("wrong_outputs", str(error)) from None

    def change_models(self, live: Any, given: ModelsRequest) -> None:
        if sum(one is not None for one in (given.add, given.remove, given.replace)) != 1:
            raise Problem("invalid", "one of add, remove and replace must be given")
        if given.add is not None:
            if len(self.names) >= STAGES_LIMIT:
                raise Problem(
                    "too_many_stages", f"models must be at most {STAGES_LIMIT} in number", field="add"
                )
            live.add_model(price=given.add.price, name=given.add.name)
        elif given.remove is not None:
            live.remove_model(given.remove)
        elif given.replace is not None:
            live.replace_model(given.replace.model, price=given.replace.price, name=given.replace.name)

    def with_models(self, body: dict[str, Any]) -> Any:
        """Return the configuration after the models have changed."""
        born = self.config.prices
        prices = [price if was < 0 else born[was] for price, was in zip(body["prices"], body["kept"])]
        news = {"models": body["names"], "prices": prices}
        if self.config.reference is not None:
            news["reference"] = body["names"][body["reference"]]
        return self.config.model_copy(update=news)

    def unpromised_report(self, live: Any, report: Any) -> dict[str, Any]:
        prices, decided = report.prices.tolist(), sum(report.answers)
        shares = [count / decided if decided else None for count in report.answers]
        pairs = self.pairs(report, report.compared, prices, report.error_cost)
        return self.told(report, prices, shares, report.settled, pairs, report.last_alone)


class AllocationKind(Kind):
    """A budget over arms."""

    name = "allocation"
    live = Allocator
    _parts = "arms"

    def make(self, seed: int, compiled: bool) -> Live:
        config = self.config
        common = self.common(seed, compiled)
        return Allocator(self.names, config.budget, setting=config.setting, **common)

    def named(self, live: Live) -> Live:
        """Return the object: it has its names already."""
        return live

    def answer(self, body: dict[str, Any], names: list[str]) -> dict[str, Any]:
        return {"allocation": dict(zip(names, body["allocation"]))}

    def stage(self, body: dict[str, Any]) -> str:
        return ""  # all arms together

    def digest(self, given: FeedbackRequest) -> str:
        self.refuse(given, ("observed",))
        if given.observed is None:
            raise wrong("observed", "must be given: what was seen at the arms", "wrong_outputs")
        unknown = next((arm for arm in given.observed if arm not in self.names), None)
        if unknown is not None:
            raise wrong("observed", f"names an arm that there is not: {unknown!r:.70}", "wrong_outputs")
        seen = {arm: value for arm, value in given.observed.items() if value}
        return digest_of(seen)

    def learn(self, live: Any, id: int, given: FeedbackRequest, digest: str) -> None:
        core, game = live.core, live.core.game
        try:
            core.learn([game.record(id, None, game.seen(given.observed), (), digest)])
        except ValueError as error:
            raise Problem("wrong_outputs", str(error), field="observed") from None


KINDS: dict[str, type[Kind]] = {
    kind.name: kind for kind in (CascadeKind, ContextualKind, AdaptiveKind, RouterKind, AllocationKind)
}


def kind_of(config: Any) -> Kind:
    """Return the kind of learner for a configuration; Problem if it is impossible."""
    return KINDS[config.kind](config)


def billed_report(live: Any, invoice: Invoice) -> Any:
    """Return the report of a live object; its money is that of the invoice if there is one, not of stated prices."""
    report = live.report()
    if isinstance(report, PromiseReport):
        return billed_promise(report, invoice, list(report.words.names or ()))
    if invoice.terms is None:
        return report
    known = {item.name: getattr(report, item.name) for item in dataclasses.fields(report)}
    spent, last = invoice.spent, len(invoice.lines) - 1
    alone = invoice.alone if invoice.terms["baseline"] == last else known["spent"] + known["saved_alone"]
    news: dict[str, Any] = {"spent": spent, "saved_alone": alone - spent, "wasted": invoice.money["lost"]}
    if "last_alone" in known:
        news["last_alone"] = alone
    if "saved" in known:
        news["saved"] = known["spent"] + known["saved"] - spent
    if known.get("net_saved") is not None:
        at_stake = known["extra_errors"] * known["error_cost"]
        news["net_saved"] = (alone - spent - at_stake, alone - spent + at_stake)
    if "bound" in known and math.isfinite(known["bound"]):
        news["bound"] = math.inf  # it is for stated prices
        news["guarantees"] = (STATED_BOUND, *known["guarantees"][1:])
    return dataclasses.replace(report, **news)


def unpromised(config: Any) -> dict[str, Any]:
    """Return what goes with a promise only, where it is given: the live object says so."""
    return {name: getattr(config, name) for name in ("reference", *CHOICES) if getattr(config, name, None)}


def same_output(output: Any, body: dict[str, Any]) -> bool:
    """Whether an output is the one recorded in the event of a ``tell``."""
    told = alone(output)
    return (told.digest, told.known_score, told.cost) == (body["digest"], body.get("score"), body.get("cost"))


def _options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the checked options of a policy: numbers, texts, bools and lists of these; none that the service sets."""
    own = {
        "seed",
        "compiled",
        "remember",
        "policy",
        "metric",
        "loss",
        "compare",
        "combine",
        "label",
        "features",
        "timeout",
    }
    for name, value in options.items():
        if name in own or not name.isidentifier() or isinstance(value, dict):
            raise wrong("options", f"must be those of the policy, got {name!r:.60}")
    return options


__all__ = ["KINDS", "Kind", "kind_of"]
