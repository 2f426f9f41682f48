"""A router that knows features of requests: what it is told, what labels add, and what it shows by group."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from weakfeedback.live.answers import is_other, labels_of, output_list
from weakfeedback.live.audits import all_rows
from weakfeedback.live.errors import Refused
from weakfeedback.live.game import View
from weakfeedback.live.games.context_router import POLICY, ContextRouterGame
from weakfeedback.live.parts import Part
from weakfeedback.live.report import between, percent, wilson
from weakfeedback.routing.yields import Yields
from weakfeedback.validate import brief, integer
from weakfeedback.words import Words

REST = "all others"
MISSING = "(none)"


@dataclass(frozen=True)
class GroupReport:
    """What is known of one group of requests.

    ``model`` answers there now; ``differed`` of ``compared`` comparisons of the first model with the settled one, and
    the 95 % Wilson interval. With the settled model being the first, nothing is compared.
    """

    feature: str
    group: str
    share: float
    model: int
    differed: float
    compared: float
    interval: tuple[float, float]

    def line(self, words: Words) -> str:
        """Return it in words."""
        whose = f"{self.feature} {self.group}: {percent(self.share)} of the requests"
        text = f"{whose}, answered by {words.one(self.model)}"
        if not self.compared:
            return text
        seen = f"{percent(self.differed / self.compared)} of {self.compared:.0f} comparisons"
        return f"{text}; {words.one(0)} differed in {seen} {between(self.interval)}"


@dataclass(frozen=True)
class YieldReport:
    """In what share of the disagreements of two models, i < j, j is really better, from labels, with its interval."""

    pair: tuple[int, int]
    labels: int
    better: int
    worse: int
    estimate: float
    low: float
    high: float

    def line(self, words: Words) -> str:
        """Return it in words."""
        i, j = self.pair
        seen = f"{words.one(j)} was right in {self.better} of {self.labels} labelled disagreements with {words.one(i)}"
        share = f"yield {self.estimate:.2f} ({self.low:.2f} to {self.high:.2f})"
        return f"{seen}, and that one in {self.worse}: {share}"


def yield_reports(counts: Any) -> tuple[YieldReport, ...]:
    """Return what is known of pairs with labels."""
    if counts is None:
        return ()
    found = Yields.of(*counts)
    numbers = (found.labels, found.better, found.worse, found.estimate, found.low, found.high)
    return tuple(
        YieldReport((i, j), *(one[i, j].item() for one in numbers))
        for i, j in combinations(range(len(found.labels)), 2)
        if found.labels[i, j]
    )


class Looks(Part):
    """What a router with ``context`` offers beside its rounds."""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features that may be known of a request, those of ``context``."""
        return tuple(self._game.names)

    def _request(self, context: Any, prices: Any) -> tuple[Any, ...]:
        """Return the context of a request; nothing if nothing is said of it."""
        if context is None and prices is None:
            return ()
        return (self._looking("context").request_of(context, prices),)

    def _looking(self, what: str) -> ContextRouterGame:
        """Return the game of a router with features; refuse ``what`` is for one to any other."""
        if not isinstance(self._game, ContextRouterGame):
            raise Refused(f"{what} is for a router with context=[...], not for {self._label}")
        return self._game

    def _requests(self, contexts: Any, size: int) -> list[tuple[Any, ...]] | None:
        """Return the contexts of a batch, None if nothing is said of them."""
        if contexts is None:
            return None
        found = [self._request(context, None) for context in contexts]
        if len(found) != size:
            raise ValueError(f"contexts must be {size}, one per sample, got {len(found)}")
        return found

    def yields(self, outputs: Any, truth: Any, labels: int = 100, alpha: float = 0.05) -> Yields:
        """Decide with what labelled disagreements yield: how often the dearer model is really better where two differ.

        Parameters
        ----------
        outputs : rows of K labels
            Answers of all models to samples like future ones.
        truth : labels, one per row
            Used only where models differ.
        labels : integer
            The first so many disagreements of each pair are used.
        alpha : number between 0 and 1
            How often the interval may miss the truth.

        The rule without labels takes every disagreement for an error of the cheaper model; this replaces that share, 1,
        by one standard error above the estimate. What was given before is replaced. With a journal this is an event.
        The bound on the money stays; the bound on the loss then depends on these labels.

        >>> from weakfeedback import Router
        >>> router = Router(2, prices=[1, 20], error_cost=100, context=["task"])
        >>> print(router.yields([["a", "b"]] * 40, ["a", "b", "c", "d"] * 10))
        models 0 and 1: 40 labelled disagreements, the dearer right in 10, the cheaper in 10: yield 0.00 (-0.22 to 0.22)
        """
        compare, most = self._looking("yields").code.compare, integer("labels", labels, 1)
        found = counted_yields(outputs, truth, most, alpha, len(self._stages), compare)
        self.take_yields(found)
        return found

    def take_yields(self, found: Yields) -> None:
        """Decide with these yields from now on."""
        self._looking("yields")
        body = {name: getattr(found, name).tolist() for name in ("labels", "better", "worse")}
        self._alter("yields", body)

    def _groups(self, view: View) -> tuple[GroupReport, ...]:
        """Return what is known by group, for every feature."""
        game, policy = self._game, view.policy
        if not isinstance(game, ContextRouterGame):
            return ()
        return tuple(group_reports(policy, game.names, view.counts.labels))


def counted_yields(outputs: Any, truth: Any, most: int, alpha: float, models: int, compare: Any) -> Yields:
    """Return the yields of answers of any type, compared as the router compares them."""
    rows, targets = all_rows(outputs, models, "model"), output_list("truth", truth)
    if len(rows) != len(targets):
        raise ValueError(f"truth must be {len(rows)} labels, one per row of outputs, got {len(targets)}")
    n, plus, minus = (np.zeros((models, models), dtype=np.int64) for _ in range(3))
    for row, target in zip(rows, targets):
        known = labels_of(row)
        for i, j in combinations(range(models), 2):
            if n[i, j] < most and is_other(known[i], known[j], compare):
                n[i, j] += 1
                plus[i, j] += not is_other(known[j], target, compare)
                minus[i, j] += not is_other(known[i], target, compare)
    return Yields.of(n, plus, minus, alpha)


def group_reports(policy: Any, names: Sequence[str], labels: Sequence[Sequence[Any]]) -> list[GroupReport]:
    """Return a report for every group that was seen, largest first within its feature."""
    found = []
    asked = copy.deepcopy(policy)  # it is asked what it would do, which leaves notes
    settled = int(asked.settled())
    for q, name in enumerate(names, start=1):
        known = labels[q - 1] if labels else ()
        seen = asked.seen[q]
        for g in sorted(np.flatnonzero(seen).tolist(), key=lambda g: (-seen[g], g)):
            asked.group[:] = asked.G
            asked.group[0], asked.group[q] = 0, g
            model = int(asked.lower(np.zeros(asked.K + 1, dtype=np.bool_)))
            differed = compared = 0.0
            if settled > 0:
                at = asked.pair(0, settled)
                differed, compared = float(asked.D1[at, q, g]), float(asked.N1[at, q, g])
            label = (MISSING if known[g] is None else str(known[g])) if g < len(known) else REST
            share = float(seen[g]) / max(asked.t, 1)
            found.append(
                GroupReport(name, label, share, model, differed, compared, wilson(differed, compared))
            )
    return found


def looks_words(policy: Any, words: Words) -> tuple[str, ...]:
    """Say what second looks have cost at most, and whether context says something, in words."""
    if not hasattr(policy, "extra"):
        return ()
    lines = []
    against, alone = "what Pay-to-compare would have spent by itself", policy.spent
    if policy.trusts_last:
        against, alone = f"what {words.last()} alone would have cost", policy.alone
    if alone > 0.0:
        lines.append(
            f"Second looks have added {percent(policy.extra / alone)} to {against} "
            f"(at most {percent(policy.omega)} and {policy.looks:g} calls of the last model)."
        )
    settled = int(policy.settled())
    if policy.Q and settled > 0:
        L = policy.L[policy.pair(0, settled)]
        weights = np.exp(L - L.max()) * np.array([1.0, *[1.0 / policy.Q] * policy.Q])
        lines.append(
            f"That context says nothing has a weight of {percent(float(weights[0] / weights.sum()))}."
        )
    return tuple(lines)


def belief_words(policy: Any, words: Words) -> str | None:
    """Say whom the router believes, and what that means; None if it believes nobody."""
    if not getattr(policy, "trusts_last", False):
        return None
    since = ", since its first conversation" if policy.trusts_talks else ""
    turn_off = ' (trust="nobody" does not)' if policy.trusts_talks else ""
    return (
        f"Believed without proof{since}: {words.last()}. Where a cheaper model differs from it, that counts as an "
        f"error of the cheaper one{turn_off}. If {words.last()} is not really better there, it is paid for nothing; "
        "labelled disagreements (yields) tell."
    )


def refuse_context(policy: Any, promised: bool, options: Mapping[str, Any]) -> None:
    """Refuse what does not go with ``context``."""
    if promised:
        raise ValueError("context goes with error_cost=..., not with a promise, which takes groups")
    if policy is not None and not (isinstance(policy, str) and policy.lower() == POLICY.lower()):
        raise ValueError(
            f"context goes with the policy {POLICY!r}, which it implies, not with {brief(policy)}"
        )
    if "features" in options:
        raise ValueError("features must be left out: they are those named in context")
