"""Live objects that keep a promise: their arguments, changes while they run, second calls, and what they show."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from weakfeedback.live.answers import is_nan, is_other, label_of
from weakfeedback.live.errors import Refused
from weakfeedback.live.game import View
from weakfeedback.live.games.promise import (
    DELTA,
    FIRST_CHECKS,
    LATER,
    LIMITS,
    UNTOLD,
    Promised,
    Why,
    group_number,
    group_of,
    is_open,
    label_number,
)
from weakfeedback.live.parts import Part
from weakfeedback.live.promise_report import (
    PromiseCertificate,
    PromiseReport,
    certificate_of,
    make_promise_report,
)
from weakfeedback.validate import brief, flag, integer, number
from weakfeedback.words import Words, names_of

POLICY = "Promise"
BEFORE, NO_LABEL = 1, 12  # of the policy: the form before the call, and a label that is no feature
DEAREST = 1e300  # price: the sums of 100 million stay finite
UNSURE = "sure needs agree, the share that is to be sure; a budget cannot take its place"
SHADOWED = "background must be left out with shadow, where the reference always answers"
MEANINGS = (
    "agree=0.95 (at least 95 % of the answers are those of the last {noun}, or of reference=, as cheaply as possible), "
    "budget=... (money a request, on average; as few answers as possible differ) or error_cost=... (what a wrong "
    "answer costs, in the unit of the prices)"
)


def is_promised(policy: Any, agree: Any, budget: Any) -> bool:
    """Return whether these arguments ask for a promise; refuse those that contradict each other."""
    named = isinstance(policy, str) and policy.lower() == POLICY.lower()
    if type(policy).__name__ == POLICY and not isinstance(policy, type):
        raise ValueError(f"policy must be a name here: say agree=..., and leave the {POLICY} object out")
    if (agree is not None or budget is not None) and policy is not None and not named:
        told = "agree" if agree is not None else "budget"
        raise ValueError(
            f"{told} goes with the policy {POLICY!r}, which it implies, not with {brief(policy)}"
        )
    return named or agree is not None or budget is not None


def promise_of(
    prices: tuple[str, Sequence[float]], noun: str, limits: Sequence[Any], names: Any, **chosen: Any
) -> Promised:
    """Return what is promised by the arguments of a live object, validated; ``prices`` stand beside their name."""
    argument, costs = prices
    size = len(costs)
    agree, budget, error_cost = (
        None if value is None else number(name, value) for name, value in zip(LIMITS, limits)
    )
    if agree is None and budget is None and error_cost is None:
        raise ValueError(f"say what the answers are for: {MEANINGS.format(noun=noun)}")
    known = names_of(names, size, noun)
    reference = reference_called(chosen.pop("reference"), known, size, noun)
    reference = size - 1 if reference is None else reference
    check_reference(argument, costs, reference, Words(noun, known))
    for name in ("sure", "shadow", "background", "self_check"):
        chosen[name] = flag(name, chosen[name])
    if chosen["shadow"] and chosen["background"]:
        raise ValueError(SHADOWED)
    return Promised(agree, budget, error_cost, reference, names=known, **chosen)


def check_prices(argument: str, costs: Sequence[float]) -> None:
    """Reject prices whose sums might become infinite."""
    if max(costs) > DEAREST:
        raise ValueError(f"{argument} must be at most {DEAREST:g} with a promise, got {brief(list(costs))}")


def check_reference(argument: str, costs: Sequence[float], reference: int, words: Words) -> None:
    """Reject a reference that costs nothing, as what is promised then could not be loaded again, and huge prices."""
    check_prices(argument, costs)
    if costs[reference] <= 0.0:
        called = words.one(reference)
        raise ValueError(f"{argument} must be above 0 for the reference, {called}, got {brief(list(costs))}")


def refuse_unpromised(noun: str, policy: Any, error_cost: Any, needs: bool, **chosen: Any) -> float:
    """Return the price of an error of an object without a promise; refuse what goes with a promise only.

    ``needs`` says whether its policy needs the price of an error.
    """
    for name, value in chosen.items():
        if value not in (None, False):
            raise ValueError(f"{name} goes with a promise, agree=... or budget=..., got {brief(value)}")
    if error_cost is None and needs:
        for_whom = "" if policy is None else f" for {brief(policy)}"
        raise ValueError(
            f"error_cost must be given{for_whom}, or say what is promised: {MEANINGS.format(noun=noun)}"
        )
    return 1.0 if error_cost is None else number("error_cost", error_cost, above=0.0)


def reference_called(stage: Any, names: tuple[str, ...] | None, size: int, noun: str) -> int | None:
    """Return the number of a reference that was given by its name or number."""
    if stage is None:
        return None
    if isinstance(stage, str):
        if names is None or stage not in names:
            known = "" if names is None else f"one of {', '.join(names)}"
            known = known or f"a {noun}'s number, for there are no names"
            raise ValueError(f"reference must be {known}, got {brief(stage)}")
        return names.index(stage)
    return integer("reference", stage, 0, size - 1)


class Promises(Part):
    """What a cascade and a router that keep a promise offer beside their rounds."""

    @property
    def promised(self) -> Promised | None:
        """What is promised now; None if nothing is."""
        return getattr(self._core.terms, "promise", None)

    def _keeps(self, what: str) -> Promised:
        promised = self.promised
        if promised is None:
            raise Refused(f"{what} is for a promise, agree=... or budget=..., not for {self._label}")
        return promised

    def _context(self, group: Any) -> tuple[Any, ...]:
        """Return the context of a request of this group."""
        if group is None:
            return ()
        self._keeps("group")
        return (group_of(group),)

    def _contexts(self, groups: Any, size: int) -> list[tuple[Any, ...]]:
        """Return the contexts of a batch."""
        if groups is None:
            return [()] * size
        found = [self._context(group) for group in groups]
        if len(found) != size:
            raise ValueError(f"groups must be {size}, one per sample, got {len(found)}")
        return found

    def promise(
        self,
        agree: float | None = None,
        budget: float | None = None,
        error_cost: float | None = None,
        reference: int | str | None = None,
        shadow: bool | None = None,
        paused: bool | None = None,
        self_check: bool | None = None,
    ) -> None:
        """Promise something else from the next request on: another share, budget or price of an error, or reference.

        What was earned and spent before stays. ``budget`` takes the place of ``agree`` and ``error_cost``, and each of
        these that of ``budget``. After a change of the reference the comparisons with the old one are dropped, and it
        answers everything until some are made with the new one; open rounds that have called the new one already are
        cancelled. ``shadow`` lets the reference answer everything while the report says what would have been, or
        (False) turns the promise on; open decisions are cancelled. ``paused`` lets it answer everything, and nothing is
        learned, until it is False again. ``self_check`` begins or ends second calls of the reference. With a journal
        this is an event.
        """
        promised = self._keeps("promise")
        size = len(self._stages)
        body: dict[str, Any] = promised.limits()
        given = {"agree": agree, "budget": budget, "error_cost": error_cost}
        given = {name: number(name, value) for name, value in given.items() if value is not None}
        if "budget" in given:
            body = dict.fromkeys(LIMITS)
        elif given:
            body["budget"] = None
        body |= given
        chosen = reference_called(reference, self._words.names, size, self._noun)
        body["reference"] = promised.reference if chosen is None else chosen
        if chosen is not None:
            self._check_reference(self._core.terms.prices, chosen)
        modes = {"shadow": shadow, "paused": paused, "self_check": self_check}
        given = {name: flag(name, mode) for name, mode in modes.items() if mode is not None}
        if shadow and promised.background:
            raise ValueError(SHADOWED)
        if promised.sure and body["agree"] is None:
            raise ValueError(UNSURE)
        body |= {name: mode for name, mode in given.items() if mode != getattr(promised, name)}
        same = body == {**promised.limits(), "reference": promised.reference}
        body |= {} if body["reference"] == promised.reference else {"at": int(time.time())}
        if "shadow" in body:
            self._core.alter_anew("promise", body, "shadow mode")
            self._wait()
        elif chosen is not None and chosen != promised.reference:
            self._core.alter_anew("promise", body, "another reference", which=self._has_called(chosen))
            self._wait()
        elif not same:
            self._alter("promise", body)

    def _has_called(self, stage: int) -> Callable[[Any], bool]:
        """Return what tells the rounds that have called a stage: with that as their reference they could not end."""
        return lambda seen: self._game.stepwise and any(one.stage == stage for one in seen.told)

    def forfeit(self) -> None:
        """Give up the allowance: of a copy nobody knows how much of it was used up since it was made.

        Journals and the service do this by themselves where they find that they go on with a copy or a backup.
        """
        promised = self._keeps("forfeit")
        body = {**promised.limits(), "reference": promised.reference, "forfeit": True}
        self._alter("promise", body)

    # -- what is known

    def _promise_report(self, view: View) -> PromiseReport:
        return make_promise_report(view, self._words)

    def _promise_certificate(self, alpha: float) -> PromiseCertificate:
        if alpha != DELTA:
            raise ValueError(
                f"alpha must be {DELTA:g}, for which a promise keeps its books, got {brief(alpha)}"
            )
        return self._core.view(lambda view: certificate_of(view, self._words))

    def risk(self, id: int) -> float | None:
        """Return the estimated risk that the answer of a request differs: 0 if the reference gave it.

        For the last 1000 requests of this object; None for others, and where nothing was learned yet.
        """
        self._keeps("risk")
        return self._core.view(lambda view: risk_of(view, id))

    def unseen(self, group: Any = None) -> None:
        """Let an answer of another model go out because the reference failed: nobody compares it, so it counts as
        differing. Refused if the allowance is below 1.
        """
        self._keeps("unseen")
        self._alter("unseen", {"group": group_of(group)})

    # -- a reference that does not agree with itself

    def checks_again(self, id: int) -> float | None:
        """Return the chance with which the reference is to be called a second time for this request, None if it is not.

        For a promise with ``self_check=True``: its request must just have been compared. With this chance call the
        reference again, with the same input and no cache, and give its answer to `check_again`.
        """
        promised = self._keeps("checks_again")
        known, calls, policy = self._core.view(
            lambda view: (view.kept.get(id), view.counts.promise.second.calls, view.policy)
        )
        if not promised.self_check or promised.shadow or self._compared(known) is None:
            return None
        if policy.spent + policy.c[policy.R] > policy.allowed:
            return None
        return 1.0 if calls < FIRST_CHECKS else LATER

    def check_again(self, id: int, output: Any, rho: float, differs: bool | None = None) -> bool:
        """Count a second answer of the reference, asked for with chance ``rho``; return whether it differs.

        ``differs`` is for one that was compared elsewhere: then of ``output`` only a cost is read.
        """
        promised = self._keeps("check_again")
        known = self._compared(self._core.view(lambda view: view.kept.get(id)))
        if known is None:
            raise ValueError(f"decision {id} is not among the last ones that were compared by lot")
        (first, chance), label, compare = known, label_of(output), self._game.code.compare
        if differs is None and first is UNTOLD:
            raise ValueError(f"differs must be given: the answers of decision {id} were compared elsewhere")
        if differs is None:
            differs = is_nan(label, compare) or is_nan(first, compare) or is_other(first, label, compare)
        stated = self._core.terms.prices[promised.reference]
        cost = float(getattr(output, "cost", stated))
        rho = min(number("rho", rho, at_least=LATER), 1.0)
        body = {"chance": chance, "rho": rho, "differs": bool(differs), "cost": cost, "stated": stated}
        self._alter("self_check", body)
        return bool(differs)

    def _compared(self, known: Any) -> tuple[Any, float] | None:
        """Return the answer of the reference and the chance of its comparison, of a request compared by lot."""
        if not known:
            return None
        if isinstance(known, Why):  # of a router
            open_ = is_open(known.call.chance) and len(known.call) > 1
            return (known.label, known.call.chance) if open_ and known.learned else None
        ask = known[-1]
        if ask.more or not is_open(ask.chance) or ask.told.stage == ask.first:
            return None
        return ask.told.label, ask.chance

    def _check_self(self, id: int, x: Any) -> None:
        rho = self.checks_again(id)
        if rho is not None and tossed(rho):
            with suppress(Exception):  # the answer stands, and without a second one there is nothing to count
                self.check_again(id, self._reference_stage().one(x, ()), rho)

    async def _check_self_async(self, id: int, x: Any) -> None:
        rho = self.checks_again(id)
        if rho is not None and tossed(rho):
            with suppress(Exception):
                self.check_again(id, await self._reference_stage().one_async(x, ()), rho)

    def _reference_stage(self) -> Any:
        return self._stages[self._keeps("self_check").reference]


def risk_of(view: View, id: int) -> float | None:
    """Return the estimated risk of the answer of a request."""
    known, policy, promised = view.kept.get(id), view.policy, view.terms.promise
    if not known:
        return None
    if isinstance(known, Why):
        k, group = known.call[-1], known.call.group
        form, score, label = BEFORE, math.nan, NO_LABEL
    else:
        early = promised.background and is_open(known[-1].chance)
        ask = next((one for one in known if one.told.stage == one.first), known[-1]) if early else known[-1]
        k, group, score = ask.told.stage, known[0].group, ask.told.score
        form = int(policy.form[policy.bucket_of(group_number(group))])
        label = policy.slot_of_label(label_number(ask.told.digest, promised.salt))
    if k == promised.reference:
        return 0.0
    scored = not math.isnan(score)
    slot = policy.slot_of_group(group_number(group))
    return float(policy.risk(form, k, score if scored else 0.0, scored, label, slot))


def tossed(chance: float) -> bool:
    """Return True with this chance, by the entropy of the operating system: no draw of the policy is used."""
    return int.from_bytes(os.urandom(7)) < chance * 2.0**56
