"""The game of a router that keeps a promise: which models are called is decided before any of them is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.adaptive.models import with_models
from weakfeedback.live.answers import (
    Comparer,
    Content,
    content_of,
    freeze,
    is_nan,
    is_other,
    label_of,
    labels_of,
    short,
)
from weakfeedback.live.driver import Examples, Interpreted
from weakfeedback.live.game import Altered, Choice
from weakfeedback.live.games.promise import (
    PASSING,
    UNTOLD,
    Former,
    PromiseCounts,
    Promising,
    Share,
    Why,
    checked,
    go_unseen,
    group_number,
    is_open,
    promise_from,
    promise_state,
    weight,
    with_promise,
)
from weakfeedback.live.games.router import (
    Call,
    ComparisonRecord,
    RouterCounts,
    RouterGame,
    RouterTerms,
    ToldCall,
    terms_of,
)
from weakfeedback.live.storage import StateError
from weakfeedback.live.talks import Turn, turn_in

NOT_CALLED = -1
OFFERS = {
    "warm_start": "warm_start is not for {}, which must know its coins: play the rows",
    "audit": "audit is not for {}, which promises nothing about the truth",
}


class Called(ToldCall):
    """The models of a decision, the answering one last, with its group and its coin."""

    group: str | None
    first: int  # the model whose answer might have gone out, or goes out
    chance: float  # of its comparison

    def __new__(
        cls, models: Call, group: str | None = None, first: int = NOT_CALLED, chance: float = 1.0
    ) -> Called:
        found = super().__new__(cls, models)
        found.group, found.first, found.chance = group, first, chance
        return found

    def body(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        found: dict[str, Any] = {"call": list(self), "answer": self[-1]}
        if self.chance != 1.0:
            found |= {"first": self.first, "chance": self.chance}
        if self.said is not None:
            found |= self.said.body()
        if self.prices is not None:
            found["prices"] = list(self.prices)
        return found if self.group is None else {**found, "group": self.group}


class PromisedRouterGame(Promising, RouterGame):
    """One decision of a router with the policy Promise, asked stage by stage before any answer is known."""

    needs: tuple[str, ...] = ("next_stage", "update", "turn_to", "lost")
    nothing = (None,)
    learns_failures = True  # a model that fails frees what its comparison has reserved
    setting = "adaptive"
    teaching_draws = False
    in_order: tuple[str, ...] = ()
    form = with_promise(RouterGame.form)

    def __init__(self, K: int, code: Comparer, timeout: float | None) -> None:
        super().__init__(K, code, timeout)
        self.alters = {"recost": self.recost, "promise": self.change, "self_check": self.check_again}
        self.alters |= {"unseen": self.unseen, "models": self.change_models, "talk": self.move_talk}
        self.refuses = OFFERS
        self._no_chances = freeze(np.zeros(0))

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        numbers, scores = freeze(np.zeros(1, dtype=np.int64)), freeze(np.zeros(1))
        undrawn: dict[str, tuple[Any, ...]] = {"turn_to": (0, 0, 0.0), "lost": (), "spared": ()}
        undrawn |= {"price": (scores,), "return_to": (scores,), "scale_by": (0.0,)}
        asked = {"next_stage": (0, numbers, scores), "update": (0, numbers, scores, scores)}
        return {**asked, **undrawn}, tuple(undrawn)

    def bind(self, driver: Interpreted) -> None:
        self.driver, self.policy, self.K = driver, driver.policy, int(driver.policy.K)
        self._no_scores = freeze(np.full(self.K, np.nan))
        self.ask, self.learn_from = driver.method("next_stage"), driver.method("update")
        self.turn, self.lose, self.spare = (driver.method(name) for name in ("turn_to", "lost", "spared"))
        self.price, self.return_to = driver.method("price"), driver.method("return_to")
        self.scale_by = driver.method("scale_by")
        self.prices_requests = True

    def check(self, policy: Any, terms: RouterTerms) -> None:
        super().check(policy, terms)
        checked(vars(policy), self.K)

    # -- one round

    def choose(  # type: ignore[override]
        self,
        rng: np.random.Generator,
        counts: RouterCounts,
        terms: RouterTerms,
        group: str | None = None,
        played: Called | None = None,
        turn: Turn | None = None,
        prices: tuple[float, ...] | None = None,
    ) -> Choice:
        """Ask the policy which models to call; a decision for one model alone is learned at once.

        A pause, and a conversation that can only go to the reference, do not ask it: no tokens are earned.
        """
        R = terms.promise.reference
        turn = None if turn is None else self.talks.look_up(turn)
        free = not terms.promise.paused
        free = free and (turn is None or turn.held is None or self._may_stay(turn.held, group, R))
        if free and prices is not None:
            self.price(freeze(np.array(prices)))
        chosen = self._asked(rng, group) if free else Called((R,), group)
        if free and prices is not None:
            self.return_to(freeze(terms.costs.copy()))
        call = chosen if played is None else played
        chosen.said = call.said = turn
        chosen.prices = call.prices = prices
        paid = terms.prices if prices is None else list(prices)
        if len(call) == 1 and free:
            self.turn(group_number(group), call.first, call.chance)
            self._learn(call, call[0], self._numbers(call, ()), terms, rng)
        after = counts.after_decision(call, paid, R)
        after = after if turn is None else after.after_turn(turn, call, paid, R)
        drawn = is_open(call.chance) and len(call) > 1
        spent = after.spent - counts.spent
        cheap = call[-1] != R
        more = Share(1, int(cheap), int(drawn), 0.0, spent, paid[R])
        after = after._replace(promise=counts.promise.plus(group, more))
        talk = None if turn is None else (turn, call[-1])
        return Choice(call, Why(call), after, len(call) > 1, chosen, talk)

    def _learn(
        self, call: Called, arm: int, numbers: np.ndarray, terms: RouterTerms, rng: np.random.Generator
    ) -> None:
        """Let the policy learn from the answers to a request, by what it costs."""
        if call.prices is not None:
            self.scale_by(call.prices[terms.promise.reference] / terms.prices[terms.promise.reference])
        self.learn_from(arm, numbers, self._no_scores, self._no_chances, rng)
        if call.prices is not None:
            self.scale_by(1.0)

    def _may_stay(self, held: int, group: str | None, reference: int) -> bool:
        """Whether a conversation may stay with a cheap model: while the policy chooses that one."""
        policy: Any = self.driver.write_back()
        bucket = policy.bucket_of(group_number(group))
        return bool(policy.shadow or (held != reference and int(policy.model[bucket]) == held))

    def _asked(self, rng: np.random.Generator, group: str | None) -> Called:
        """Return the models that the policy calls; no answer can change that."""
        self.turn(group_number(group), NOT_CALLED, 1.0)
        numbers = np.full(self.K, NOT_CALLED, dtype=np.int64)
        called: list[int] = []
        stage = int(self.ask(NOT_CALLED, freeze(numbers.copy()), self._no_scores, rng))
        while stage != NOT_CALLED:
            if not 0 <= stage < self.K or stage in called:
                raise ValueError(
                    f"{type(self.policy).__name__}.next_stage must return a new model, got {stage}"
                )
            called.append(stage)
            numbers[stage] = PASSING + stage
            stage = int(self.ask(stage, freeze(numbers.copy()), self._no_scores, rng))
        fields = self.driver.fields()
        chance = float(fields["chance"])
        first = NOT_CALLED if chance == 1.0 else int(fields["first"])  # as events and states hold it
        early = self.policy.background and is_open(chance)  # its answer goes out before it is compared
        return Called(tuple(sorted(called, key=lambda k: (early and k == first, k))), group, first, chance)

    def _numbers(self, call: Call, same: Any) -> np.ndarray:
        """Return numbers of the answers, equal for the ``same``."""
        found = np.full(self.K, NOT_CALLED, dtype=np.int64)
        for k in call:
            found[k] = PASSING if k in same else PASSING + 1 + k
        return freeze(found)

    def rescue(self, call: Call, terms: RouterTerms) -> int | None:
        """Return the model that answers if the answering one fails."""
        R: int = terms.promise.reference
        return R if call[-1] != R else None

    def record(
        self,
        id: int,
        decided: Call,
        outputs: Sequence[Any],
        terms: RouterTerms,
        content: Content | None = None,
    ) -> ComparisonRecord:
        """Return the record of these outputs; an exception among them says that the model failed."""
        self._check_number(decided, outputs)
        failed = {k: one for k, one in zip(decided, outputs) if isinstance(one, Exception)}
        known = content_of(list(outputs)) if content is None else content
        return self._against(terms.promise.reference, id, decided, dict(zip(decided, outputs)), failed, known)

    def answered_by(
        self, id: int, call: Call, outputs: dict[int, Any], failed: dict[int, Exception], terms: RouterTerms
    ) -> ComparisonRecord:
        """Return the record of a round that was played here, of whose models some may have failed."""
        rescued = call[-1] in failed
        models = (*call, terms.promise.reference) if rescued else call
        given = [outputs.get(k) for k in models]
        if len(call) > 1:
            record = self._against(terms.promise.reference, id, call, outputs, failed, content_of(given))
        else:
            record = ComparisonRecord(id, models, (), None)
        record.rescued = rescued
        record.outputs, record.failed = given, failed
        record.cost = self.paid(outputs, terms, getattr(call, "prices", None))
        return record

    def _against(
        self,
        reference: int,
        id: int,
        call: Call,
        outputs: dict[int, Any],
        failed: dict[int, Exception],
        content: Content,
    ) -> ComparisonRecord:
        """Compare each model with the reference; what cannot be compared differs."""
        if reference in failed:
            raise ValueError(f"the answer of model {reference} is needed: cancel the decision if it failed")
        matrix = np.zeros((self.K, self.K), dtype=np.bool_)
        for k in call:
            if k != reference and k not in failed and reference in outputs:
                pair = min(k, reference), max(k, reference)
                matrix[pair] = self._differs(label_of(outputs[k]), label_of(outputs[reference]))
        made = ComparisonRecord(id, call, content, freeze(matrix), failed=failed)
        made.outputs = [outputs.get(k) for k in call]
        return made

    def _differs(self, one: Any, other: Any) -> bool:
        compare = self.code.compare
        return is_nan(one, compare) or is_nan(other, compare) or is_other(one, other, compare)

    def teach(  # type: ignore[override]
        self,
        decided: Called,
        record: ComparisonRecord,
        counts: RouterCounts,
        terms: RouterTerms,
        rng: np.random.Generator,
    ) -> RouterCounts:
        differ: Any = record.differ
        R = terms.promise.reference
        unlike = [k for k in decided if k != R and differ[min(k, R), max(k, R)]]
        self.turn(group_number(decided.group), decided.first, decided.chance)
        lost = False
        if decided.first in record.failed:
            self.spare()
        if R in decided:
            answered = tuple(k for k in decided if k not in record.failed)
            same = [k for k in answered if k not in unlike]
            self._learn(decided, R, self._numbers(answered, same), terms, rng)
        elif decided.first not in record.failed:  # another reference was chosen meanwhile
            self.lose()
            lost = True
        kept = counts.promise
        if (
            is_open(decided.chance)
            and not terms.promise.shadow
            and (lost or (decided.first in unlike and decided.first not in record.failed))
        ):
            counts, kept = self._caught(decided, counts)
        if terms.promise.shadow:
            known = kept.total.requests - (counts.asked - counts.learned - 1)  # without those under way
            kept = kept.after_shadow(max(known, 0), self.driver.fields())
        kept = kept.after_round(self.driver.fields())
        if terms.promise.self_check and R in decided:
            known = labels_of(record.outputs)[decided.index(R)] if record.outputs else UNTOLD
            record.keep = Why(decided, known, True)
        return counts.after_comparison(decided, differ)._replace(promise=kept)

    def _caught(self, decided: Called, counts: RouterCounts) -> tuple[RouterCounts, PromiseCounts]:
        """Return the counts after a comparison that differed, which stands for others that went out unseen."""
        many = weight(decided.chance, self.policy.background)
        if decided.said is not None:
            counts = counts._replace(talk_differ=counts.talk_differ + many)
        return counts, counts.promise.plus(decided.group, Share(estimate=many))

    def drop(self, decided: Called | None, cost: float, counts: RouterCounts) -> RouterCounts:  # type: ignore[override]
        """A comparison that is lost counts as differing; the round and its spending stay counted."""
        kept: PromiseCounts = counts.promise
        if decided is not None:
            self.turn(group_number(decided.group), decided.first, decided.chance)
            self.lose()
            if is_open(decided.chance) and not self.policy.shadow:
                counts, kept = self._caught(decided, counts)
        return counts.after_cancel(cost)._replace(promise=kept)

    def settled(self, counts: RouterCounts, terms: RouterTerms) -> int:
        """Return the model that answers most of the requests."""
        return int(np.argmax(counts.answers))

    # -- changes

    def recost(self, body: dict[str, Any], counts: RouterCounts, terms: RouterTerms, rng: Any) -> Altered:
        """Take new prices."""
        new = terms_of(body["stage_costs"], 1.0, self.K)
        promised = self.repromised(body, terms.promise, new.costs)
        return Altered(body, counts.after_recost(new.prices), new._replace(promise=promised))

    def change_models(
        self, body: dict[str, Any], counts: RouterCounts, terms: RouterTerms, rng: Any
    ) -> Altered:
        """Go on with other models; the tokens and the bound go on, too."""
        new, kept, reference = self._other_terms(body, terms), body["kept"], body["reference"]
        old, requests = terms.promise, counts.promise.total.requests
        since = tuple(
            one._replace(reference=kept.index(one.reference)) for one in old.since if one.reference in kept
        )
        if kept[reference] != old.reference and old.reference in kept:
            since = (*since, Former(kept.index(old.reference), requests, body.get("at", 0)))[-100:]
        policy = with_models(self.driver.write_back(), new.costs, kept, reference)
        promised = old._replace(reference=reference, since=since, names=None)
        after = counts.after_models(kept, new.prices)
        talks = self.talks.with_models(kept)
        return Altered(body, after, new._replace(promise=promised), policy, talks)

    def unseen(self, body: dict[str, Any], counts: RouterCounts, terms: Any, rng: Any) -> Altered:
        """Let an answer go out although the reference failed; its request is counted already."""
        go_unseen(body, self.driver)
        return Altered(body, counts._replace(promise=counts.promise.plus(body["group"], Share(cheap=1))))

    # -- what the log and a state hold

    def answered(self, decided: Call, record: ComparisonRecord) -> dict[str, Any]:
        found = super().answered(decided, record)
        return {**found, "failed": sorted(record.failed)} if record.failed else found

    def record_from(
        self, id: int, decided: Call, body: dict[str, Any], terms: RouterTerms
    ) -> ComparisonRecord:
        found = super().record_from(id, decided, body, terms)
        found.failed = {k: RuntimeError("it failed") for k in body.get("failed", ())}
        return found

    def opened(self, decided: Called) -> dict[str, Any]:  # type: ignore[override]
        return decided.body()

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        called = self._called(body)
        return body.get("group"), called, turn_in(body), called.prices

    def decided_from(self, body: dict[str, Any], terms: RouterTerms) -> Called:
        return self._called(body)

    def encode(self, decided: Called) -> dict[str, Any]:  # type: ignore[override]
        return decided.body()

    def decode(self, data: Any, terms: RouterTerms) -> Called:
        found = self._called(data)
        if len(found) < 2:
            raise StateError("a decision of one model alone waits for no feedback")
        return found

    def _called(self, data: Any) -> Called:
        if not isinstance(data, dict):
            raise StateError(f"a decision is damaged: {short(data)}")
        given = data.get("call")
        call, group = self._models(sorted(given) if isinstance(given, list) else given), data.get("group")
        call = (
            call
            if data.get("answer") not in call
            else (*(k for k in call if k != data["answer"]), data["answer"])
        )
        first, chance = data.get("first", NOT_CALLED), data.get("chance", 1.0)
        sound = isinstance(group, (str, type(None))) and type(first) is int and type(chance) in (int, float)
        if not sound or not 0.0 <= chance <= 1.0 or not NOT_CALLED <= first < self.K:
            raise StateError(f"the coin of a decision is damaged: {short(data)}")
        found = Called(call, group, first, float(chance))
        found.prices, found.said = self.prices_of(data.get("prices")), turn_in(data)
        return found

    def state(self, counts: RouterCounts, terms: RouterTerms, kept: Any) -> dict[str, Any]:
        found = super().state(counts, terms, kept)
        del found["error_cost"]
        return {**found, "promise": promise_state(terms.promise, counts.promise)}

    def restore(self, body: dict[str, Any]) -> tuple[RouterCounts, RouterTerms, Any]:
        counts = RouterCounts.from_state(self.K, body["counts"], body["core"]["ledger"]["rounds"])
        promised, kept = promise_from(body["promise"], self.K)
        self.talks.restore(body.get("conversations", ()), self.K)
        terms = terms_of(body["prices"], 1.0, self.K)._replace(promise=promised)
        return counts._replace(promise=kept), terms, {}
