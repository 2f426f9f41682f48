"""The game of a router that is told what is known of a request beforehand: its features, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contract.decisions import checked_call
from weakfeedback.live.answers import Comparer, short
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Altered, Choice
from weakfeedback.live.games.promise import group_of
from weakfeedback.live.games.router import Call, LayeredCall, RouterCounts, RouterGame, RouterTerms
from weakfeedback.live.storage import StateError
from weakfeedback.live.talks import Turn, turn_in
from weakfeedback.routing.yields import Yields
from weakfeedback.validate import brief, integer

POLICY = "Second-looks"


class Request(NamedTuple):
    """What is known of a request: a label for every feature, None if it is missing, and what it costs on each model."""

    labels: tuple[str | None, ...] = ()
    prices: tuple[float, ...] | None = None  # None: the stated ones


NOTHING = Request()


class ContextCall(LayeredCall):
    """The models called for a request, with what is known of it."""

    request: Request

    @classmethod
    def of(cls, call: Sequence[int], own: Call, groups: tuple[int, ...], request: Request) -> ContextCall:
        """Return the models called with everything that belongs to them."""
        found = cls(call, own, groups)
        found.request, found.prices = request, request.prices
        return found


class ContextRouterGame(RouterGame):
    """One decision of a router that knows features of a request. Groups are numbered as they come, and then no more."""

    needs: tuple[str, ...] = (*RouterGame.needs, "turn_to", "price")
    nothing = (NOTHING,)
    form = Form(
        (*RouterGame.form.arguments, Argument("context", "data", (list,))),
        {**RouterGame.form.other, "labels": (list,)},
        counted="prices",
    )

    def __init__(self, K: int, code: Comparer, timeout: float | None, names: tuple[str, ...]) -> None:
        super().__init__(K, code, timeout)
        self.names = names
        self.alters = {**self.alters, "yields": self.take_yields}

    # -- what a caller says of a request

    def request_of(self, context: Any, prices: Any) -> Request:
        """Return what is known of a request, validated."""
        if context is not None and not isinstance(context, Mapping):
            raise ValueError(f"context must be a table with {self._features()}, got {brief(context)}")
        given = {} if context is None else context
        unknown = [name for name in given if name not in self.names]
        if unknown:
            raise ValueError(f"context must be a table with {self._features()}, got {brief(unknown[0])}")
        labels = []
        for name in self.names:
            try:
                labels.append(group_of(given.get(name)))
            except ValueError as error:
                raise ValueError(f"context[{name!r}]: {error}") from None
        return Request(tuple(labels), self.prices_of(prices))

    def _features(self) -> str:
        return f"some of {', '.join(self.names)}" if self.names else "nothing: this router has no features"

    # -- one round

    def choose(  # type: ignore[override]
        self,
        rng: np.random.Generator,
        counts: RouterCounts,
        terms: RouterTerms,
        request: Request = NOTHING,
        played: ContextCall | None = None,
        turn: Turn | None = None,
    ) -> Choice:
        """Ask the policy which models to call for this request; in a replay, ``played`` were called instead."""
        self._believe(turn)
        known = self._known(counts, terms)
        counts, groups = self._numbered(counts, request)
        turn = None if turn is None else self.talks.look_up(turn)
        if turn is not None and turn.held is not None:
            made = self._stay(rng, counts, terms, known, turn, groups, played, request.prices)
            call = ContextCall.of(made.decided, made.decided.own, groups, request)
            call.said = turn
            return made._replace(decided=call, chosen=call)
        self._turn(LayeredCall((), (), groups))
        self._take_prices(request.prices, terms)
        models = np.flatnonzero(checked_call(self.policy, self.select(rng), self.K)).tolist()
        own = tuple(np.flatnonzero(self.driver.fields()["own"]).tolist())
        chosen = ContextCall.of(models, own, groups, request)
        call = chosen if played is None else ContextCall.of(played, played.own, groups, request)
        after = self._start(call, rng, counts, terms, request.prices)
        why = known._replace(call=call, prices=list(request.prices or terms.prices))
        return self._said(Choice(call, why, after, len(call) > 1, chosen), turn, request.prices)

    def _numbered(self, counts: RouterCounts, request: Request) -> tuple[RouterCounts, tuple[int, ...]]:
        """Return the number of the group of each feature, and the counts that know its label."""
        most = int(self.policy.G)
        known = list(counts.labels or ((),) * len(self.names))
        numbers = []
        for q, label in enumerate(request.labels or (None,) * len(self.names)):
            if label not in known[q] and len(known[q]) < most:
                known[q] = (*known[q], label)
            numbers.append(known[q].index(label) if label in known[q] else most)
        return counts._replace(labels=tuple(known)), tuple(numbers)

    # -- labels

    def take_yields(self, body: dict[str, Any], counts: RouterCounts, terms: Any, rng: Any) -> Altered:
        """Decide with what labelled disagreements yield from now on."""
        found = Yields.of(body["labels"], body["better"], body["worse"])
        self.driver.alter(lambda policy: policy.take_yields(found.cautious))
        return Altered(body, counts._replace(yields=(found.labels, found.better, found.worse)))

    # -- what the log and a state hold

    def opened(self, decided: ContextCall) -> dict[str, Any]:  # type: ignore[override]
        labels = decided.request.labels
        told = {name: label for name, label in zip(self.names, labels) if label is not None}
        return {**super().opened(decided), "groups": list(decided.groups), "context": told}

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        played = self._layered(body)
        return played.request, played, turn_in(body)

    def _layered(self, body: dict[str, Any]) -> ContextCall:
        groups = tuple(integer("a group", g, 0, int(self.policy.G)) for g in body["groups"])
        if len(groups) != len(self.names):
            raise ValueError(f"groups must be {len(self.names)} numbers, got {short(body['groups'])}")
        request = self.request_of(body["context"], body.get("prices"))
        found = ContextCall.of(self._models(body["call"]), self._models(body["own"]), groups, request)
        found.said = turn_in(body)
        return found

    def encode(self, decided: ContextCall) -> Any:  # type: ignore[override]
        return self.opened(decided)

    def decode(self, data: Any, terms: RouterTerms) -> Call:
        if not isinstance(data, dict) or not {"call", "own", "groups", "context"} <= data.keys():
            raise StateError(f"a decision is damaged: {short(data)}")
        found = self._layered(data)
        if len(found) < 2:
            raise StateError("a decision of one model alone waits for no feedback")
        return found

    def state(self, counts: RouterCounts, terms: RouterTerms, kept: Mapping[int, Any]) -> dict[str, Any]:
        found = super().state(counts, terms, kept)
        if counts.yields is not None:
            found["yields"] = [one.tolist() for one in counts.yields]
        return {**found, "context": list(self.names), "labels": [list(one) for one in counts.labels]}

    def restore(self, body: dict[str, Any]) -> tuple[RouterCounts, RouterTerms, Mapping[int, Any]]:
        counts, terms, kept = super().restore(body)
        labels = body["labels"]
        sound = len(labels) in (0, len(self.names)) and all(
            isinstance(one, list)
            and len(one) == len(set(map(repr, one))) <= self.policy.G
            and all(isinstance(label, (str, type(None))) for label in one)
            for one in labels
        )
        if not sound:
            raise StateError(f"the labels of groups are damaged: {short(labels)}")
        yields = None
        if "yields" in body:
            yields = tuple(np.array(one, dtype=np.int64) for one in body["yields"])
            if len(yields) != 3 or any(one.shape != (self.K, self.K) or (one < 0).any() for one in yields):
                raise StateError("the yields are damaged")
        return counts._replace(labels=tuple(map(tuple, labels)), yields=yields), terms, kept


def features_of(context: Any) -> tuple[str, ...]:
    """Return the names of features, validated.

    >>> features_of(["task", "tenant"])
    ('task', 'tenant')
    """
    names = tuple(context) if isinstance(context, (list, tuple)) else None
    if (
        names is None
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) < len(names)
    ):
        raise ValueError(f"context must be a list of different names of features, got {brief(context)}")
    return names
