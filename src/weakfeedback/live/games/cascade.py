"""The game of a cascade: the policy names a stage, and learns which of the answers up to it differ."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, NamedTuple, NoReturn

import numpy as np

from weakfeedback.contract.decisions import checked_arm
from weakfeedback.live import storage
from weakfeedback.live.answers import (
    Comparer,
    Content,
    Costed,
    Scored,
    answers_of,
    content_of,
    costs_of,
    far_matrix,
    freeze,
    labels_of,
    output_list,
    pairs_of,
    rights,
    short,
)
from weakfeedback.live.driver import Examples, Interpreted, learns_by_choosing
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Altered, Choice, Plain
from weakfeedback.live.games.comparing import (
    check_costs,
    check_count,
    finite,
    pairs_body,
    pairs_in,
    warm_rows,
)
from weakfeedback.live.label_source import Bought, labels_from_state
from weakfeedback.live.numbers import (
    Moved,
    Squared,
    is_numeric,
    learned,
    numbers_state,
    read_number,
    restored_moved,
)
from weakfeedback.live.report import share_of
from weakfeedback.live.stages import make_stages
from weakfeedback.live.storage import StateError
from weakfeedback.stats import add_up
from weakfeedback.validate import integer, number, vector

NEW = tuple.__new__  # of a named tuple with all its fields: in half the time
ARRAYS = ("differed", "compared", "stops")
SUMS = ("spent", "saved", "alone", "wasted")
STEPWISE = {
    "begin": "begin is for a policy that decides after every answer, not for {}: use decide",
    "tell": "tell is for a policy that decides after every answer, not for {}: use feedback",
    "calibrate": "calibrate is for a policy that judges, such as USS-A, not for {}",
    "calibrate_outputs": "calibrate_outputs is for a policy that judges, such as USS-A, not for {}",
}
SQUARED = {
    "certificate": "certificate is not offered for loss='squared': movements bound no error; use calibration"
}
FORGETS = {"certificate": "certificate is not offered for {}, which forgets: use audit"}


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: call the stages 0, ..., ``arm`` and give their outputs as feedback under ``id``."""

    id: int
    arm: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one sample: its label, the stage it stopped at, and the total cost of the stages called."""

    label: Any
    arm: int
    cost: float
    outputs: tuple[Any, ...]
    id: int
    truth: Any = None  # the label that was bought for this sample, None if there was none
    # of the stages called, where the cascade decides after every answer
    scores: tuple[float | None, ...] = ()


@dataclass(slots=True)
class RoundRecord:
    """Everything to learn from one round, computed before anything is changed. Used once."""

    id: int
    arm: int
    answers: list[Any]
    labels: list[Any]
    content: Content
    differ: np.ndarray | None  # which pairs differ; None while they are still to be sampled
    far: np.ndarray | None  # how far apart the answers are, where a metric tells
    costs: list[float] | None = None  # of each call, if they differ from the stated costs
    cost: float = 0.0  # of all calls, set when it is learned
    last: float = 0.0  # what the last stage costs, or cost if it was called; likewise
    right: np.ndarray | None = None  # which of the answers are right according to a bought label
    truth: Any = None
    label_cost: float = 0.0
    scores: tuple[float | None, ...] = ()
    keep: None = None


class Terms(NamedTuple):
    """The prices of a cascade, and what follows from them."""

    stage_costs: np.ndarray
    error_cost: float
    costs: np.ndarray  # cumulative, in units of an error: what policies take
    prices: list[float]
    spends: list[float]  # what the calls up to each stage cost
    savings: list[float]  # and those after it
    last: float  # the cost of the last answer alone: a combined answer needs the outputs of all stages
    combined: bool
    units: list[float]  # of each stage, in units of an error
    inputs: int = 0  # the length of a context, 0 before the first
    dimension: int = 0  # the length of its features
    promise: Any = None  # a `Promised`, where something is promised

    def last_paid(self, costs: list[float]) -> float:
        """Return what the last answer alone would have cost: the actual cost if it was given, else the stated one."""
        if len(costs) < len(self.prices):
            return self.last
        return add_up(costs) if self.combined else costs[-1]


def terms_of(stage_costs: Any, error_cost: Any, size: int, combined: bool) -> Terms:
    """Return the terms of validated prices."""
    costs = vector("stage_costs", stage_costs, at_least=0.0, size=size)
    error = number("error_cost", error_cost, above=0.0)
    prices: list[float] = costs.tolist()
    spends = [add_up(prices[: arm + 1]) for arm in range(size)]
    savings = [add_up(prices[arm + 1 :]) for arm in range(size)]
    last = add_up(prices) if combined else prices[-1]
    with np.errstate(over="ignore"):
        total = np.cumsum(costs) / error
    if not np.isfinite(total).all():
        raise ValueError(f"stage_costs / error_cost must be finite, got error_cost={error!r}")
    return Terms(costs, error, total, prices, spends, savings, last, combined, (costs / error).tolist())


class Counts(NamedTuple):
    """Counts of a cascade of K stages. Immutable: a round creates new ones, so that a record can keep the old."""

    differed: np.ndarray  # pairs i < j whose answers differed
    seen: tuple[int, ...]  # seen[k]: how often the stages up to k were compared, and none after it
    stops: tuple[int, ...]  # rounds that stopped at each stage
    spent: float = 0.0  # on rounds that were learned
    saved: float = 0.0  # stated costs of the calls not made
    alone: float = 0.0  # what the last stage alone would have cost
    wasted: float = 0.0  # spent on rounds that failed
    labels: int = 0  # labels bought
    label_spent: float = 0.0
    promise: Any = None  # `PromiseCounts`, where something is promised
    moved: Moved | None = None  # how far the answers are apart, if that is counted

    @classmethod
    def of(cls, arms: int, moved: bool = False) -> Counts:
        """Return the counts before the first round; if ``moved``, distances are counted too."""
        fresh = cls(np.zeros((arms, arms), dtype=np.int64), (0,) * arms, (0,) * arms)
        return fresh._replace(moved=Moved.of(arms)) if moved else fresh

    @property
    def compared(self) -> np.ndarray:
        """How often the pairs i < j were compared."""
        return pairs_compared(self.seen)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return sum(self.stops)

    def seen_of(self, i: int, j: int) -> tuple[float, float, float]:
        """Return how often, or how far, two stages i < j differed, NaN if never compared, and a 95 % interval."""
        tries = sum(self.seen[j:])
        return (
            share_of(int(self.differed[i, j]), tries) if self.moved is None else self.moved.seen(i, j, tries)
        )

    def after_round(
        self, arm: int, differ: np.ndarray | None, cost: float, saved: float, alone: float
    ) -> Counts:
        """Count a round that stopped at this stage; ``differ`` has the pairs i < j <= arm, if none was skipped."""
        differed, seen = (self.differed, self.seen) if differ is None else self._compared(arm, differ)
        stops = (*self.stops[:arm], self.stops[arm] + 1, *self.stops[arm + 1 :])
        spent, saved, alone = self.spent + cost, self.saved + saved, self.alone + alone
        if spent == math.inf or alone == math.inf:
            self._refuse(cost)
        sums = (spent, saved, alone, self.wasted, self.labels, self.label_spent)
        return NEW(Counts, (differed, seen, stops, *sums, self.promise, self.moved))

    def check_sum(self, cost: float, alone: float) -> None:
        """Reject a round that would overflow the sums."""
        if self.spent + cost == math.inf or self.alone + alone == math.inf:
            self._refuse(cost)

    def _refuse(self, cost: float) -> NoReturn:
        raise ValueError(f"costs must have a finite sum with the {self.spent:g} spent so far, got {cost!r}")

    def after_comparison(self, arm: int, differ: np.ndarray) -> Counts:
        """Count a comparison of the stages up to ``arm`` outside a round."""
        differed, seen = self._compared(arm, differ)
        return self._replace(differed=differed, seen=seen)

    def after_movement(self, far: np.ndarray | None) -> Counts:
        """Count how far the answers of a comparison are apart, if that is counted."""
        return self if self.moved is None or far is None else self._replace(moved=self.moved.after(far))

    def after_label(self, cost: float) -> Counts:
        """Count a label that was bought."""
        return self._replace(labels=self.labels + 1, label_spent=finite(self.label_spent + cost))

    def after_failure(self, cost: float) -> Counts:
        """Count what was spent on a round that failed."""
        return self._replace(wasted=finite(self.wasted + cost))

    def _compared(self, arm: int, differ: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        if arm == 0:
            return self.differed, self.seen
        differed = self.differed
        if differ.dtype == np.bool_ and b"\1" in differ.tobytes():  # faster than any() for few items
            differed = differed.copy()
            differed[: arm + 1, : arm + 1] += differ
        return differed, (*self.seen[:arm], self.seen[arm] + 1, *self.seen[arm + 1 :])

    def state(self) -> dict[str, Any]:
        """Return everything but the labels as plain data."""
        stops = storage.encode(np.array(self.stops, dtype=np.int64))
        arrays = {**storage.encoded_counts(self, ("differed", "compared")), "stops": stops}
        return arrays | {name: getattr(self, name) for name in SUMS}

    @classmethod
    def from_state(cls, arms: int, state: Any, rounds: int | None = None) -> Counts:
        """Return the counts that gave ``state``, of so many rounds, or raise `StateError`."""
        square = np.zeros((arms, arms), dtype=np.int64)
        fresh = {"differed": square, "compared": square, "stops": square[0], **dict.fromkeys(SUMS, 0.0)}
        found = storage.restored_counts(state, fresh)
        differed, compared, stops = (found[name] for name in ARRAYS)
        sums = [found[name] for name in SUMS]
        reached = np.append(compared[0], 0)  # a stage is compared with the first one whenever it is seen
        seen = (0, *(reached[1:-1] - reached[2:]).tolist())
        sound = (
            (differed >= 0).all()
            and (differed <= compared).all()
            and (stops >= 0).all()
            and min(seen) >= 0
            and np.array_equal(pairs_compared(seen), compared)
            and all(0.0 <= value < math.inf for value in sums)
        )
        if not sound:
            raise StateError("the counts contradict each other")
        counts = cls(differed, seen, tuple(stops.tolist()), *sums)
        if rounds is not None and counts.rounds != rounds:
            raise StateError("the counts contradict the ledger")
        return counts


def pairs_compared(seen: tuple[int, ...] | list[int]) -> np.ndarray:
    """Return how often pairs i < j were compared; the stages up to k, and none after it, were seen ``seen[k]`` times.

    >>> pairs_compared([0, 5, 2]).tolist()
    [[0, 7, 2], [0, 0, 2], [0, 0, 0]]
    """
    reached = np.cumsum(seen[::-1])[::-1]
    return np.triu(np.broadcast_to(reached, (len(seen), len(seen))), 1)


# -- what games with stages share


def stage_arguments(scored: bool = False) -> tuple[Argument, ...]:
    """Return the arguments of every cascade."""
    number_of = lambda stages: len(make_stages(stages, None, scored))  # noqa: E731
    return (
        Argument("stages", "code", check=check_count("stages", number_of, "stage_costs")),
        Argument("stage_costs", "data", (list,), priced=True),
        Argument("error_cost", "data", (int, float), priced=True),
        Argument("timeout", "data", (int, float, type(None)), free=True),
        Argument("combine", "given", (bool,)),
        Argument("compare", "given", (bool,)),
        Argument("loss", "data", read=read_number("loss")),
        Argument("scale", "data", read=read_number("scale")),
    )


def with_numbers(form: Form) -> Form:
    """Return the form of a state that holds how far answers are apart."""
    return replace(form, other={**form.other, "numbers": (dict,)})


def compared(
    code: Comparer, id: int, arm: int, outputs: Sequence[Any], terms: Terms, content: Content | None = None
) -> RoundRecord:
    """Return the record of the outputs of stages 0, ..., arm; ValueError if they cannot be compared."""
    if len(outputs) != arm + 1:
        raise ValueError(
            f"outputs must be {arm + 1} in number, of the stages 0 to {arm}, got {len(outputs)}: {short(outputs)}"
        )
    labels: Any = outputs
    kinds = set(map(type, outputs))
    if Costed in kinds or Scored in kinds:
        labels = labels_of(outputs)
    costs = costs_of(outputs, terms.prices) if Costed in kinds else None
    answers = labels if code.combine is None else answers_of(labels, code.combine)
    differ, far = code.difference(answers)
    if content is None:
        content = content_of(outputs)
    return RoundRecord(id, arm, answers, labels, content, differ, far, costs)


def moved_in(
    record: RoundRecord, numeric: bool, counts: Counts, rng: np.random.Generator
) -> tuple[np.ndarray, Counts]:
    """Return what the policy learns of a round whose answers have distances, and the counts with them."""
    told = learned(record.far, numeric, rng)  # type: ignore[arg-type]
    record.differ = None if numeric else told
    return told, counts.after_movement(record.far)


def price(record: RoundRecord, terms: Terms) -> None:
    """Set the costs of a record when it is learned, by the prices of then."""
    if record.costs is None:
        record.cost, record.last = terms.spends[record.arm], terms.last
    else:
        record.cost, record.last = add_up(record.costs), terms.last_paid(record.costs)


def recosted(body: dict[str, Any], terms: Terms) -> Terms:
    """Return the terms with the prices of an event."""
    new = terms_of(body["stage_costs"], body["error_cost"], len(terms.prices), terms.combined)
    return new._replace(inputs=terms.inputs, dimension=terms.dimension)


def prices_body(stage_costs: Any, error_cost: Any, terms: Terms) -> dict[str, Any]:
    """Return the body of an event of new prices, validated."""
    new = terms_of(stage_costs, error_cost, len(terms.prices), terms.combined)
    return {"stage_costs": new.prices, "error_cost": new.error_cost}


def stages_state(code: Comparer, timeout: float | None, counts: Counts, terms: Terms) -> dict[str, Any]:
    """Return what the state of every cascade holds."""
    return {
        "stage_costs": terms.prices,
        "error_cost": terms.error_cost,
        "timeout": timeout,
        "combine": code.combine is not None,
        "compare": code.compare is not None,
        "counts": counts.state(),
        **({} if counts.moved is None else numbers_state(code, counts.moved)),
    }


def refuse_third_label(differ: Any, answers: list[Any], label: str) -> None:
    """Reject a round with three different answers, for a policy that knows two."""
    first = differ[0]
    if (differ[1:] != np.triu(first != first[:, None], 1)[1:]).any():
        raise ValueError(f"outputs must take at most two values in a round for {label}, got {short(answers)}")


def default_policy(stages: int, labelled: bool, numeric: bool) -> str:
    """Return the name of the policy of a cascade for which none was given."""
    if labelled:
        return "Q-USS"
    if numeric:
        return "USS-mean"
    from weakfeedback.cascade.policies.uss_wd import MOST_ARMS

    return "USS-WD-TS" if stages <= MOST_ARMS else "USS-TS"


class Staged:
    """What the games of cascades have in common."""

    K: int
    code: Comparer
    driver: Interpreted
    calls: Callable[[Any], tuple[int, ...]]
    update: Callable[..., Any]
    numeric: bool  # whether the policy learns distances as they are
    timeout: float | None
    moves = False  # whether distances are counted
    labels = False  # whether there is a source of labels
    label_price: float | None = None  # of a policy that buys labels

    def answer(self, record: RoundRecord) -> Answer:
        outputs, answer = tuple(record.labels), record.answers[-1]
        return Answer(answer, record.arm, record.cost, outputs, record.id, record.truth, record.scores)

    def drop(self, decided: Any, cost: float, counts: Counts) -> Counts | None:
        return counts.after_failure(cost) if cost else None

    def paid(self, seen: Mapping[int, Any], terms: Terms) -> float:
        return add_up(costs_of(list(seen.values()), terms.prices))

    def record_of_pairs(
        self, id: int, decided: Any, terms: Terms, content: Content, differ: Any, far: Any, costs: Any
    ) -> RoundRecord:
        """Return the record of comparisons that were made elsewhere: pairs, or distances if answers have them."""
        arm = self.calls(decided)[-1]
        if self.code.metric is None and far is not None:
            raise ValueError("far must be left out: it is for a cascade with a metric")
        if self.code.metric is not None and (far is None or output_list("differ", differ)):
            raise ValueError("far must be given, and differ empty, for a cascade with a metric")
        matrix = pairs_of(differ, arm)
        paid = None if costs is None else vector("costs", costs, at_least=0.0, size=arm + 1).tolist()
        record = RoundRecord(id, arm, [], [], content, matrix, None, paid)
        if far is not None:
            record.differ, record.far = None, far_matrix(far, arm)
        return record

    # -- other ways to learn

    def recost(self, body: dict[str, Any], counts: Any, terms: Terms, rng: Any) -> Altered:
        """Take new prices; what was counted stays, and a policy that learns nothing may have no costs."""
        new, fields = recosted(body, terms), self.driver.fields()
        if "C" in fields:
            fields["C"][:] = new.costs
        return Altered(body, terms=new)

    def warm(self, body: dict[str, Any], counts: Counts, terms: Terms, rng: np.random.Generator) -> Altered:
        """Learn from logs in which all stages ran."""
        rows = [
            (differ if far is None else learned(far, self.numeric, rng), far)
            for differ, far in warm_rows(body, self.K - 1)
        ]
        for shown, (told, far) in zip(self.shown_in(body), rows):
            self.update(*shown, self.K - 1, told, rng)
            counts = counts.after_comparison(self.K - 1, told).after_movement(far)
        if self.numeric and "far" in body:
            return Altered({key: value for key, value in body.items() if key != "differ"}, counts)
        return Altered({**body, "differ": [pairs_in(told) for told, _ in rows]}, counts)

    def shown_in(self, body: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
        """Return what the policy is shown of each row of a warm start before its comparisons."""
        return repeat(())

    # -- what the log and a state hold

    def answered(self, decided: Any, record: RoundRecord) -> dict[str, Any]:
        body = pairs_body(record.differ, record.far, record.content)
        if record.costs is not None:
            body["costs"] = record.costs
        if record.right is not None:
            body |= {"right": record.right.tolist(), "label_cost": record.label_cost}
        return body

    def record_from(self, id: int, decided: Any, body: dict[str, Any], terms: Terms) -> RoundRecord:
        far = body.get("far")
        pairs = () if far is not None else body["differ"]
        record = self.record_of_pairs(id, decided, terms, body["digest"], pairs, far, body.get("costs"))
        if "right" in body:
            record.right = freeze(np.array(body["right"], dtype=np.bool_))
            record.label_cost = body["label_cost"]
        return record

    def state(self, counts: Counts, terms: Terms, kept: Mapping[int, Any]) -> dict[str, Any]:
        return {
            **stages_state(self.code, self.timeout, counts, terms),
            "metric": self.code.metric is not None and not isinstance(self.code.metric, Squared),
            "label": self.labels,
            "purse": {"price": self.label_price, "labels": counts.labels, "spent": counts.label_spent},
        }

    def restored(self, body: dict[str, Any], error_cost: Any) -> tuple[Counts, Terms]:
        """Return the counts and the prices in a state, or raise `StateError`."""
        counts = Counts.from_state(self.K, body["counts"], body["core"]["ledger"]["rounds"])
        if "purse" in body:
            labels, spent = labels_from_state(body["purse"], self.label_price)
            counts = counts._replace(labels=labels, label_spent=spent)
        if self.moves:
            counts = counts._replace(moved=restored_moved(self.K, body, counts.compared))
        return counts, terms_of(body["stage_costs"], error_cost, self.K, self.code.combine is not None)


class CascadeGame(Staged, Plain):
    """One round of a cascade. The ledger keeps the chosen stage."""

    kind = "Cascade"
    setting = "cascade"
    needs: tuple[str, ...] = ("select", "update_pairs")
    in_order: tuple[str, ...] = ("warm",)
    form = Form(
        (
            *stage_arguments(),
            Argument("metric", "given", (bool,)),
            Argument("label", "given", (bool,)),
            Argument("label_price", "data", read=lambda body: body["purse"].get("price")),
        ),
        {"purse": (dict,)},
        counted="stage_costs",
    )
    of_numbers = with_numbers(form)

    def __init__(
        self, K: int, code: Comparer, timeout: float | None, labels: bool, label_price: float | None
    ) -> None:
        self.K, self.code, self.timeout = K, code, timeout
        self.labels, self.label_price = labels, label_price
        self.calls = [tuple(range(arm + 1)) for arm in range(K)].__getitem__
        self.alters = {"recost": self.recost, "warm": self.warm}

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        kind = np.float64 if is_numeric(self.code, policy) else np.bool_
        differ, right = freeze(np.zeros((1, 1), dtype=kind)), freeze(np.zeros(1, dtype=np.bool_))
        examples: dict[str, tuple[Any, ...]] = {"select": (), "update_pairs": (0, differ)}
        if self.label_price is None:
            return examples, ()
        buying = {"wants_label_pairs": (0, differ), "learn_label_pairs": (0, differ, right)}
        return {**examples, **buying}, ("learn_label_pairs",)

    def bind(self, driver: Interpreted) -> None:
        self.driver, self.policy = driver, driver.policy
        self.select, self.update = driver.method("select"), driver.method("update_pairs")
        self.choosing_learns = learns_by_choosing(driver)
        self.numeric = is_numeric(self.code, driver.policy)
        self.moves = self.numeric or isinstance(self.code.metric, Squared)
        sampled = (self.code.metric is not None and not self.numeric) or self.label_price is not None
        self.teaching_draws = sampled or driver.draws("update_pairs")
        self.binary = bool(getattr(driver.policy, "binary_outputs", False))
        compares = functools.partial(compared, self.code)
        self.record: Callable[..., RoundRecord] = self._record_of_two if self.binary else compares
        self.refuses = {**STEPWISE, **(FORGETS if getattr(driver.policy, "forgets", False) else {})}
        if isinstance(self.code.metric, Squared):
            self.refuses |= SQUARED
        if self.label_price is not None:
            self.wants_pairs = driver.method("wants_label_pairs")
            self.learn_label = driver.method("learn_label_pairs")
            self.wants = self._wants

    def check(self, policy: Any, terms: Terms) -> None:
        check_costs(policy, terms.costs)

    def choose(self, rng: np.random.Generator, counts: Counts, terms: Terms) -> Choice:
        arm = self.select(rng)
        if type(arm) is not int or not 0 <= arm < self.K:
            arm = checked_arm(self.policy, arm, self.K)
        return NEW(Choice, (arm, (arm, counts, terms), None, True, None, None))

    def _record_of_two(
        self, id: int, decided: int, outputs: Sequence[Any], terms: Terms, content: Content | None = None
    ) -> RoundRecord:
        found = compared(self.code, id, decided, outputs, terms, content)
        refuse_third_label(found.differ, found.answers, self._name())
        return found

    def _name(self) -> str:
        return self.driver.origin.name or type(self.policy).__name__

    def record_of_pairs(
        self, id: int, decided: int, terms: Terms, content: Content, differ: Any, far: Any, costs: Any
    ) -> RoundRecord:
        record = super().record_of_pairs(id, decided, terms, content, differ, far, costs)
        if self.binary:
            refuse_third_label(record.differ, list(differ), self._name())
        return record

    def labelled(self, record: RoundRecord, label: Any) -> None:
        """Add to a record which of its answers are right according to a label."""
        if isinstance(label, Bought):
            record.right, cost = freeze(label.right), label.cost
        else:
            truth, cost = (label.label, label.cost) if isinstance(label, Costed) else (label, None)
            record.right, record.truth = freeze(rights(record.answers, truth, self.code.compare)), truth
        record.label_cost = self.label_price or 0.0 if cost is None else cost

    def _wants(self, record: RoundRecord, rng: np.random.Generator) -> bool:
        return bool(self.wants_pairs(record.arm, record.differ, rng))

    def teach(
        self, decided: int, record: RoundRecord, counts: Counts, terms: Terms, rng: np.random.Generator
    ) -> Counts:
        price(record, terms)
        differ = record.differ
        if differ is None:
            differ, counts = moved_in(record, self.numeric, counts, rng)
        if record.right is not None:
            self.learn_label(decided, differ, record.right)
            counts = counts.after_label(record.label_cost)
        self.update(decided, differ, rng)
        return counts.after_round(decided, differ, record.cost, terms.savings[decided], record.last)

    # -- what the log and a state hold

    def decode(self, data: Any, terms: Terms) -> int:
        return integer("arm", data, 0, self.K - 1)

    def restore(self, body: dict[str, Any]) -> tuple[Counts, Terms, Mapping[int, Any]]:
        return *self.restored(body, body["error_cost"]), {}
