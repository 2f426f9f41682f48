"""The game of a router: the policy names models that can be called alone; the last of them answers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contract.decisions import checked_call
from weakfeedback.contract.models import square_of
from weakfeedback.live import storage
from weakfeedback.live.answers import (
    Comparer,
    Content,
    content_of,
    costs_of,
    far_matrix,
    freeze,
    is_nan,
    label_of,
    labels_of,
    output_list,
    sample_disagreements,
    short,
)
from weakfeedback.live.driver import Examples, Interpreted, has
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import EXPLAINED, Alter, Altered, Choice
from weakfeedback.live.games.comparing import (
    check_costs,
    check_count,
    finite,
    pairs_body,
    pairs_in,
    sampled_rows,
    stop_by_means,
)
from weakfeedback.live.stages import make_models
from weakfeedback.live.storage import StateError
from weakfeedback.live.talks import TURNS, Talks, Turn, turn_in
from weakfeedback.routing.policies.pay_to_compare import PayToCompare
from weakfeedback.routing.prices import model_prices
from weakfeedback.stats import add_up
from weakfeedback.validate import integer, number

ARRAYS = ("differed", "compared", "calls", "answers")
NUMBERS = ("cancelled", "learned", "asked")
SUMS = ("spent", "alone", "allowed", "wasted")
RARE = ("gone", "talks", "moved", "turns")  # numbers that a state holds if they are not 0
TALKED = ("talk_spent", "talk_alone", "talk_differ")
FORGETS = {"certificate": "certificate is not offered for {} with a memory: use audit"}
NO_WARM = {"warm_start": "warm_start is not for {}, which has no warm_pairs()"}
FIXED = {"models": "the models of {} cannot be changed while it runs"}
Call = tuple[int, ...]  # models, in increasing order; with a promise the answering one is last


class ToldCall(tuple[int, ...]):
    """The models called for a request of which something is known."""

    said: Turn | None = None  # a turn of a conversation
    prices: tuple[float, ...] | None = None  # what it costs on each model; None: the stated prices


class LayeredCall(tuple[int, ...]):
    """The models called for a policy that must be told its round again, by ``turn_to``, before it learns from it."""

    said: Turn | None = None  # as of `ToldCall`
    prices: tuple[float, ...] | None = None
    own: Call  # the models that its first layer called
    groups: tuple[int, ...]  # of the request

    def __new__(cls, call: Sequence[int], own: Call, groups: tuple[int, ...]) -> LayeredCall:
        found = super().__new__(cls, call)
        found.own, found.groups = own, groups
        return found


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
    """What is learned from the outputs of a decision, and what is answered. Used once."""

    id: int
    call: Call
    content: Content
    differ: np.ndarray | None  # indexed by model; None while they are still to be sampled
    far: np.ndarray | None = None  # with a metric, how far apart the outputs are, in the order of ``call``
    outputs: Sequence[Any] = ()
    cost: float = 0.0
    failed: dict[int, Exception] = field(default_factory=dict)  # then nothing is learned
    keep: Any = None
    rescued: bool = False  # whether the answering model failed, and another one answered


class Known(NamedTuple):
    """What was known before a decision; the evidence is the policy's own, if it does not use the counts."""

    call: Call
    counts: RouterCounts
    prices: list[float]
    error_cost: float
    settled: int
    ahead: float | None  # rounds expected to follow
    rho: float
    evidence: tuple[np.ndarray, np.ndarray] | None = None  # disagreements and comparisons


class RouterTerms(NamedTuple):
    """The prices of a router."""

    prices: list[float]
    error_cost: float
    costs: np.ndarray  # in units of an error
    promise: Any = None  # a `Promised`, where something is promised


def terms_of(prices: Any, error_cost: Any, models: int) -> RouterTerms:
    """Return the terms of validated prices for so many models."""
    found, error = model_prices(prices), number("error_cost", error_cost, above=0.0)
    if found.size != models:
        raise ValueError(f"prices must be {models} numbers, one per model, got {found.size}")
    with np.errstate(over="ignore", under="ignore"):
        costs = found / error
    if not np.isfinite(costs).all() or costs[-1] <= 0.0:
        raise ValueError(f"prices / error_cost must be finite and end above 0, got error_cost={error!r}")
    return RouterTerms(found.tolist(), error, costs)


class RouterCounts(NamedTuple):
    """Counts of a router of K models. Immutable: a decision or an answer creates new ones."""

    differed: np.ndarray  # pairs i < j whose answers differed
    compared: np.ndarray  # how often they were compared
    calls: tuple[int, ...]
    answers: tuple[int, ...]
    cancelled: int = 0
    learned: int = 0  # comparisons
    asked: int = 0  # decisions that called several models, cancelled or not
    spent: float = 0.0  # at stated prices, on all decisions
    alone: float = 0.0  # what the last model alone would have cost
    allowed: float = 0.0  # the price of the last model, once for every period of prices
    wasted: float = 0.0  # reported as spent on cancelled decisions
    promise: Any = None  # `PromiseCounts`, where something is promised
    labels: tuple[tuple[str | None, ...], ...] = ()  # of the groups of each feature, where features are known
    gone: int = 0  # answers of models that are no longer there
    yields: tuple[np.ndarray, ...] | None = None  # labelled disagreements of pairs, and who was right
    talks: int = 0  # conversations begun,
    moved: int = 0  # and moves up
    turns: int = 0  # their requests,
    talk_spent: float = 0.0  # what these cost,
    talk_alone: float = 0.0  # and would have cost with the last model, or the reference, alone
    talk_differ: float = 0.0  # estimated number of their answers that differ from the reference's

    @classmethod
    def of(cls, prices: list[float]) -> RouterCounts:
        """Return the counts before the first decision."""
        size = len(prices)
        square = np.zeros((size, size), dtype=np.int64)
        return cls(square, square, (0,) * size, (0,) * size, allowed=prices[-1])

    @property
    def decided(self) -> int:
        """All decisions, cancelled or not."""
        return sum(self.answers) + self.gone

    @property
    def rounds(self) -> int:
        """The decisions that were not cancelled."""
        return self.decided - self.cancelled

    def after_decision(self, call: Call, prices: list[float], reference: int = -1) -> RouterCounts:
        """Count a decision to call these models, in place of the reference alone."""
        calls = tuple(n + (k in call) for k, n in enumerate(self.calls))
        answers = tuple(n + (k == call[-1]) for k, n in enumerate(self.answers))
        spent = finite(self.spent + add_up(prices[k] for k in call))
        alone = finite(self.alone + prices[reference])
        asked = self.asked + (len(call) > 1)
        return self._replace(calls=calls, answers=answers, spent=spent, asked=asked, alone=alone)

    def after_turn(self, turn: Turn, call: Call, prices: list[float], reference: int = -1) -> RouterCounts:
        """Count a turn of a conversation for which these models are called."""
        begins = turn.held is None
        return self._replace(
            talks=self.talks + begins,
            moved=self.moved + (turn.held is not None and call[-1] > turn.held),
            turns=self.turns + 1,
            talk_spent=finite(self.talk_spent + add_up(prices[k] for k in call)),
            talk_alone=finite(self.talk_alone + prices[reference]),
        )

    def after_comparison(self, call: Call, differ: np.ndarray, learned: int = 1) -> RouterCounts:
        """Count a comparison of the answers of these models; ``differ`` is indexed by model."""
        models = sorted(call)  # an early answer stands last, whatever its number
        compared = self.compared.copy()
        compared[np.ix_(models, models)] += np.triu(np.ones((len(call), len(call)), dtype=np.int64), 1)
        return self._replace(
            differed=self.differed + differ, compared=compared, learned=self.learned + learned
        )

    def after_cancel(self, cost: float) -> RouterCounts:
        """Count a cancelled decision; its price stays counted."""
        return self._replace(cancelled=self.cancelled + 1, wasted=finite(self.wasted + cost))

    def after_recost(self, prices: list[float]) -> RouterCounts:
        """Count a new period of prices."""
        return self._replace(allowed=finite(self.allowed + prices[-1]))

    def after_models(self, kept: Sequence[int], prices: list[float]) -> RouterCounts:
        """Count for other models, ``kept[k]`` being what model k was before, -1 for a new one."""
        none = np.zeros((len(kept), len(kept)), dtype=np.int64)
        calls, answers = (
            tuple(one[was] if was >= 0 else 0 for was in kept) for one in (self.calls, self.answers)
        )
        differed, compared = (square_of(one, kept, none) for one in (self.differed, self.compared))
        gone = self.decided - sum(answers)
        yields = None if self.yields is None else tuple(square_of(one, kept, none) for one in self.yields)
        news = self._replace(differed=differed, compared=compared, calls=calls, answers=answers, gone=gone)
        return news._replace(yields=yields).after_recost(prices)

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        arrays = {name: storage.encode(np.array(getattr(self, name), dtype=np.int64)) for name in ARRAYS}
        rare = {name: getattr(self, name) for name in RARE + TALKED if getattr(self, name)}
        return arrays | {name: getattr(self, name) for name in NUMBERS + SUMS} | rare

    @classmethod
    def from_state(cls, models: int, state: Any, learned: int) -> RouterCounts:
        """Return the counts that gave ``state``, with so many comparisons learned, or raise `StateError`."""
        square = np.zeros((models, models), dtype=np.int64)
        fresh = dict(zip(ARRAYS, (square, square, square[0], square[0])))
        found = storage.restored_counts(
            {**dict.fromkeys(RARE + TALKED, 0), **state} if isinstance(state, dict) else state,
            {**fresh, **dict.fromkeys(NUMBERS + RARE, 0), **dict.fromkeys(SUMS + TALKED, 0.0)},
        )
        below = np.tril(found["compared"], -1)  # earlier versions counted pairs with an early answer there
        found["compared"] = found["compared"] - below + below.T
        counts = cls(
            **{**found, "calls": tuple(found["calls"].tolist()), "answers": tuple(found["answers"].tolist())}
        )
        calls, answers = found["calls"], found["answers"]
        sound = (
            (counts.differed >= 0).all()
            and (counts.differed <= counts.compared).all()
            and not np.tril(counts.compared).any()
            and (answers >= 0).all()
            and (answers <= calls).all()
            and min(counts.gone, counts.talks, counts.moved, counts.turns) >= 0
            and 0 <= counts.cancelled <= counts.decided
            and 0 <= counts.learned <= counts.asked <= counts.decided
            and all(0.0 <= found[name] < math.inf for name in SUMS + TALKED)
        )
        if not sound:
            raise StateError("the counts contradict each other")
        if counts.learned != learned:
            raise StateError("the counts contradict the ledger")
        return counts


class RouterGame:
    """One decision of a router. The ledger keeps the models called."""

    kind = "Router"
    setting = "routing"
    opening = "decide"
    needs: tuple[str, ...] = ("select", "start", "update_pairs", "cancel")
    teaching_draws = True
    stepwise = False
    spares = choosing_learns = cancelling_learns = (
        True  # a decision is counted: its price, and open comparisons
    )
    learns_failures = False
    in_order: tuple[str, ...] = ("warm",)
    keeps = EXPLAINED
    scratch: Collection[str] | None = None
    form = Form(
        (
            Argument(
                "models", "code", check=check_count("models", lambda m: len(make_models(m, None)), "prices")
            ),
            Argument("prices", "data", (list,), priced=True),
            Argument("error_cost", "data", (int, float), priced=True),
            Argument("timeout", "data", (int, float, type(None)), free=True),
            Argument("compare", "given", (bool,)),
            Argument("metric", "given", (bool,)),
        ),
        {"alone": (list,)},
        counted="prices",
    )
    resize: Any = None
    wants: Any = None
    refuses: Mapping[str, str]
    alters: Mapping[str, Alter]
    names: tuple[str, ...] = ()  # of features of a request
    nothing: tuple[Any, ...] = ()  # what stands first in a context where nothing is known of a request

    def __init__(self, K: int, code: Comparer, timeout: float | None) -> None:
        self.K, self.code, self.timeout = K, code, timeout
        self.alters = {
            "recost": self.recost,
            "warm": self.warm,
            "models": self.change_models,
            "talk": self.move_talk,
        }
        self.talks = Talks()

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        call, differ = freeze(np.zeros(1, dtype=np.bool_)), freeze(np.zeros((1, 1), dtype=np.bool_))
        examples: dict[str, tuple[Any, ...]] = {
            "select": (),
            "start": (call,),
            "update_pairs": (call, differ),
            "cancel": (call,),
        }
        groups, prices = freeze(np.zeros(1, dtype=np.int64)), freeze(np.zeros(1))
        may_have: dict[str, tuple[Any, ...]] = {
            "turn_to": (groups, call),
            "follow": (),
            "reprice": (prices,),
            "warm_pairs": (differ,),
            "price": (prices,),
            "return_to": (prices,),
        }
        more = {name: example for name, example in may_have.items() if has(policy, name)}
        return {**examples, **more}, ("cancel", *more)

    def bind(self, driver: Interpreted) -> None:
        method, policy = driver.method, driver.policy
        self.driver, self.policy = driver, policy
        self.K = int(getattr(policy, "K", self.K))
        self.select, self.start = method("select"), method("start")
        self.update, self.free = method("update_pairs"), method("cancel")
        names = ("turn_to", "follow", "warm_pairs", "price", "return_to")
        found: list[Any] = [method(name) if has(policy, name) else None for name in names]
        self.turn, self.follow, self.warm_row, self.price, self.return_to = found
        self.prices_requests = self.price is not None and self.return_to is not None
        forgets = getattr(policy, "memory", 0) > 0
        fixed = {} if has(policy, "with_models") else FIXED
        self.refuses = {**(NO_WARM if self.warm_row is None else {}), **(FORGETS if forgets else {}), **fixed}

    def check(self, policy: Any, terms: RouterTerms) -> None:
        check_costs(policy, terms.costs, "c", "prices / error_cost", "model")
        wanted = int(getattr(policy, "Q", 0)) if has(policy, "turn_to") else 0
        if wanted != len(self.names):
            raise ValueError(f"features must be {len(self.names)}, those named in context, got {wanted}")

    # -- one round

    def choose(
        self,
        rng: np.random.Generator,
        counts: RouterCounts,
        terms: RouterTerms,
        played: Call | None = None,
        turn: Turn | None = None,
        prices: tuple[float, ...] | None = None,
    ) -> Choice:
        """Ask the policy which models to call; in a replay, ``played`` were called instead.

        ``prices`` are those of the request, if it has its own.
        """
        self._believe(turn)
        known = self._known(counts, terms)
        groups = played.groups if isinstance(played, LayeredCall) else ()
        turn = None if turn is None else self.talks.look_up(turn)
        if turn is not None and turn.held is not None:
            return self._stay(rng, counts, terms, known, turn, groups, played, prices)
        if self.turn is not None:
            self._turn(LayeredCall((), (), groups))
        self._take_prices(prices, terms)
        chosen = tuple(np.flatnonzero(checked_call(self.policy, self.select(rng), self.K)).tolist())
        if self.turn is not None:
            chosen = LayeredCall(chosen, tuple(np.flatnonzero(self.driver.fields()["own"]).tolist()), groups)
        call = chosen if played is None else played
        after = self._start(call, rng, counts, terms, prices)
        why = known._replace(call=call, prices=terms.prices if prices is None else list(prices))
        return self._said(Choice(call, why, after, len(call) > 1, chosen), turn, prices)

    def _take_prices(self, prices: tuple[float, ...] | None, terms: RouterTerms) -> None:
        """Let the policy know what the request at hand costs."""
        if prices is not None:
            self.price(freeze(np.array(prices) / terms.error_cost))

    def _start(
        self,
        call: Call,
        rng: np.random.Generator,
        counts: RouterCounts,
        terms: RouterTerms,
        prices: tuple[float, ...] | None,
    ) -> RouterCounts:
        """Count a round at the prices of its request, and return to the stated ones."""
        self._turn(call)
        self.start(self._bools(call), rng)
        if prices is not None:
            self.return_to(freeze(terms.costs.copy()))
        return counts.after_decision(call, terms.prices if prices is None else list(prices))

    # -- conversations

    def _believe(self, turn: Turn | None) -> None:
        """Let a policy that believes the last model in conversations do so from its first one on, for good."""
        policy = self.policy
        if turn is not None and getattr(policy, "trusts_talks", False) and not policy.trusts_last:
            self.driver.alter(lambda policy: policy.believe_last())

    def _stay(
        self,
        rng: np.random.Generator,
        counts: RouterCounts,
        terms: RouterTerms,
        known: Known,
        turn: Turn,
        groups: tuple[int, ...],
        played: Call | None,
        prices: tuple[float, ...] | None,
    ) -> Choice:
        """Stay with the model of a conversation, or move up; nothing is compared."""
        if self.turn is not None:
            self._turn(LayeredCall((), (), groups))
        self._take_prices(prices, terms)
        paid = terms.prices if prices is None else list(prices)
        model = played[-1] if played is not None else self._model_of(turn, counts, terms, paid)
        call: Any = LayeredCall((model,), (model,), groups) if self.turn is not None else (model,)
        if self.follow is not None:
            self.follow()
        after = self._start(call, rng, counts, terms, prices)
        why = known._replace(call=call, prices=paid)
        return self._said(Choice(call, why, after, False, call), turn, prices)

    def _model_of(self, turn: Turn, counts: RouterCounts, terms: RouterTerms, prices: list[float]) -> int:
        """Return the model of a conversation: a dearer one where that would answer now, and the switch pays."""
        held: Any = turn.held
        lower = getattr(self.driver.write_back(), "lower", None)
        now = (
            self.settled(counts, terms) if lower is None else int(lower(np.zeros(self.K + 1, dtype=np.bool_)))
        )
        if now <= held:
            return int(held)
        s, f = 1.0 + counts.differed[held, now], 1.0 + counts.compared[held, now] - counts.differed[held, now]
        better = 1.0  # where they differ the dearer one is right, unless labels say how often
        if lower is not None:  # what is known of requests like this one
            s, f, _ = self.policy.estimate(held, now)
            better = float(self.policy.yields[held, now])
        share = better * s / (s + f)
        gain = share * terms.error_cost - (prices[now] - prices[held])
        lost = 0.0 if turn.switching is None else turn.switching[now]
        return now if gain > lost / TURNS else int(held)

    def _said(self, choice: Choice, turn: Turn | None, prices: tuple[float, ...] | None) -> Choice:
        """Return the choice for a request with what is known of it: a turn of a conversation, and its prices."""
        if turn is None and prices is None:
            return choice
        call = self._told(choice.decided, turn, prices)
        chosen = call if choice.chosen is choice.decided else self._told(choice.chosen, turn, prices)
        if turn is None:
            return choice._replace(decided=call, chosen=chosen)
        after = choice.counts.after_turn(turn, call, choice.why.prices)
        return choice._replace(decided=call, counts=after, chosen=chosen, talk=(turn, call[-1]))

    def _told(self, call: Call, turn: Turn | None, prices: tuple[float, ...] | None) -> Call:
        found: Any = call if isinstance(call, LayeredCall) else ToldCall(call)
        found.said, found.prices = turn, prices
        made: Call = found
        return made

    def move_talk(self, body: dict[str, Any], counts: RouterCounts, terms: RouterTerms, rng: Any) -> Altered:
        """Let a conversation go on with another model than was decided: the one that answered."""
        turn: Any = turn_in(body)
        return Altered(body, talk=(turn, integer("model", body["model"], 0, self.K - 1)))

    def _known(self, counts: RouterCounts, terms: RouterTerms) -> Known:
        """Return what explains the next decision; for a policy that looks ahead, also what it expects."""
        settled, policy = self.settled(counts, terms), self.policy  # the policy is now up to date
        ahead, evidence = None, None
        if isinstance(policy, PayToCompare):
            ahead, evidence = float(policy.ahead()), policy.evidence()
        rho = float(getattr(policy, "rho", 0.0))
        return Known((), counts, terms.prices, terms.error_cost, settled, ahead, rho, evidence)

    def settled(self, counts: RouterCounts, terms: RouterTerms) -> int:
        """Return the model that the policy trusts now."""
        known = getattr(self.driver.write_back(), "settled", None)
        if callable(known):
            return int(known())
        return stop_by_means(terms.costs, counts.differed, counts.compared)

    def _turn(self, decided: Call) -> None:
        """Tell a policy that must know which round comes now."""
        if isinstance(decided, LayeredCall):
            self.turn(freeze(np.array(decided.groups, dtype=np.int64)), self._bools(decided.own))

    def _bools(self, call: Call) -> np.ndarray:
        found = np.zeros(self.K, dtype=np.bool_)
        found[list(call)] = True
        return freeze(found)

    def calls(self, decided: Call) -> tuple[int, ...]:
        return (decided[-1], *decided[:-1])  # the answering model first

    def rescue(self, call: Call, terms: RouterTerms) -> int | None:
        """Return the model that answers if the answering one fails; None: the round fails."""
        return None

    def record(
        self,
        id: int,
        decided: Call,
        outputs: Sequence[Any],
        terms: RouterTerms,
        content: Content | None = None,
    ) -> ComparisonRecord:
        """Return the record of these outputs, in the order of the call; ValueError if they cannot be compared."""
        self._check_number(decided, outputs)
        return self._compared(id, decided, outputs, content_of(list(outputs)) if content is None else content)

    def _check_number(self, decided: Call, outputs: Sequence[Any]) -> None:
        if len(outputs) != len(decided):
            raise ValueError(
                f"outputs must be {len(decided)} in number, of the models {', '.join(map(str, decided))}, "
                f"got {len(outputs)}: {short(outputs)}"
            )

    def _compared(self, id: int, call: Call, outputs: Sequence[Any], content: Content) -> ComparisonRecord:
        differ, far = self.code.difference(labels_of(outputs))
        return ComparisonRecord(
            id, call, content, None if differ is None else self._by_models(call, differ), far
        )

    def answered_by(
        self, id: int, call: Call, outputs: dict[int, Any], failed: dict[int, Exception], terms: RouterTerms
    ) -> ComparisonRecord:
        """Return the record of a round that was played here, of whose models some may have failed."""
        for k in call[:-1]:
            if k in outputs and k not in failed and is_nan(label_of(outputs[k]), self.code.compare):
                failed[k] = ValueError(f"models[{k}] gave NaN, which is no label")
        given = [outputs.get(k) for k in call]
        if len(call) > 1 and not failed:
            record = self._compared(id, call, given, content_of(given))
        else:
            record = ComparisonRecord(id, call, (), None)
        record.outputs, record.failed = given, failed
        record.cost = self.paid(outputs, terms, getattr(call, "prices", None))
        return record

    def record_of_pairs(
        self, id: int, decided: Call, terms: RouterTerms, content: Content, differ: Any, far: Any
    ) -> ComparisonRecord:
        """Return the record of a comparison that was made elsewhere."""
        pairs = output_list("differ", differ)
        if (self.code.metric is not None) != (far is not None) or (far is not None and pairs):
            raise ValueError(
                "far must be given for a router with a metric, and differ be empty, else left out"
            )
        if far is not None:
            return ComparisonRecord(id, decided, content, None, far_matrix(far, len(decided) - 1))
        matrix = np.zeros((self.K, self.K), dtype=np.bool_)
        for pair in pairs:
            known = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(type(k) is int for k in pair)
            if not known or pair[0] >= pair[1] or not set(pair) <= set(decided):
                raise ValueError(
                    f"differ must be pairs (i, j), i < j, of the models {decided}, got {short(pair)}"
                )
            matrix[pair[0], pair[1]] = True
        return ComparisonRecord(id, decided, content, freeze(matrix))

    def _by_models(self, call: Call, differ: np.ndarray) -> np.ndarray:
        """Return a matrix indexed by model from one in the order of the call."""
        matrix = np.zeros((self.K, self.K), dtype=np.bool_)
        matrix[np.ix_(call, call)] = differ
        return freeze(matrix)

    def teach(
        self,
        decided: Call,
        record: ComparisonRecord,
        counts: RouterCounts,
        terms: RouterTerms,
        rng: np.random.Generator,
    ) -> RouterCounts:
        if record.differ is None:
            record.differ = self._by_models(decided, sample_disagreements(record.far, rng))  # type: ignore[arg-type]
        self._turn(decided)
        self.update(self._bools(decided), record.differ, rng)
        return counts.after_comparison(decided, record.differ)

    def drop(self, decided: Call | None, cost: float, counts: RouterCounts) -> RouterCounts:
        """Close its comparisons; the round and its spending stay counted. None: one model alone."""
        if decided is not None:
            self._turn(decided)
            self.free(self._bools(decided))
        return counts.after_cancel(cost)

    def answer(self, record: ComparisonRecord) -> RouterAnswer:
        labels, call = tuple(labels_of(record.outputs)), record.call
        return RouterAnswer(labels[-1], call[-1], record.cost, call, labels, record.id, record.failed)

    def paid(
        self, seen: Mapping[int, Any], terms: RouterTerms, prices: tuple[float, ...] | None = None
    ) -> float:
        stated = terms.prices if prices is None else prices
        return add_up(costs_of(list(seen.values()), [stated[k] for k in seen]))

    # -- other ways to learn

    def recost(self, body: dict[str, Any], counts: RouterCounts, terms: RouterTerms, rng: Any) -> Altered:
        """Take new prices; the bound on spending starts again for this period."""
        new = terms_of(body["stage_costs"], body["error_cost"], self.K)
        self.driver.method("reprice")(freeze(np.array(new.prices) / new.error_cost))
        return Altered(body, counts.after_recost(new.prices), new)

    def change_models(
        self, body: dict[str, Any], counts: RouterCounts, terms: RouterTerms, rng: Any
    ) -> Altered:
        """Go on with other models: what is known of pairs that stay is kept, and a period of prices begins."""
        new, kept = self._other_terms(body, terms), body["kept"]
        policy: Any = self.driver.write_back()
        after = counts.after_models(kept, new.prices)
        if isinstance(policy, PayToCompare):  # by the rules of the time when the event was made
            other = policy.with_models(new.costs, kept, alike=body.get("alike", False))
            other.begun = other.begun if body.get("anew", False) else policy.begun
        else:
            other = policy.with_models(new.costs, kept)
        return Altered(body, after, new, other, self.talks.with_models(kept))

    def _other_terms(self, body: dict[str, Any], terms: RouterTerms) -> RouterTerms:
        stayed = [was for was in body["kept"] if was >= 0]
        if stayed != sorted(set(stayed)) or not set(stayed) <= set(range(self.K)):
            raise ValueError(
                f"kept must be models in increasing order, -1 for new ones, got {short(body['kept'])}"
            )
        return terms_of(body["prices"], terms.error_cost, len(body["kept"]))

    def warm(
        self, body: dict[str, Any], counts: RouterCounts, terms: RouterTerms, rng: np.random.Generator
    ) -> Altered:
        """Learn from logs in which all models ran."""
        rows, everyone = sampled_rows(body, self.K - 1, rng), tuple(range(self.K))
        for differ in rows:
            self.warm_row(differ)
            counts = counts.after_comparison(everyone, differ, learned=0)
        return Altered({**body, "differ": [pairs_in(differ) for differ in rows]}, counts)

    # -- what the log and a state hold

    def opened(self, decided: Call) -> dict[str, Any]:
        own = {"own": list(decided.own)} if isinstance(decided, LayeredCall) else {}
        said: Turn | None = getattr(decided, "said", None)
        prices = getattr(decided, "prices", None)
        talk = {} if said is None else said.body()
        paid = {} if prices is None else {"prices": list(prices)}
        return {"call": list(decided), "answer": decided[-1], **own, **talk, **paid}

    def prices_of(self, prices: Any) -> tuple[float, ...] | None:
        """Return the prices of a request, validated."""
        return None if prices is None else tuple(terms_of(prices, 1.0, self.K).prices)

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        return (self._layered(body), turn_in(body), self.prices_of(body.get("prices")))

    def decided_from(self, body: dict[str, Any], terms: RouterTerms) -> Call:
        return self._layered(body)

    def _layered(self, body: dict[str, Any]) -> Call:
        """Return the models called, with what the policy must be told again."""
        call = self._models(body["call"])
        if self.turn is None:
            return call
        return LayeredCall(call, self._models(body["own"]), tuple(body.get("groups", ())))

    def answered(self, decided: Call, record: ComparisonRecord) -> dict[str, Any]:
        return pairs_body(record.differ, record.far, record.content)

    def record_from(
        self, id: int, decided: Call, body: dict[str, Any], terms: RouterTerms
    ) -> ComparisonRecord:
        far = body.get("far")
        pairs = () if far is not None else body["differ"]
        return self.record_of_pairs(id, decided, terms, body["digest"], pairs, far)

    def encode(self, decided: Call) -> Any:
        if isinstance(decided, LayeredCall):
            return {"call": list(decided), "own": list(decided.own), "groups": list(decided.groups)}
        return list(decided)

    def decode(self, data: Any, terms: RouterTerms) -> Call:
        known = self.turn is not None and isinstance(data, dict) and data.keys() == {"call", "own", "groups"}
        call = self._layered(data) if known else self._models(data)
        if len(call) < 2:
            raise StateError("a decision of one model alone waits for no feedback")
        return call

    def encode_alone(self, decided: Call) -> int:
        return decided[0]

    def decode_alone(self, item: Any, next_id: int) -> tuple[int, Call]:
        """Return the id and the model of a decision that can still be cancelled."""
        if not isinstance(item, list) or len(item) != 2:
            raise StateError("alone must be pairs of a decision and a model")
        id = integer("id", item[0], 1, next_id - 1)
        return id, (integer("model", item[1], 0, self.K - 1),)

    def _models(self, data: Any) -> Call:
        """Return the models, validated: at least one, in increasing order."""
        if not isinstance(data, list) or not data:
            raise ValueError(f"call must be a list of models, got {short(data)}")
        call = tuple(integer("a model of call", k, 0, self.K - 1) for k in data)
        if list(call) != sorted(set(call)):
            raise ValueError(f"call must be increasing, got {short(data)}")
        return call

    def state(self, counts: RouterCounts, terms: RouterTerms, kept: Mapping[int, Any]) -> dict[str, Any]:
        talks = {"conversations": self.talks.state()} if len(self.talks) else {}
        return {
            "prices": terms.prices,
            "error_cost": terms.error_cost,
            "timeout": self.timeout,
            "compare": self.code.compare is not None,
            "metric": self.code.metric is not None,
            "counts": counts.state(),
            **talks,
        }

    def restore(self, body: dict[str, Any]) -> tuple[RouterCounts, RouterTerms, Mapping[int, Any]]:
        counts = RouterCounts.from_state(self.K, body["counts"], body["core"]["ledger"]["rounds"])
        self.talks.restore(body.get("conversations", ()), self.K)
        return counts, terms_of(body["prices"], body["error_cost"], self.K), {}
