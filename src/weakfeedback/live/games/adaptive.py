"""The game of a cascade that is asked after every answer: a round goes on until the policy stops it."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contract.decisions import checked_bool
from weakfeedback.live.answers import (
    PLAIN,
    Compare,
    Comparer,
    Content,
    Costed,
    costs_of,
    fingerprint,
    freeze,
    is_nan,
    is_other,
    label_of,
    number_of,
    pattern,
    scored_of,
    short,
)
from weakfeedback.live.driver import Examples, Interpreted, has, learns_by_choosing
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Altered, Choice, Plain
from weakfeedback.live.games.cascade import (
    Answer,
    Counts,
    RoundRecord,
    Staged,
    Terms,
    price,
    recosted,
    stage_arguments,
    terms_of,
)
from weakfeedback.live.games.comparing import check_costs
from weakfeedback.live.games.promise import (
    PromiseCounts,
    Promising,
    Share,
    checked,
    go_unseen,
    group_number,
    is_open,
    lasting_numbers,
    promise_from,
    promise_state,
    weight,
    with_promise,
)
from weakfeedback.live.stages import Failed
from weakfeedback.live.storage import StateError
from weakfeedback.stats import add_up
from weakfeedback.validate import brief
from weakfeedback.words import STAGES

log = logging.getLogger("weakfeedback.live")
SETTING = "adaptive"
AT_ONCE = {
    "decide": "{} decides after every answer: use begin() and tell(), not decide()",
    "feedback": "{} decides after every answer: use tell(id, output), not feedback()",
    "feedback_pairs": "{} decides after every answer: use tell(id, output), not feedback_pairs()",
    "warm_start": "warm_start is not for {}, which decides after every answer: play the rows",
    "certificate": "certificate is not offered for {}, which chose what to compare: use audit",
}
NO_JUDGE = {
    "calibrate": "calibrate is for a policy that judges, such as USS-A, not for {}",
    "calibrate_outputs": "calibrate is for a policy that judges, such as USS-A, not for {}",
}
TOLD = {"class", "digest", "score", "chances", "cost", "stage"}  # what is stored of an output
NOT_CALLED = -1
FAILED = "failed"  # in place of the digest of a label
JUDGES = 3  # ways to judge
LOOK = 64  # requests after which is looked whether stages still give scores
MEMORY = ("arms", "filled", "held", "memory", "reference", "t")  # fields of a policy that keeps rounds


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of a round: run ``stage`` and `tell` its output, or use ``answer``."""

    id: int
    stage: int | None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Placeholder for a label given before the cascade was saved: files hold only digests of labels."""

    digest: str


class Told(NamedTuple):
    """The output of one stage."""

    label: Any
    number: int  # of the label in its round, by first match; -1: the stage failed
    score: float  # NaN: none was given
    # probabilities of the answers of all stages so far, its own last; () if unknown
    chances: tuple[float, ...]
    cost: float | None  # None: the stated cost
    stage: int = 0

    @property
    def digest(self) -> str:
        """The digest that identifies the label."""
        return self.label.digest if isinstance(self.label, Lost) else fingerprint(self.label)

    @property
    def known_score(self) -> float | None:
        """The score, None if there is none."""
        return None if math.isnan(self.score) else self.score

    def content(self) -> str:
        """Return the content that distinguishes a repeated output from a conflict."""
        return fingerprint([self.digest, self.known_score, self.cost])

    def body(self) -> dict[str, Any]:
        """Return the same as JSON data, with the digest in place of the label."""
        found: dict[str, Any] = {"class": self.number, "digest": self.digest}
        if not math.isnan(self.score):
            found["score"] = self.score
        if self.chances:
            found["chances"] = list(self.chances)
        if self.cost is not None:
            found["cost"] = self.cost
        return found


class Progress(NamedTuple):
    """A round in progress. Immutable: every output creates a new one."""

    told: tuple[Told, ...] = ()
    next: int | None = 0  # the stage to call; None: no further one, only learning is left
    chance: float = 1.0  # of the coin that the policy has tossed; policies that name stages weigh with it
    first: int = NOT_CALLED  # the stage whose answer it was about
    group: str | None = None

    @property
    def stopped(self) -> bool:
        """Whether no further stage is called."""
        return self.next is None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the labels so far."""
        return tuple([one.number for one in self.told])

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what a policy is shown: the numbers of the labels, and the scores."""
        numbers = np.array([one.number for one in self.told], dtype=np.int64)
        return freeze(numbers), freeze(np.array([one.score for one in self.told], dtype=np.float64))

    def by_stage(self, stages: int, salt: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for each stage, -1 and NaN for those that were not called; with a salt, numbers that last."""
        numbers, scores = np.full(stages, NOT_CALLED, dtype=np.int64), np.full(stages, math.nan)
        own = self.numbers
        if salt is not None:
            own = tuple(lasting_numbers([one.digest for one in self.told], own, salt))
        for one, number in zip(self.told, own):
            numbers[one.stage], scores[one.stage] = number, one.score
        return freeze(numbers), freeze(scores)

    def awaits_comparison(self) -> bool:
        """Return whether a comparison that was drawn by lot has not been learned."""
        return is_open(self.chance) and (self.next is not None or self.told[-1].stage != self.first)

    def coin(self) -> dict[str, Any]:
        """Return what is stored of the coin, only where it says something."""
        return {"chance": self.chance, "first": self.first} if self.chance != 1.0 else {}

    def context(self) -> dict[str, Any]:
        """Return what is stored of the group."""
        return {} if self.group is None else {"group": self.group}

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data; stages are written where they are not 0, 1, 2, ...."""
        told = [
            one.body() if one.stage == place else {**one.body(), "stage": one.stage}
            for place, one in enumerate(self.told)
        ]
        found = {"told": told, "stopped": self.stopped, **self.coin(), **self.context()}
        if any(one.stage == self.first and one.number == NOT_CALLED for one in self.told):
            found["first"] = self.first  # its coin was certain then, and it must not be called again
        return found if self.next in (None, len(self.told)) else {**found, "next": self.next}


class Ask(NamedTuple):
    """The decision after one stage."""

    told: Told
    worth: float | None  # the sampled gain of going on, in money; None if the policy does not report it
    prices: list[float]  # of all stages, at that time
    more: bool
    chance: float = 1.0  # of the coin
    first: int = NOT_CALLED
    group: str | None = None


def alone(output: Any) -> Told:
    """Return the record of an output, independent of earlier ones."""
    if isinstance(output, (Failed, Exception)):
        return Told(Lost(FAILED), NOT_CALLED, math.nan, (), 0.0)
    scored = scored_of(output)
    cost = output.cost if isinstance(output, Costed) else None
    return Told(label_of(output), 0, math.nan if scored is None else scored.score, (), cost)


def told_of(
    output: Any, before: Progress, compare: Compare | None, last: bool, lenient: bool = False
) -> Told:
    """Return the record of an output that follows ``before``; ``last`` is true for the last stage.

    If ``lenient`` is true, a stage may fail, and what cannot be compared equals nothing.
    """
    bare, scored = alone(output), scored_of(output)
    label = bare.label
    stage = len(before.told) if before.next is None else before.next
    if bare.number == NOT_CALLED:
        if not lenient:
            raise ValueError(f"the output of a stage must be a label, got {short(output)}")
        return bare._replace(stage=stage)
    answered = [one for one in before.told if one.number != NOT_CALLED]
    earlier, numbers = [one.label for one in answered], [one.number for one in answered]
    if lenient and is_nan(label, compare):
        return bare._replace(number=max(numbers, default=-1) + 1, stage=stage)
    if any(isinstance(one, Lost) for one in earlier):
        if compare is not None:
            raise ValueError(
                "compare needs the labels of the stages before, which were told before this cascade was loaded: "
                "cancel the decision and begin it again"
            )
        number = _number_by_digest(label, before)
    else:
        number = number_of(label, earlier, numbers, compare)
    chances: tuple[float, ...] = ()
    if last and scored is not None and scored.chances is not None:
        chances = tuple(_chance(scored.chances, one, compare) for one in [*earlier, label])
    return bare._replace(number=number, chances=chances, stage=stage)


def _number_by_digest(label: Any, before: Progress) -> int:
    digest = fingerprint(label)
    for one in before.told:
        if one.digest == digest:
            return one.number
    return max(before.numbers, default=-1) + 1


def _chance(chances: Mapping[Any, float], label: Any, compare: Compare | None) -> float:
    """Return the probability of a label, 0 if it is not in the mapping."""
    found: Any = 0.0
    if compare is None and type(label) in PLAIN:
        found = chances.get(label, 0.0)
    else:
        for known, value in chances.items():
            lost = isinstance(label, Lost)
            if fingerprint(known) == label.digest if lost else not is_other(label, known, compare):
                found = value
                break
    try:
        given = float(found)
    except (TypeError, ValueError):
        given = math.nan
    if not 0.0 <= given <= 1.0:
        raise ValueError(f"chances must be probabilities, from 0 to 1, got {brief(found)}")
    return given


def told_from(body: Any, place: int, stages: int) -> Told:
    """Return the record of an output, the so many-th of its round, from an event or a saved round."""
    if not isinstance(body, dict) or not {"class", "digest"} <= set(body) <= TOLD:
        raise StateError(
            f"what was told must hold class and digest, and perhaps score, chances and cost: {short(body)}"
        )
    chances, number, digest = body.get("chances", []), body["class"], body["digest"]
    stage = body.get("stage", place)
    numbers = [body.get(name, 0.0) for name in ("score", "cost")]
    if not isinstance(chances, list) or len(chances) not in (0, place + 1):
        raise StateError(f"chances must be {place + 1} numbers, got {short(chances)}")
    real = all(type(value) in (int, float) and math.isfinite(value) for value in [*numbers, *chances])
    least = NOT_CALLED if digest == FAILED else 0
    sound = type(number) is int and least <= number <= place and isinstance(digest, str)
    sound = sound and type(stage) is int and 0 <= stage < stages
    if not real or not sound or body.get("cost", 0.0) < 0.0 or not all(0.0 <= p <= 1.0 for p in chances):
        raise StateError(f"what was told is damaged: {short(body)}")
    score, cost = float(body.get("score", math.nan)), body.get("cost")
    paid = None if cost is None else float(cost)
    return Told(Lost(digest), number, score, tuple(map(float, chances)), paid, stage)


def in_table(rows: Sequence[Sequence[Any]], truth: Sequence[Any], compare: Compare | None) -> dict[str, Any]:
    """Return labelled rows as JSON data: labels numbered by first match, scores, and the number of the true label."""
    classes, scores, right = [], [], []
    for row, target in zip(rows, truth):
        seen = Progress()
        for output in row:
            seen = Progress((*seen.told, told_of(output, seen, compare, False)))
        classes.append(list(seen.numbers))
        scores.append([one.known_score for one in seen.told])
        right.append(number_of(target, [one.label for one in seen.told], seen.numbers, compare))
    return {"classes": classes, "scores": scores, "right": right}


class AdaptiveGame(Promising, Staged, Plain):
    """One round that can stop after every stage. The ledger keeps its `Progress`.

    A policy is asked whether to go on (``go_on``, or ``gain`` to be compared with the price), or for the next stage
    (``next_stage``), which may begin anywhere and skip. Such a policy may toss a coin: its ``chance`` and the stage
    that it was about (``first``) are kept with the round, and told to it again by ``turn_to`` before every call.
    """

    kind = "Cascade"
    setting = SETTING
    opening = "begin"
    needs: tuple[str, ...] = ("update",)  # and one of go_on and next_stage
    stepwise = True
    words = STAGES  # the names of its stages
    form = Form(
        (
            *stage_arguments(scored=True),
            Argument("metric", "given", (bool,)),
            Argument("label", "given", (bool,)),
            Argument("setting", "data", (str,)),
        ),
        {"purse": (dict,)},
        counted="stage_costs",
    )

    promised_form = with_promise(form)

    def __init__(self, K: int, code: Comparer, timeout: float | None, promises: bool = False) -> None:
        self.K, self.code, self.timeout = K, code, timeout
        self.promises = promises  # then the terms have a promise, and the counts count it
        self.scored = frozenset[int]()  # the stages with scores, when that was looked at last
        self.alters = {"recost": self.recost, "calibrate": self.calibrate}
        if promises:
            self.form = self.promised_form
            self.alters |= {"promise": self.change, "self_check": self.check_again, "unseen": self.unseen}

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        numbers, scores = freeze(np.zeros(1, dtype=np.int64)), freeze(np.zeros(1))
        if has(policy, "next_stage"):
            asked, own = "next_stage", {"turn_to": (0, 0, 0.0), "lost": (), "spared": ()}
        else:
            asked, own = "gain" if hasattr(policy, "gain") else "go_on", {}
        more = {name: example for name, example in own.items() if has(policy, name)}
        return {asked: (0, numbers, scores), "update": (0, numbers, scores, scores), **more}, tuple(more)

    def bind(self, driver: Interpreted) -> None:
        self.driver, policy = driver, driver.policy
        self.policy = policy
        self.names_stages = has(policy, "next_stage")
        self.gains = hasattr(policy, "gain")  # whether it reports what it compares with the price
        self.ask = driver.method("next_stage" if self.names_stages else "gain" if self.gains else "go_on")
        self.update = driver.method("update")
        turns, loses = (self.names_stages and has(policy, name) for name in ("turn_to", "lost"))
        self.turn: Callable[..., Any] | None = driver.method("turn_to") if turns else None
        self.lose: Callable[..., Any] | None = driver.method("lost") if loses else None
        self.choosing_learns = learns_by_choosing(driver) or self.names_stages
        self.cancelling_learns = loses
        self.scratch = getattr(policy, "scratch", None) if driver.origin.name is not None else None
        self.refuses = {**AT_ONCE, **({} if has(policy, "calibrate") else NO_JUDGE)}
        if self.promises:
            del self.refuses["certificate"]

    def check(self, policy: Any, terms: Terms) -> None:
        built = getattr(policy, "c", None)
        if built is None:
            check_costs(policy, terms.costs)
        elif np.shape(built) != (self.K,) or not np.allclose(built, terms.units, rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"policy must be made for the costs stage_costs / error_cost = {terms.units}, "
                f"got one for {np.asarray(built).tolist()}"
            )
        if all(hasattr(policy, name) for name in MEMORY):
            _check_memory(policy, self.K)
        if self.promises:
            checked(vars(policy), self.K)

    # -- one round

    def choose(
        self, rng: np.random.Generator, counts: Counts, terms: Terms, group: str | None = None
    ) -> Choice:
        if not self.names_stages:
            return Choice(Progress(), ())
        begun = Progress(group=group)
        if terms.promise is not None and terms.promise.paused:
            return Choice(begun._replace(next=terms.promise.reference), ())
        self._turn(begun)
        numbers, scores = begun.by_stage(self.K)
        return Choice(self._named(self.ask(NOT_CALLED, numbers, scores, rng), begun), ())

    def _turn(self, seen: Progress) -> None:
        """Tell a policy that names stages which round comes now."""
        if self.turn is not None:
            self.turn(group_number(seen.group), seen.first, seen.chance)

    def _named(self, stage: Any, seen: Progress) -> Progress:
        """Return the round that goes on with the stage that the policy has named, with its coin."""
        told = seen.told
        called = {one.stage for one in told}
        whole = isinstance(stage, (int, np.integer)) and not isinstance(stage, bool)
        known = int(stage) if whole else self.K
        if not NOT_CALLED <= known < self.K or known in called or (known == NOT_CALLED and not told):
            raise ValueError(
                f"{type(self.policy).__name__}.next_stage must return a stage from 0 to {self.K - 1} that was not "
                f"called yet, or -1 after the first one, got {brief(stage)}"
            )
        fields = self.driver.fields()
        chance, first = float(fields.get("chance", 1.0)), int(fields.get("first", NOT_CALLED))
        return Progress(told, None if known == NOT_CALLED else known, chance, first, seen.group)

    def tolerates(self, decided: Progress, terms: Terms) -> bool:
        """Return whether the round goes on if the stage that is to be called fails: the reference answers then."""
        return self.promises and decided.next != terms.promise.reference

    def calls(self, decided: Progress) -> tuple[int, ...]:
        return () if decided.next is None else (decided.next,)

    def told_of(self, before: Progress, output: Any, counts: Counts, terms: Terms) -> Told:
        """Return the record of an output; ValueError, before anything is changed, if it cannot be used."""
        last = len(before.told) == self.K - 1 and not self.promises
        told = told_of(output, before, self.code.compare, last, self.tolerates(before, terms))
        seen = (*before.told, told)
        self.code.prove([one.label for one in seen if one.number != NOT_CALLED])
        check = getattr(self.policy, "check_last", None)
        if last and callable(check):  # whether the judge can use it
            scores = Progress(seen).arrays()[1]
            check(len(before.told), scores, len(told.chances) > 0, np.array(told.chances))
        if told.cost is not None:  # a sum that overflows, should the round stop here
            costs = _costs(seen, terms)
            counts.check_sum(add_up(costs), terms.last_paid(costs))
        return told

    def advance(
        self, before: Progress, told: Told, why: Any, terms: Terms, rng: np.random.Generator
    ) -> tuple[Progress, tuple[Ask, ...]]:
        """Show the policy an output, and let it decide."""
        seen = (*before.told, told)
        if self.names_stages:
            self._turn(before)
            now = before._replace(told=seen)
            numbers, scores = now.by_stage(self.K, self._salt(terms))
            after = self._named(self.ask(told.stage, numbers, scores, rng), now)
            ask = Ask(
                told, None, terms.prices, after.next is not None, after.chance, after.first, after.group
            )
        else:
            ask = self._ask(Progress(seen), terms, rng)
            after = Progress(seen, told.stage + 1 if ask.more else None)
        if why is None or len(why) != len(before.told):
            # Of a round that began before this object was loaded, only the outputs are known.
            why = tuple(Ask(one, None, terms.prices, True) for one in before.told)
        return after, (*why, ask)

    @staticmethod
    def _salt(terms: Terms) -> str | None:
        return None if terms.promise is None else terms.promise.salt

    def _ask(self, seen: Progress, terms: Terms, rng: np.random.Generator) -> Ask:
        k = len(seen.told) - 1
        if k == self.K - 1:
            return Ask(seen.told[k], None, terms.prices, False)
        numbers, scores = seen.arrays()
        said = self.ask(k, numbers, scores, rng)
        if self.gains:
            worth, more = float(said) * terms.error_cost, float(said) > terms.units[k + 1]
            return Ask(seen.told[k], worth, terms.prices, more)
        return Ask(seen.told[k], None, terms.prices, checked_bool(self.policy, said, "go_on"))

    def record(
        self, id: int, decided: Progress, outputs: Sequence[Any], terms: Terms, content: Content | None = None
    ) -> RoundRecord:
        """Return the record of a round that has stopped; all its outputs are in its progress."""
        told = decided.told
        if not decided.stopped:
            raise ValueError(f"decision {id} has not stopped yet: tell the output of stage {decided.next}")
        arm = told[-1].stage
        labels = [None if one.number == NOT_CALLED else one.label for one in told]
        own = self.names_stages or any(one.cost is not None for one in told)
        content = told[-1].content() if content is None else content
        scores = tuple(one.known_score for one in told)
        differ = self._by_stage(decided) if self.names_stages else pattern(decided.numbers)
        answers = labels
        if self.promises and terms.promise.background and is_open(decided.chance):  # it has gone out already
            arm, answers = decided.first, [labels[[one.stage for one in told].index(decided.first)]]
        costs = _costs(told, terms) if own else None
        return RoundRecord(id, arm, answers, labels, content, differ, None, costs, scores=scores)

    def teach(
        self, decided: Progress, record: RoundRecord, counts: Counts, terms: Terms, rng: np.random.Generator
    ) -> Counts:
        price(record, terms)
        if terms.promise is not None:
            record.last = self._alone(decided, terms)
        arm = record.arm
        by_stage = self.names_stages
        numbers, scores = decided.by_stage(self.K, self._salt(terms)) if by_stage else decided.arrays()
        chances = freeze(np.array(decided.told[-1].chances, dtype=np.float64))
        self._turn(decided)
        self.update(decided.told[-1].stage, numbers, scores, chances, rng)
        if not self.names_stages:
            return counts.after_round(arm, record.differ, record.cost, terms.savings[arm], record.last)
        called = {one.stage for one in decided.told}
        saved = add_up(cost for stage, cost in enumerate(terms.prices) if stage not in called)
        # The counts know comparisons of the stages up to one only.
        after = counts.after_round(arm, None, record.cost, saved, record.last)
        if terms.promise is None:
            return after
        return after._replace(promise=self._kept(decided, record, after, terms))

    @staticmethod
    def _alone(decided: Progress, terms: Terms) -> float:
        """Return what the reference alone would have cost: what it did if it was called, else its stated price."""
        R = terms.promise.reference
        paid = [one.cost for one in decided.told if one.stage == R and one.cost is not None]
        return float(paid[0] if paid else terms.prices[R])

    def _kept(self, decided: Progress, record: RoundRecord, counts: Counts, terms: Terms) -> PromiseCounts:
        """Count a round of a promise."""
        promised, chance = terms.promise, decided.chance
        by = {one.stage: one for one in decided.told}
        last, stated = by.get(promised.reference), terms.prices[promised.reference]
        drawn = decided.awaits_comparison()
        estimate = 0.0
        if drawn and last is None:  # the reference was replaced meanwhile
            self.lose()  # type: ignore[misc]
            estimate = weight(chance, promised.background)
        elif drawn and last is not None and by[decided.first].number != last.number and not promised.shadow:
            estimate = weight(chance, promised.background)
        alone = stated
        if last is not None and last.cost is not None:  # so that the mean is right for prices of each request
            alone += (last.cost - stated) / (chance if drawn and not promised.shadow else 1.0)
        cheap = record.arm != promised.reference
        more = Share(1, int(cheap), int(drawn), estimate, record.cost, alone)
        kept: PromiseCounts = counts.promise.plus(decided.group, more)
        if promised.shadow:
            kept = kept.after_shadow(kept.total.requests, self.driver.fields())
        kept = kept.after_round(self.driver.fields())
        if record.id % LOOK == 0:
            self._look_at_scores(self.driver.fields()["ranked"])
        return kept

    def _look_at_scores(self, ranked: np.ndarray) -> None:
        """Say once that a stage gives no scores any more."""
        known, self.scored = self.scored, frozenset(np.flatnonzero(ranked).tolist())
        for k in sorted(known - self.scored):
            words = f"{self.words.one(k)} gives no scores any more: from now on groups and labels alone tell its risk"
            log.warning("%s", words)

    def _by_stage(self, decided: Progress) -> np.ndarray:
        """Return the pairs of stages that differ, of those called."""
        numbers, _ = decided.by_stage(self.K)
        answered = numbers != NOT_CALLED
        return freeze(np.triu((numbers[:, None] != numbers) & answered[:, None] & answered, 1))

    def drop(self, decided: Progress, cost: float, counts: Counts) -> Counts | None:
        lost = self.lose is not None and decided.awaits_comparison()
        if self.lose is not None and lost:  # a comparison that is never answered counts as differing
            self._turn(decided)
            self.lose()
        if lost and counts.promise is not None and not self.policy.shadow:
            more = Share(estimate=weight(decided.chance, self.policy.background))
            counts = counts._replace(promise=counts.promise.plus(decided.group, more))
        return counts.after_failure(cost) if cost else counts if lost else None

    def paid(self, seen: Mapping[int, Any], terms: Terms) -> float:
        paid = {k: output for k, output in seen.items() if not isinstance(output, Failed)}
        return add_up(costs_of(list(paid.values()), [terms.prices[k] for k in paid]))

    # -- other ways to learn

    def recost(self, body: dict[str, Any], counts: Any, terms: Terms, rng: Any) -> Altered:
        """Take new prices; the policy keeps what it needs to learn again."""
        if terms.promise is not None:
            new = terms_of(body["stage_costs"], 1.0, self.K, False)
            return Altered(
                body, terms=new._replace(promise=self.repromised(body, terms.promise, new.stage_costs))
            )
        new = recosted(body, terms)
        if has(self.policy, "take_costs"):
            self.driver.alter(lambda policy: policy.take_costs(new.stage_costs / new.error_cost))
        return Altered(body, terms=new)

    def unseen(self, body: dict[str, Any], counts: Counts, terms: Terms, rng: Any) -> Altered:
        """Let an answer go out although the reference failed."""
        go_unseen(body, self.driver)
        kept = counts.promise.plus(body["group"], Share(1, 1))
        return Altered(body, counts._replace(promise=kept))

    def calibrate(self, body: dict[str, Any], counts: Any, terms: Any, rng: Any) -> Altered:
        """Learn from labelled samples how reliable the last stage is."""
        scores = np.array(body["scores"], dtype=float)  # NaN where there is none
        self.driver.alter(lambda policy: policy.calibrate(body["classes"], scores, body["right"]))
        return Altered(body)

    # -- what the log and a state hold

    def opened(self, decided: Progress) -> dict[str, Any]:
        said = {} if decided.next == 0 and not decided.coin() else {"next": decided.next, **decided.coin()}
        return {**said, **decided.context()}

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        return (body["group"],) if "group" in body else ()

    def decided_from(self, body: dict[str, Any], terms: Terms) -> Progress:
        return _coined(Progress((), body.get("next", 0), group=body.get("group")), body)

    def told(self, after: Progress) -> dict[str, Any]:
        """Return the body of the event of an output."""
        return {"stage": after.told[-1].stage, **after.told[-1].body(), "next": after.next, **after.coin()}

    def told_from(self, body: dict[str, Any], before: Progress) -> Told:
        """Return the output that an event holds; it must be of the stage that was to be run."""
        if before.next is None or body["stage"] != before.next:
            raise ValueError(f"stage {body['stage']} was not to be run")
        own = {key: value for key, value in body.items() if key not in ("next", "chance", "first")}
        return told_from(own, len(before.told), self.K)

    def overruled(self, after: Progress, body: dict[str, Any]) -> Progress:
        """Return the round as it was logged, where the policy decides differently now."""
        return _coined(after._replace(next=body["next"], chance=1.0, first=NOT_CALLED), body)

    def record_from(self, id: int, decided: Progress, body: dict[str, Any], terms: Terms) -> RoundRecord:
        return self.record(id, decided, (), terms, body["digest"])

    def encode(self, decided: Progress) -> dict[str, Any]:
        return decided.state()

    def decode(self, data: Any, terms: Terms) -> Progress:
        keys = {"told", "stopped"}
        if not isinstance(data, dict) or not keys <= set(data) <= {*keys, "next", "chance", "first", "group"}:
            raise StateError("the open round must hold exactly: told, stopped")
        if type(data["told"]) is not list or type(data["stopped"]) is not bool:
            raise StateError(f"an open round is of the wrong type: {short(data)}")
        told = tuple(told_from(body, place, self.K) for place, body in enumerate(data["told"]))
        most = -1
        for one in told:
            if one.number > most + 1:
                raise StateError(
                    "the labels of an open round must be numbered in the order in which they came"
                )
            most = max(most, one.number)
        following = None if data["stopped"] else data.get("next", len(told))
        over = following is None
        sound = over or (type(following) is int and 0 <= following < self.K)
        if len(told) > self.K or (over and not told) or not sound:
            raise StateError("an open round contradicts the number of stages")
        group = data.get("group")
        if not isinstance(group, (str, type(None))):
            raise StateError(f"the group of an open round is damaged: {short(data)}")
        return _coined(Progress(told, following, group=group), data)

    def state(self, counts: Counts, terms: Terms, kept: Mapping[int, Any]) -> dict[str, Any]:
        found = {**super().state(counts, terms, kept), "setting": SETTING}
        if terms.promise is not None:
            del found["error_cost"]
            found["promise"] = promise_state(terms.promise, counts.promise)
        return found

    def restore(self, body: dict[str, Any]) -> tuple[Counts, Terms, Mapping[int, Any]]:
        counts, terms = self.restored(body, 1.0 if self.promises else body["error_cost"])
        if not self.promises:
            return counts, terms, {}
        promised, kept = promise_from(body["promise"], self.K)
        return counts._replace(promise=kept), terms._replace(promise=promised), {}


def _check_memory(policy: Any, K: int) -> None:
    """Reject a policy that keeps rounds if its fields contradict each other: it would read beyond its tables."""
    rows, places = len(policy.arms), policy.reference.shape[1]
    sound = (
        policy.K == K
        and policy.memory > 0
        and policy.t >= 0
        and policy.held == min(policy.t, policy.memory) <= rows
        and ((policy.arms >= 0) & (policy.arms < K)).all()
        and ((policy.filled >= 0) & (policy.filled <= places)).all()
        and 0 <= getattr(policy, "judging", 0) < JUDGES
        and 0 <= getattr(policy, "distinct", 0) <= getattr(policy, "seen", np.zeros(1)).size
    )
    if not sound:
        raise StateError(f"the fields of {type(policy).__name__} contradict each other")


def _costs(told: Sequence[Told], terms: Terms) -> list[float]:
    """Return what the calls of a round cost."""
    return [terms.prices[one.stage] if one.cost is None else one.cost for one in told]


def _coined(seen: Progress, body: dict[str, Any]) -> Progress:
    """Return a round with the coin that an event or a state holds."""
    chance, first = body.get("chance", 1.0), body.get("first", NOT_CALLED)
    if type(chance) not in (int, float) or not math.isfinite(chance) or type(first) is not int:
        raise StateError(f"the coin of an open round is damaged: {short(body)}")
    return seen._replace(chance=float(chance), first=first)
