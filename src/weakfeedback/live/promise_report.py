"""The report of a promise in words and numbers, its certificate, and the explanation of a request."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weakfeedback.live.game import View
from weakfeedback.live.games.promise import (
    ALLOWANCE,
    DELTA,
    FIRST,
    OTHERS,
    OVERSPEND,
    SURE,
    USED_UP,
    Promised,
    Share,
    bracket,
    evidence,
    group_number,
    is_open,
)
from weakfeedback.live.report import Report, columns, percent
from weakfeedback.live.talks import talk_words, talks_of
from weakfeedback.words import STAGES, Words

if TYPE_CHECKING:
    import pandas as pd

EARLY = 1000  # requests before which a single run says little
NO_GROUP = "(none)"
SINGLE = "1 to 5 runs of 100 end above"
CONFIDENCE = 1.0 - DELTA


@dataclass(frozen=True)
class PromiseCertificate:
    """What the coins prove, whatever the models do. ``print`` it for a sentence.

    Attributes
    ----------
    differ_at_most : float
        The share of the answers so far that differ from the reference's is at most this; at all times at once.
    confidence : float
        With this confidence, over the coins.
    requests : int
        Answers so far.
    by_group : dict
        With ``groups="each"``: the same for each group, each with this confidence; None where there are too few.
    """

    differ_at_most: float
    confidence: float
    requests: int
    reference: str
    by_group: dict[str, float | None] = field(default_factory=dict)

    def __str__(self) -> str:
        sure = percent(self.confidence).replace(".0 %", " %")
        words = (
            f"at most {percent(self.differ_at_most)} of {self.requests:,} answers differ from {self.reference}'s "
            f"({sure}, whatever the models do)"
        )
        for name, bound in self.by_group.items():
            known = (
                "too few requests for a bound" if bound is None else f"at most {percent(bound)}, {sure} each"
            )
            words += f"\n  {name}: {known}"
        return words


@dataclass(frozen=True)
class PromiseReport(Report):
    """What a promise has cost and how it was kept. ``print`` it for words.

    Attributes
    ----------
    requests, pending, compared, blind : int
        Requests answered, open ones, those whose answer was compared by lot, and those that went out unseen although
        no coin allowed it (with a budget, or because the reference failed); these count as differing.
    spent, reference_alone, saved : float
        Money, what the reference alone would have cost (where it was not called, its stated price), and the
        difference, negative if it was cheaper alone.
    differ, differ_at_most : float
        The share of answers unlike the reference's: the estimate, and the bound that holds with 95 % at all times at
        once, whatever the models do.
    by_group : dict
        For each group: requests, spent, reference_alone, saved, differ, differ_at_most (None unless it is promised).
    settings : dict
        What is promised.
    state : str
        "learning", "kept", "at risk", "above", "shadow", "paused", "nothing to save".
    cheap : float
        The share of the requests that another model than the reference has answered.
    allowance, bucket : float or None
        How many answers may still differ before the reference has to answer everything, and the most that is kept.
    worth_below : float or None
        The saving is worth it while a differing answer costs less than this, at worst; ``worth_below_estimate`` by the
        estimate.
    model, risk_limit, before_the_call
        The model that answers now where its risk is below the limit, and whether that is decided before it is called.
    shadow : dict or None
        In shadow mode: ``saved``, ``saved_share``, ``differ``, ``cheap`` as they would have been, and ``safe_since``,
        the request since which it is safe to turn on (None: not yet).
    former_references : list
        References of before: each with its last request, ``until``, and when it was ``replaced``.
    conversations : dict or None
        How many there are, a request without one counted as one, and the share of them with an answer that differs,
        ``differ`` (estimate) and ``differ_at_most``: repeated questions make the share of requests look smaller.
    risk_since : int or None
        The request since which the allowance is used up, if the state is "at risk".
    self_check : dict or None
        How often the reference differs from itself, on the requests that another model answers: ``calls`` of it made
        twice, how many ``differed``, the share that ``differs`` (estimate), ``differs_at_least`` and
        ``differs_at_most`` (each 95 % sure, at all times at once), and what they have ``spent``.
    """

    row: ClassVar = "model"
    drawn: ClassVar = "differs"
    rare: ClassVar = ("conversations", "risk_since")

    requests: int
    spent: float
    reference_alone: float
    saved: float
    differ: float
    differ_at_most: float
    compared: int
    by_group: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    state: str
    reference: str
    pending: int
    cheap: float
    blind: int
    allowance: float | None
    bucket: float | None
    worth_below: float | None
    worth_below_estimate: float | None
    model: str | None
    risk_limit: float | None
    before_the_call: bool
    models: list[dict[str, Any]]
    compared_cost: float
    wasted: float
    shadow: dict[str, Any] | None
    self_check: dict[str, Any] | None
    former_references: list[dict[str, Any]]
    words: Words = STAGES
    conversations: dict[str, Any] | None = None
    risk_since: int | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the models beside the reference: price, comparisons, how often they differ from it."""
        import pandas as pd

        table = pd.DataFrame(self.models, columns=["name", "price", "compared", "differs", "usable"])
        return table.set_index("name").rename_axis(self.row)

    def __str__(self) -> str:
        talks = talk_words(self.conversations, self.words, self.reference)
        return "\n".join([*self._promise(), *self._money(), *talks, *self._groups(), *self.unknown()])

    def _promise(self) -> list[str]:
        set_to, eps, reference, money = self.settings, _eps(self.settings), self.reference, self.words.money
        price = None if set_to["error_cost"] is None else money(set_to["error_cost"])
        if set_to["budget"] is not None:
            amount = money(set_to["budget"])
            lines = [
                f"Budget: {amount} a request on average, and as few answers unlike {reference}'s as possible."
            ]
            least = min([one["price"] for one in self.models], default=0.0)
            if set_to["budget"] < least:
                lines.append(f"It cannot be kept: a call costs at least {money(least)}.")
        elif eps is not None:
            sure = "At any time, 95 % sure." if set_to["sure"] else f"On average over our coins; {SINGLE}."
            lines = [f"Promise: at least {_share(1 - eps)} of the answers as from {reference}. {sure}"]
            if price is not None:
                lines.append(f"And none whose risk times {price} is above the price of {reference}.")
        else:
            lines = [f"An answer unlike {reference}'s costs {price}; no share is promised."]
        if self.state == "paused":
            lines.append(self.pause())
        elif self.shadow is not None:
            lines += self._shadow(self.shadow)
            if not self.cheap:
                return lines
        requests = "1 request" if self.requests == 1 else f"{self.requests:,} requests"
        lines.append(
            f"{requests}: about {percent(self.differ)} differ (estimate); at most {percent(self.differ_at_most)}, 95 % "
            "sure, whatever the models do."
        )
        if self.blind:
            lines.append(f"{self.blind:,} of them went out unseen and count as differing.")
        if self.state == "learning":
            least = min([one["compared"] for one in self.models if one["usable"]])
            lines.append(
                f"Not enough compared yet: {min(least, FIRST)} of {FIRST}. {reference} answers until then."
            )
        elif self.state == "at risk":
            lines.append(self.at_risk("" if self.risk_since is None else f"request {self.risk_since:,}"))
        elif self.state == "nothing to save":
            lines.append(self.nothing())
        if self.is_early():
            lines.append(self.early())
        return lines

    def at_risk(self, since: str) -> str:
        """Say that the allowance is used up, and since when if that is known."""
        when = f" since {since}" if since else ""
        return f"The allowance is used up{when}: {self.reference} answers everything; it goes on by itself."

    def pause(self) -> str:
        """Say what a pause means."""
        return f"Paused: {self.reference} answers everything; nothing is compared, nothing is learned."

    def is_early(self) -> bool:
        """Whether a single run says little yet."""
        return self.requests < EARLY

    def early(self) -> str:
        """Say that it is too early."""
        return f"Too early: before {EARLY} requests a single run is easily above its promise."

    def rule(self) -> str:
        """Say which model answers, and where; empty while none does."""
        if self.model is None or self.risk_limit is None or self.shadow is not None:
            return ""
        early = ", decided before the call by the group alone" if self.before_the_call else ""
        return (
            f"{self.model} answers where its risk of differing is below {percent(self.risk_limit)}{early}; so far "
            f"{percent(self.cheap)} of the requests were not answered by {self.reference}."
        )

    def nothing(self) -> str:
        """Say why nothing can be saved."""
        reference, noun = self.reference, self.words.noun
        usable = [one for one in self.models if one["usable"]]
        if not usable:
            return f"Nothing can be saved: no other {noun} is clearly cheaper than {reference}, which answers all."
        if not any(one["compared"] for one in usable):
            return f"No {noun} was compared with {reference} yet, which answers everything."
        told = " and ".join(
            [f"{one['name']} differs from {reference} in {percent(one['differs'])}" for one in usable]
        )
        where = "its score does not tell where" if len(usable) == 1 else "no score tells where"
        cost = percent(max(0.0, -self.saved) / self.reference_alone) if self.reference_alone > 0 else "-"
        return f"{told} of the requests and {where}: {reference} answers everything. Finding out cost {cost}."

    def _shadow(self, found: dict[str, Any]) -> list[str]:
        saved, differ = percent(found["saved_share"]), percent(found["differ"])
        first = (
            f"Shadow: {self.reference} answers everything. In {found['requests']:,} requests {saved} would have been "
            f"saved, and about {differ} would have differed."
        )
        if found["safe_since"] is not None:
            return [first, f"Safe to turn on since request {found['safe_since']:,} (95 % sure)."]
        if _eps(self.settings) is None:
            return [first, "Whether it is safe to turn on is said of a share: agree=...."]
        return [first, f"Not yet safe to turn on: {found['why']}."]

    def _money(self) -> list[str]:
        if self.requests == 0 or self.reference_alone <= 0.0:
            return []
        reference, alone, money = self.reference, self.reference_alone, self.words.money
        word = "saved" if self.saved >= 0.0 else "lost"
        lines = [
            f"Money: {money(self.spent)}, {percent(self.spent / alone)} of {reference} alone ({money(alone)}): {word} "
            f"{money(abs(self.saved))} ({percent(abs(self.saved) / alone)})"
            + ("." if self.shadow else f"; comparisons by lot {percent(self.compared_cost / alone)}.")
        ]
        if self.settings["budget"] is None:
            more = f"{100 * OVERSPEND:.0f} % plus {ALLOWANCE} calls"
            lines.append(f"Never more than {reference} alone plus {more}, at stated prices.")
        if self.worth_below is not None:
            by = self.worth_below_estimate
            about = "" if by is None else f" ({money(by)} by the estimate)"
            lines.append(
                f"Worth it while a differing answer costs you less than {money(self.worth_below)}{about}."
            )
        if self.wasted > 0:
            lines.append(f"Spent on rounds that failed: {money(self.wasted)}.")
        if self.shadow is not None:
            return lines
        if rule := self.rule():
            lines.append(rule)
        if self.allowance is not None and self.bucket is not None:
            lines.append(
                f"Allowance {math.floor(self.allowance + 1e-9)} of {self.bucket:g}: so many answers may still "
                f"differ before {reference} has to answer everything."
            )
        return lines

    def _groups(self) -> list[str]:
        if len(self.by_group) < 2:
            return []
        each = self.settings["groups"] == "each"
        rows = [["group", "requests", "differ", "saved", *(["at most"] if each else [])]]
        for name, one in self.by_group.items():
            part = one["saved"] / one["reference_alone"] if one["reference_alone"] > 0 else math.nan
            bound = "too few" if one["differ_at_most"] is None else percent(one["differ_at_most"])
            cells = [name[:12], f"{one['requests']:,}", percent(one["differ"]), percent(part)]
            rows.append([*cells, bound] if each else cells)
        words = (
            "Each group has its own promise; each bound holds with 95 %."
            if each
            else "The promise is for all requests together; a group alone may differ more. "
            'groups="each" promises it to each.'
        )
        return ["", *columns((12, 9, 7, 7, 7), rows), words, ""]

    def unknown(self) -> list[str]:
        """Say what is not known."""
        reference, noun = self.reference, self.words.noun
        lines = [
            f"Up to request {one['until']:,}{_until(one['replaced'])} the reference was {one['reference']}."
            for one in self.former_references
        ]
        about = ""
        if self.shadow is None:
            about = f" But at most {percent(self.differ)} (estimate) more errors than {reference}."
        lines.append("The same is what your comparison calls equal: no looser than equally right.")
        lines.append(f"Not known: whether {reference} is right.{about}")
        found, eps = self.self_check, _eps(self.settings)
        if found is None or not found["calls"]:
            return [*lines, f"Not known: how often {reference} agrees with itself."]
        sigma = found["differs"]
        lines.append(
            f"{reference}, asked twice, gives the same answer in {percent(1 - sigma)} of the requests that a cheaper "
            f"{noun} answers (estimate; at least {percent(found['differs_at_least'])} of them differ, 95 % sure)."
        )
        if self.cheap > 0:
            own = self.differ / self.cheap
            so = f" So no more than a second call to {reference}." if own <= sigma else ""
            lines.append(
                f"There its answer differs from {reference}'s in {percent(own)} (estimate); {reference} would differ "
                f"from itself in {percent(sigma)}.{so}"
            )
        if sigma > 0:
            most = percent(1 - sigma / 2)
            lines.append(f"No {noun} can agree with {reference} in more than {most} of what it answers.")
        if eps is not None and sigma > 2 * eps:
            lines.append(
                f"So at least {percent(1 - 2 * eps / sigma)} of the requests must go to {reference}, whatever the "
                f"{noun}: lower its temperature, compare less strictly (numbers, fields), or promise less."
            )
        return lines


def _until(replaced: str | None) -> str:
    return "" if replaced is None else f", until {replaced}"


def time_of(at: int) -> str | None:
    """Return a time as people write it; None for 0, which is not known."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC" if at else None


def _eps(settings: dict[str, Any]) -> float | None:
    return None if settings["agree"] is None else 1.0 - settings["agree"]


def _share(share: float) -> str:
    return f"{100 * share:.6g} %"


def bound_of(policy: Any, buckets: Any) -> float:
    """Return U of some buckets together: at most so many of their answers differ, at all times at once, with 95 %."""
    A = (policy.A + policy.held_a)[buckets].sum(axis=0)
    return _bound_on_compared(A, policy.rates) + float(policy.blind[buckets].sum())


def _bound_on_compared(A: np.ndarray, rates: np.ndarray) -> float:
    need = -math.log(DELTA) + math.log(rates.size)
    most = float(((need + A) / rates).min())
    return bracket(0.0, most, lambda U: np.logaddexp.reduce(rates * U - A) <= need)[1]


def bounds(view: View) -> tuple[float, dict[str, float | None]]:
    """Return the bound on the share of all answers that differ, and those of groups that have a promise."""
    policy, counts, promised = view.policy, view.counts.promise, view.terms.promise
    n = counts.total.requests
    if promised.shadow and not counts.total.cheap:  # nothing but the reference's has gone out
        return 0.0, {}
    whole = min(bound_of(policy, slice(None)) / n, 1.0) if n else 1.0
    by: dict[str, float | None] = {}
    if promised.groups == "each":
        eps = float(policy.eps)
        # before the first comparison
        least = _bound_on_compared(np.zeros(policy.rates.size), policy.rates) / eps if eps > 0 else 0.0
        for name, share in counts.groups:
            b = policy.bucket_of(group_number(name)) if name != OTHERS else policy.n.size - 1
            few = share.requests < least
            by[NO_GROUP if name is None else name] = (
                None if few else min(bound_of(policy, slice(b, b + 1)) / share.requests, 1.0)
            )
    return whole, by


def certificate_of(view: View, words: Words) -> PromiseCertificate:
    """Return the certificate."""
    whole, by = bounds(view)
    name = words.one(view.terms.promise.reference)
    return PromiseCertificate(whole, CONFIDENCE, view.counts.promise.total.requests, name, by)


def make_promise_report(view: View, words: Words) -> PromiseReport:
    """Return the report from the counts and the policy."""
    policy, terms, kept = view.policy, view.terms, view.counts.promise
    promised: Promised = terms.promise
    total: Share = kept.total
    n, R = total.requests, promised.reference
    at_most, by_bound = bounds(view)
    blind = int(policy.blind.sum())
    quiet = promised.shadow and not total.cheap
    shown = 0.0 if quiet else total.estimate + blind
    second, checks = kept.second.spent, promised.self_check or kept.second.calls > 0
    spent, saved = total.spent + second, total.alone - total.spent - second
    eps = float(policy.eps)
    named = [b for b in range(policy.n.size) if policy.n[b] > 0]
    chosen = sorted({int(policy.model[b]) for b in named} - {-1})
    by_group = {}
    for group, one in kept.groups:
        called = NO_GROUP if group is None else group
        by_group[called] = {
            "requests": one.requests,
            "cheap": one.cheap / one.requests if one.requests else 0.0,
            "spent": one.spent,
            "reference_alone": one.alone,
            "saved": one.alone - one.spent,
            "differ": 0.0 if quiet or not one.requests else one.estimate / one.requests,
            "differ_at_most": by_bound.get(called),
        }
    models = []
    for k in range(policy.K):
        if k != R:
            m = int(min(policy.comparisons[k], policy.memory))
            models.append(
                {
                    "name": words.one(k),
                    "price": float(terms.prices[k]),
                    "compared": int(policy.comparisons[k]),
                    "differs": float(policy.D[k, :m].mean()) if m else math.nan,
                    "usable": bool(policy.is_usable(k)),
                }
            )
    left = sum(float(policy.left(b)) for b in named) if named else 0.0
    worst = at_most * n
    state = _state(policy, promised, chosen, shown, n, total)
    return PromiseReport(
        requests=n,
        spent=spent,
        reference_alone=total.alone,
        saved=saved,
        differ=shown / n if n else 0.0,
        differ_at_most=at_most,
        compared=total.compared,
        by_group=by_group,
        settings={**promised.settings(), "reference": words.one(R) if words.names else R},
        state=state,
        reference=words.one(R),
        pending=view.pending,
        cheap=total.cheap / n if n else 0.0,
        blind=blind,
        allowance=max(left, 0.0) if eps > 0 else None,
        bucket=float(policy.size_of_bucket()) * max(len(named), 1) if eps > 0 else None,
        worth_below=saved / worst if saved > 0 and worst > 0 and not quiet else None,
        worth_below_estimate=saved / shown if saved > 0 and shown > 0 else None,
        model=" or ".join(words.one(k) for k in chosen) if chosen else None,
        risk_limit=max((float(policy.limit[b]) for b in named if policy.model[b] >= 0), default=None),
        before_the_call=any(policy.model[b] >= 0 and policy.form[b] == 1 for b in named),
        models=models,
        compared_cost=total.compared * float(terms.prices[R]),
        wasted=float(view.counts.wasted),
        shadow=_shadow_of(policy, kept, promised, float(terms.prices[R])) if promised.shadow else None,
        self_check=_self_check(kept.second, total, promised) if checks else None,
        former_references=[
            {"reference": words.one(k), "until": t, "replaced": time_of(at)} for k, t, at in promised.since
        ],
        words=words,
        conversations=talks_of(view.counts),
        risk_since=kept.risk_since or None if state == "at risk" else None,
    )


def _state(policy: Any, promised: Promised, chosen: list[int], shown: float, n: int, total: Share) -> str:
    if promised.paused or promised.shadow:
        return "paused" if promised.paused else "shadow"
    others = [k for k in range(policy.K) if k != policy.R]
    usable = any(policy.is_usable(k) and policy.is_worth_learning(k, True) for k in others)
    if usable and (policy.t < FIRST or policy.is_learning()):
        return "learning"
    if not chosen and total.cheap == 0:
        return "nothing to save"
    # what comparisons under way may take is not used up
    if promised.agree is not None and float(policy.tokens[policy.n > 0].sum()) < USED_UP and chosen:
        return "at risk"
    if promised.agree is not None and shown > (1.0 - promised.agree) * n:
        return "above"
    return "kept"


def _shadow_of(policy: Any, kept: Any, promised: Promised, price: float) -> dict[str, Any]:
    would, whole = float(policy.would_spend), kept.total.requests
    alone, n = (policy.t - promised.begun[1]) * price, whole - promised.begun[0]
    differ = float(policy.would_differ) / n if n else 0.0
    eps, m = float(policy.eps), whole - (kept.shadow_from or whole)
    why = f"no answer of another model would have gone out in {n:,} requests"
    if eps > 0 and policy.would_answer > 0:
        why = (
            f"{percent(differ)} would have differed, {_share(eps)} may"
            if differ > eps
            else f"the evidence is {min(math.exp(min(evidence(m, differ * n, eps), 50.0)), 20.0):.2g} of 20"
        )
    return {
        "requests": n,
        "saved": alone - would,
        "saved_share": (alone - would) / alone if alone > 0 else 0.0,
        "differ": differ,
        # the least share against which the evidence has reached 20, at all times at once
        "differ_at_most": bracket(0.0, 1.0, lambda share: evidence(n, differ * n, share) < SURE, 50)[1],
        "cheap": float(policy.would_answer) / n if n else 0.0,
        "safe_since": kept.safe_since or None,
        "why": why,
    }


def _self_check(second: Any, total: Share, promised: Promised) -> dict[str, Any]:
    cheap = total.cheap
    return {
        "calls": second.calls,
        "differed": second.differed,
        "differs": min(second.share / cheap, 1.0) if cheap else 0.0,
        "differs_at_least": min(second.at_least() / cheap, 1.0) if cheap else 0.0,
        "differs_at_most": min(second.at_most(promised.least) / cheap, 1.0) if cheap else 1.0,
        "spent": second.spent,
    }


def promise_explanation(id: int, asks: Any, promised: Promised, words: Words) -> str:
    """Explain why each stage was called, and what went out."""
    reference = words.one(promised.reference)
    if not asks:
        return f"Decision {id}: begun."
    lines = []
    for ask in asks:
        k, chance = ask.told.stage, ask.chance
        if ask.told.number < 0:
            lines.append(f"{words.one(k)} failed: {reference} answers, and nothing was compared.")
            continue
        score = ask.told.known_score
        said = f"{words.one(k)} was called" + ("" if score is None else f" and gave the score {score:.4g}")
        if k == promised.reference:
            said += (
                ", and its answer went out"
                if not (promised.background and is_open(chance))
                else ", to compare"
            )
        elif k == ask.first and is_open(chance):
            drawn = "and was compared by lot" if ask.more else f"and went out without {reference}"
            said += f": its answer was inside the limit, was to be compared with chance {chance:.3g}, {drawn}"
        elif k == ask.first and chance == 0.0:
            said += f": its answer went out unseen, for the budget had no call of {reference} left"
        elif k == ask.first:
            said += f": its risk of differing was above the limit, so {reference} was asked"
        else:
            said += ", to compare it"
        lines.append(said + ".")
    end = "open" if asks[-1].more else "answered"
    return "\n".join([f"Decision {id}: {end} (Promise).", *lines])


def router_explanation(id: int, call: Any, promised: Promised, words: Words) -> str:
    """Explain which models were called, before any answer was known."""
    reference = words.one(promised.reference)
    names = [words.one(k) for k in call]
    said = f"Decision {id}: {' and '.join(names)} called, {names[-1]} answers (Promise)."
    if is_open(call.chance):
        first = words.one(call.first)
        drawn = "it was, by lot" if len(call) > 1 else "it was not"
        return f"{said}\nThe answer of {first} was to be compared with chance {call.chance:.3g}: {drawn}."
    if len(call) > 1:
        return f"{said}\nThe others were called to compare them with {reference}."
    if call[-1] == promised.reference:
        return f"{said}\nNo other {words.noun} was inside its limit, or the allowance had no room for its answer."
    return f"{said}\nIt went out unseen: the budget had no call of {reference} left."
