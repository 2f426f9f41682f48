"""What a promise adds to the game of a live object: who is promised what, groups, labels that last, and counts."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.live.answers import VAGUE, short
from weakfeedback.live.driver import Interpreted
from weakfeedback.live.errors import Refused
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Altered
from weakfeedback.live.games.comparing import finite
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief, integer

# Those of the policy, which is loaded when it is needed.
BUCKETS = 64
PASSING = 2**32
FIRST = 50
OVERSPEND = 0.05
ALLOWANCE = 50
DELTA = 0.05
USED_UP = 0.5  # tokens below which the reference answers nearly everything
SHADOW_LEAST, SURE_LEAST = 0.03, 0.25

NAMED = BUCKETS - 1  # groups that are shown by name, and that can have a promise of their own
OTHERS = "other"  # all further groups together
LENGTH = 200  # characters of a group's name
SURE = math.log(20.0)  # of an e-process that is believed
BETS = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])  # rates of the e-process of shadow mode
LOWER = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5])  # and of the bound on what differs from itself
UPPER = np.array([0.95, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.04])
FIRST_CHECKS = 50  # comparisons after each of which the reference is called a second time,
LATER = 0.25  # then with this chance
LIMITS = ("agree", "budget", "error_cost")
COUNTED = (
    *("n", "open", "blind", "calls", "comparisons"),
    *("label", "place", "call_label", "call_group", "asked"),
)
CHOSEN = (*LIMITS, "reference", "sure", "groups", "shadow", "background", "self_check", "names")


class Former(NamedTuple):
    """A reference of before, its last request, and when it was replaced, in seconds since 1970; 0: not known."""

    reference: int
    until: int
    at: int = 0


class Promised(NamedTuple):
    """What is promised: part of the prices, so that it changes by an event."""

    agree: float | None
    budget: float | None
    error_cost: float | None
    reference: int
    sure: bool = False
    groups: str | None = None  # "each"
    shadow: bool = False
    background: bool = False
    self_check: bool = False
    names: tuple[str, ...] | None = None
    salt: str = ""  # with which labels are hashed
    since: tuple[Former, ...] = ()  # earlier references
    paused: bool = False  # the reference answers everything, and nothing is learned
    begun: tuple[int, int] = (0, 0)  # requests, and those that the policy knows, before the present shadow

    @property
    def least(self) -> float:
        """The smallest chance of a comparison."""
        return SURE_LEAST if self.sure else SHADOW_LEAST

    def limits(self) -> dict[str, float | None]:
        """Return what sets the limit."""
        return {name: getattr(self, name) for name in LIMITS}

    def options(self) -> dict[str, Any]:
        """Return the options of the policy."""
        more = {name: getattr(self, name) for name in ("reference", "sure", "groups", "shadow", "background")}
        return {**self.limits(), **more}

    def settings(self) -> dict[str, Any]:
        """Return everything that a user has chosen, as JSON data."""
        found = {name: getattr(self, name) for name in CHOSEN}
        return {**found, "names": None if self.names is None else list(self.names)}


class Share(NamedTuple):
    """Counts of one group."""

    requests: int = 0
    cheap: int = 0  # answered by another model than the reference
    compared: int = 0  # by lot
    estimate: float = 0.0  # of the answers that differ
    spent: float = 0.0
    alone: float = 0.0  # what the reference alone would have cost

    def plus(self, other: Share) -> Share:
        """Return the sums."""
        return Share._make(finite(one + more) for one, more in zip(self, other))


class Second(NamedTuple):
    """What second calls of the reference have shown."""

    calls: int = 0
    differed: int = 0
    share: float = 0.0  # Shat: how often it would have differed from itself where a cheap answer went out
    spent: float = 0.0
    bets: tuple[float, ...] = (0.0,) * LOWER.size  # of the lower bound,
    caps: tuple[float, ...] = (0.0,) * UPPER.size  # and of the upper one

    def after(
        self, pi: float, rho: float, differs: bool, cost: float, least: float, background: bool
    ) -> Second:
        """Count a second call, made with chance rho after a comparison made with chance pi, of at least ``least``.

        In the background the compared answer goes out, too, and counts.
        """
        bets, caps, w = self.bets, self.caps, weight(pi, background) / rho
        if differs:
            lower, upper = LOWER, upper_rates(least)
            won = np.expm1(lower) / (pi * rho) if background else -np.expm1(-lower) * w
            lost = -np.expm1(-upper) / (pi * rho) if background else np.expm1(upper) * w
            bets = tuple((np.array(bets) + np.log1p(won)).tolist())
            caps = tuple((np.array(caps) - np.log1p(-lost)).tolist())
        share, spent = self.share + w * differs, finite(self.spent + cost)
        return Second(self.calls + 1, self.differed + differs, share, spent, bets, caps)

    def at_least(self) -> float:
        """Return how often it would have differed from itself at least, at all times at once, with 95 %."""
        bets = np.array(self.bets)
        high = (max(self.bets) + 1.0) / float(LOWER[0])
        return bracket(0.0, high, lambda S: _mean(bets - LOWER * S) > SURE)[0]

    def at_most(self, least: float) -> float:
        """Return how often at most, likewise."""
        rates, caps = upper_rates(least), np.array(self.caps)
        high = float(((SURE + math.log(rates.size) + caps) / rates).min())
        return bracket(0.0, high, lambda S: _mean(rates * S - caps) <= SURE)[0]


def upper_rates(least: float) -> np.ndarray:
    """Return the rates of the upper bound on what differs from itself, for the smallest chance of a comparison."""
    return np.asarray(UPPER * -math.log1p(-least * LATER))


def _mean(logs: np.ndarray) -> float:
    return float(np.logaddexp.reduce(logs)) - math.log(logs.size)


def bracket(
    low: float, high: float, is_below: Callable[[float], Any], halvings: int = 100
) -> tuple[float, float]:
    """Return two numbers between which a condition ends that holds from ``low`` on, below ``high``."""
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


class PromiseCounts(NamedTuple):
    """Counts of a promise. Immutable: a request creates new ones."""

    groups: tuple[tuple[str | None, Share], ...] = ()
    blind: int = 0  # answers that went out because the reference failed
    safe_since: int = 0  # in shadow mode: the request since which it is safe to turn on; 0: not yet
    shadow_from: int = 0  # and the first one on which a cheap answer would have gone out
    second: Second = Second()
    risk_since: int = 0  # the request since which the allowance is used up; 0: it is not

    @property
    def total(self) -> Share:
        """The sums over all groups."""
        return functools.reduce(Share.plus, [one for _, one in self.groups], Share())

    def plus(self, group: str | None, more: Share) -> PromiseCounts:
        """Add to the counts of a group; the first 63 are kept by name."""
        known = dict(self.groups)
        name = group if group in known or len(known) < NAMED else OTHERS
        known[name] = known.get(name, Share()).plus(more)
        return self._replace(groups=tuple(known.items()))

    def turned(self, before: Promised, now: Promised) -> PromiseCounts:
        """Return the counts after a change: a shadow begins without evidence."""
        return self if before.shadow == now.shadow else self._replace(safe_since=0, shadow_from=0)

    def after_shadow(self, requests: int, fields: Mapping[str, Any]) -> PromiseCounts:
        """Note since when it is safe to turn on: since the bound on the rules' mean rate stays at or below eps.

        Counted from the first cheap answer that would have gone out: before it nothing could have differed.
        """
        if fields["would_answer"] <= 0.0:
            return self
        start, eps = self.shadow_from or requests, float(fields["eps"])
        safe = eps > 0.0 and evidence(requests - start, float(fields["would_differ"]), eps) >= SURE
        since = (self.safe_since or requests) if safe else 0
        if (since, start) == (self.safe_since, self.shadow_from):
            return self
        return self._replace(safe_since=since, shadow_from=start)

    def after_round(self, fields: Mapping[str, Any]) -> PromiseCounts:
        """Note since when the allowance is used up."""
        used_up = fields["eps"] > 0.0 and fields["tokens"][fields["n"] > 0].sum() < USED_UP
        if used_up == (self.risk_since > 0):
            return self
        return self._replace(risk_since=self.total.requests if used_up else 0)

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        return {
            "groups": [[name, *share] for name, share in self.groups],
            "blind": self.blind,
            "safe_since": self.safe_since,
            "shadow_from": self.shadow_from,
            "second": [*self.second[:4], list(self.second.bets)],
            **({"second_most": list(self.second.caps)} if any(self.second.caps) else {}),
            **({"risk_since": self.risk_since} if self.risk_since else {}),
        }

    @classmethod
    def from_state(cls, state: Any) -> PromiseCounts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        numbers = ("blind", "safe_since", "shadow_from", "risk_since")
        if isinstance(state, dict):  # counts of before hold less
            state = {"shadow_from": 0, "risk_since": 0, "second_most": list(Second().caps), **state}
        lists = dict.fromkeys(("groups", "second", "second_most"), list)
        require("the promise's counts", state, {**lists, **dict.fromkeys(numbers, int)})
        try:
            *second, bets = state["second"]
            lasting = _amounts(bets, LOWER.size), _amounts(state["second_most"], UPPER.size)
            told = Second._make([*_amounts(second, len(Second._fields) - 2), *lasting])
            groups = tuple((name, _share(row)) for name, *row in state["groups"])
            sound = all(isinstance(name, (str, type(None))) for name, _ in groups)
            _amounts([state[name] for name in numbers], len(numbers))
        except (TypeError, ValueError):
            sound = False
        if not sound or len(groups) > BUCKETS:
            raise StateError("the counts of the promise are damaged")
        return cls(groups, second=told, **{name: state[name] for name in numbers})


def _amounts(values: Any, size: int, least: float = 0.0) -> tuple[Any, ...]:
    """Return so many finite numbers from ``least`` on, or raise ValueError."""
    fits = isinstance(values, list) and len(values) == size
    if not fits or not all(type(value) in (int, float) and least <= value < math.inf for value in values):
        raise ValueError(f"{size} numbers from {least:g} on are missing")
    return tuple(values)


def _share(row: list[Any]) -> Share:
    """Return the counts of a group, or raise ValueError.

    ``alone`` may be below 0: one comparison by lot, with a reference cheaper than stated, stands for many requests.
    """
    return Share(*_amounts(row[:-1], len(Share._fields) - 1), *_amounts(row[-1:], 1, -sys.float_info.max))


UNTOLD = object()  # in place of a label that was compared elsewhere


class Why(NamedTuple):
    """What explains the decision of a router, and what a second call of the reference is compared with."""

    call: Any  # the models called, with the coin
    label: Any = None  # of the reference
    learned: bool = False


def evidence(requests: int, differ: float, eps: float) -> float:
    """Return the logarithm of an e-value against "the rules so far would differ in eps or more, on average".

    ``differ`` is the number of answers that would have differed. For X in [0, 1] with mean d, given the past,
    E exp(-r X) <= exp(-(1 - exp(-r)) d): so exp((1 - exp(-r)) sum d - r sum X) is a supermartingale, whatever the data.
    """
    grown = -np.expm1(-BETS) * (eps * requests) - BETS * differ
    return float(np.logaddexp.reduce(grown)) - math.log(BETS.size)


def group_of(group: Any) -> str | None:
    """Return the name of a group that a user has given."""
    if group is None:
        return None
    if isinstance(group, (bool, np.bool_)) or not isinstance(group, (str, int, np.integer)):
        raise ValueError(f"group must be a string or an integer, got {brief(group)}")
    name = str(group)
    if not 0 < len(name) <= LENGTH:
        raise ValueError(f"group must be a name of 1 to {LENGTH} characters, got {brief(group)}")
    return name


def group_number(group: str | None) -> int:
    """Return the number by which the policy knows a group; 0 for requests without one."""
    if group is None:
        return 0
    return 1 + int.from_bytes(blake2b(group.encode("utf-8", "surrogatepass"), digest_size=7).digest())


def label_number(digest: str, salt: str) -> int:
    """Return the number of a label that lasts, of which only the salted hash is kept; a feature, not an identity."""
    if digest.startswith(VAGUE):
        return PASSING
    return int.from_bytes(blake2b(digest.encode(), key=bytes.fromhex(salt), digest_size=4).digest())


def lasting_numbers(digests: Sequence[str], numbers: Sequence[int], salt: str) -> list[int]:
    """Return lasting numbers of the labels of a round that are equal if and only if their numbers in the round are."""
    found: dict[int, int] = {}
    for digest, number in zip(digests, numbers):
        if number not in found:
            last = label_number(digest, salt) if number >= 0 else number
            found[number] = PASSING + number if last >= PASSING or last in found.values() else last
    return [found[number] for number in numbers]


def salt_of(rng: np.random.Generator) -> str:
    """Return a salt from the state of a generator, without a draw."""
    return blake2b(repr(rng.bit_generator.state).encode(), digest_size=16).hexdigest()


def is_open(chance: float) -> bool:
    """Return whether a coin was tossed that a comparison weighs with."""
    return 0.0 < chance < 1.0


def weight(chance: float, background: bool) -> float:
    """Return for how many answers a comparison stands."""
    return 1.0 / chance if background else (1.0 - chance) / chance


def checked(fields: Mapping[str, Any], K: int) -> None:
    """Reject a policy whose fields contradict each other: it would read beyond its tables."""
    rows = fields["memory"]
    sound = (
        fields["K"] == K
        and 0 <= fields["R"] < K
        and fields["D"].shape == fields["call_score"].shape == (K, rows)
        and fields["t"] >= 0
        and 0 <= fields["group_count"] <= fields["group_ids"].size
        and 0 <= fields["label_count"] <= fields["label_ids"].size
        and ((fields["model"] >= -1) & (fields["model"] < K)).all()
        and ((fields["ranked"] >= 0) & (fields["ranked"] <= fields["ranks"].shape[1])).all()
        and all((fields[name] >= 0).all() for name in COUNTED)
        and ((fields["form"] >= 0) & (fields["form"] <= 1)).all()
    )
    if not sound:
        raise StateError("the fields of Promise contradict each other")


def take_shadow(policy: Any, shadow: bool) -> None:
    """Let the reference answer everything from the next request on, or no longer; what would have been begins anew.

    No comparison may be under way: what it has reserved is known to the mode that it began in.
    """
    policy.shadow = shadow
    policy.would_answer = policy.would_differ = policy.would_spend = 0.0


def forfeit(policy: Any) -> None:
    """Keep the tokens of comparisons under way, and no others."""
    policy.tokens[:] = np.minimum(policy.tokens, policy.held)


def go_unseen(body: dict[str, Any], driver: Interpreted) -> None:
    """Count an answer that goes out although the reference failed, as differing; refused without allowance."""

    def count(policy: Any) -> None:
        policy.turn_to(group_number(body["group"]), -1, 1.0)
        if not policy.can_go_blind():
            raise Refused(
                "the reference failed, and the allowance has no room for an answer that nobody compares"
            )
        policy.go_blind()

    driver.alter(count)


class Promising:
    """How a promise changes, in every game that keeps one."""

    driver: Interpreted

    def change(self, body: dict[str, Any], counts: Any, terms: Any, rng: Any) -> Altered:
        """Promise another limit or another reference, from the next request on.

        With ``forfeit`` in the body the allowance is given up; ``shadow`` and ``paused`` stand there only if they
        change.
        """
        promised, requests = terms.promise, counts.promise.total.requests
        new = self._limited(promised, {name: body[name] for name in LIMITS})
        if body["reference"] != promised.reference:
            self.driver.alter(lambda policy: policy.take_reference(body["reference"]))
            since = (*promised.since, Former(promised.reference, requests, body.get("at", 0)))[-100:]
            new = new._replace(reference=body["reference"], since=since)
        if "self_check" in body:
            new = new._replace(self_check=body["self_check"])
        if body.get("forfeit"):
            self.driver.alter(forfeit)
        if "shadow" in body:
            self.driver.alter(lambda policy: take_shadow(policy, body["shadow"]))
            new = new._replace(shadow=body["shadow"], begun=(requests, int(self.driver.fields()["t"])))
        new = new._replace(paused=body.get("paused", promised.paused))
        kept = counts.promise.turned(promised, new)
        return Altered(body, counts._replace(promise=kept), terms._replace(promise=new))

    def _limited(self, promised: Promised, limits: dict[str, Any]) -> Promised:
        """Take other limits, if they are others; return what is promised then."""
        new = promised._replace(**limits)
        if new.limits() != promised.limits():
            self.driver.alter(lambda policy: policy.take_limits(**new.limits()))
        return new

    def repromised(self, body: dict[str, Any], promised: Promised, costs: np.ndarray) -> Promised:
        """Take other costs, and what an error costs now; return what is promised then."""
        self.driver.alter(lambda policy: policy.take_costs(costs))
        return self._limited(promised, {"error_cost": body["error_cost"]})

    def check_again(self, body: dict[str, Any], counts: Any, terms: Any, rng: Any) -> Altered:
        """Count a second call of the reference."""
        kept, promised = counts.promise, terms.promise
        self.driver.alter(lambda policy: setattr(policy, "spent", policy.spent + body["stated"]))
        told = (body["chance"], body["rho"], body["differs"], body["cost"])
        second = kept.second.after(*told, promised.least, promised.background)
        return Altered(body, counts._replace(promise=kept._replace(second=second)))


def promise_state(promised: Promised, counts: PromiseCounts) -> dict[str, Any]:
    """Return everything as JSON data."""
    more: dict[str, Any] = {"salt": promised.salt, "since": [list(pair) for pair in promised.since]}
    more |= {"paused": True} if promised.paused else {}
    more |= {"begun": list(promised.begun)} if any(promised.begun) else {}
    return {**promised.settings(), **more, "counts": counts.state()}


def promise_from(state: Any, K: int) -> tuple[Promised, PromiseCounts]:
    """Return what gave ``state``, or raise `StateError`."""
    keys = {*Promised._fields, "counts"}
    if isinstance(state, dict):
        state = {"paused": False, "begun": (0, 0), **state}  # written only where they say something
    if not isinstance(state, dict) or set(state) != keys:
        raise StateError(f"the promise must hold exactly: {', '.join(sorted(keys))}")
    try:
        bytes.fromhex(state["salt"])
        since = tuple(
            Former(integer("reference", one, 0, K - 1), *(integer("request", t, 0) for t in times))
            for one, *times in state["since"]
        )
        names = None if state["names"] is None else tuple(str(name) for name in state["names"])
        requests, known = (integer("request", t, 0) for t in state["begun"])
        if type(state["paused"]) is not bool:
            raise ValueError("paused must be True or False")
    except (TypeError, ValueError):
        raise StateError(f"the promise is damaged: {short(state)}") from None
    own = {name: state[name] for name in Promised._fields}
    own |= {"names": names, "since": since, "begun": (requests, known)}
    return Promised(**own), PromiseCounts.from_state(state["counts"])


def with_promise(form: Form) -> Form:
    """Return the form of a game that keeps a promise, which holds the price of an error."""
    arguments = tuple(one for one in form.arguments if one.name != "error_cost")
    other = {**form.other, "promise": (dict,)}
    return replace(form, arguments=(*arguments, *promise_arguments()), other=other)


def promise_arguments() -> tuple[Argument, ...]:
    """Return the arguments that say what is promised; those that may change have a state of their own."""
    reads = {name: (lambda body, name=name: body["promise"].get(name)) for name in CHOSEN}
    may_change = (*LIMITS, "reference", "shadow")
    return tuple(Argument(name, "data", read=reads[name], promised=name in may_change) for name in CHOSEN)
