"""Models of a running router that are added, removed or replaced: events of its journal, like new prices."""

from __future__ import annotations

import time
from bisect import bisect_right
from typing import Any

from weakfeedback.live.answers import costs_of
from weakfeedback.live.games.router import ComparisonRecord, RouterTerms, terms_of
from weakfeedback.live.parts import Part
from weakfeedback.live.stages import elsewhere_or_async, make_models
from weakfeedback.stats import add_up
from weakfeedback.validate import brief, integer, number
from weakfeedback.words import Words

FORMER = 16  # changes after which a round under way still knows its models


class Changing(Part):
    """What a router offers to change its models while it runs.

    What is known of the others stays, and the bound on the money begins a period, as with new prices. Comparisons under
    way are cancelled: their answers stand, and nothing is learned from them.
    """

    _since: int = 0  # the first decision about the present models
    _former: tuple[
        tuple[int, list[Any], list[float]], ...
    ] = ()  # earlier ones: first decision, models, prices

    def add_model(self, model: Any = None, *, price: float, name: str | None = None) -> int:
        """Add a model, in the order of the prices; return its number.

        Parameters
        ----------
        model : callable or fitted classifier
            Left out for a router whose models run elsewhere.
        price : number
            What a call costs.
        name : str, optional
            Needed if the others have names.

        >>> from weakfeedback import Router
        >>> router = Router(2, prices=[1, 20], error_cost=100, names=["small", "large"])
        >>> router.add_model(price=5, name="medium")
        1
        >>> router.remove_model("small")
        >>> router.prices
        [5.0, 20.0]
        """
        prices = self.prices
        at = bisect_right(prices, number("price", price, at_least=0.0))
        kept = [*range(at), -1, *range(at, len(prices))]
        self._change(kept, [*prices[:at], float(price), *prices[at:]], model, name)
        return at

    def remove_model(self, model: int | str) -> None:
        """Remove a model, by its number or name; of the others everything stays known."""
        k, prices = self._numbered(model), self.prices
        if len(prices) == 1:
            raise ValueError("the last model cannot be removed")
        self._change([j for j in range(len(prices)) if j != k], [p for j, p in enumerate(prices) if j != k])

    def replace_model(
        self, model: int | str, new: Any = None, *, price: float | None = None, name: str | None = None
    ) -> int:
        """Put another model in the place of one, by its number or name; return its number.

        Nothing is known of the new one. Without a ``price`` it costs what the old one did. A reference of a promise is
        replaced as one: comparisons with the old one are dropped.
        """
        k, prices = self._numbered(model), self.prices
        cost = prices[k] if price is None else number("price", price, at_least=0.0)
        left = [j for j in range(len(prices)) if j != k]
        others = [prices[j] for j in left]
        at = k if price is None else bisect_right(others, cost)
        named = name if name is not None or self._words.names is None else self._words.names[k]
        kept = [*left[:at], -1, *left[at:]]
        self._change(kept, [*others[:at], cost, *others[at:]], new, named, replaced=k)
        return at

    @property
    def prices(self) -> list[float]:
        """What a call of each model costs now."""
        return list(self._core.terms.prices)

    def _numbered(self, model: int | str) -> int:
        """Return the number of a model."""
        if not isinstance(model, str):
            return integer("model", model, 0, len(self._stages) - 1)
        names = self._words.names or ()
        if model not in names:
            raise ValueError(f"model must be one of {', '.join(names) or 'the numbers'}, got {brief(model)}")
        return names.index(model)

    def _change(
        self,
        kept: list[int],
        prices: list[float],
        model: Any = None,
        name: str | None = None,
        replaced: int | None = None,
    ) -> None:
        terms_of(prices, 1.0, len(kept))
        self._offer("models")
        body: dict[str, Any] = {"prices": prices, "kept": kept}
        names = self._other_names(kept, name)
        words = Words(self._words.noun, names, self._words.currency)
        if names is not None:
            body["names"] = list(names)
        if self._core.terms.promise is not None:
            body["reference"] = self._other_reference(kept, replaced)
            self._check_reference(prices, body["reference"], words)
            body["at"] = int(time.time())
        elif min(kept) >= 0:
            body["anew"] = True  # the rounds ahead begin again
            body["alike"] = True  # all pairs tell of each
        stages = self._other_stages(kept, model)

        def taken(first: int) -> None:  # readers look at the models first, so these change last
            before = (self._since, self._stages, earlier.prices)
            self._former = (*self._former, before)[-FORMER:]
            self._since = first
            self._use(words)
            self._failed = frozenset(kept.index(was) for was in self._failed if was in kept)
            self._stages = stages

        earlier: RouterTerms = self._core.terms
        self._core.alter_anew("models", body, "other models", taken)
        self._unready = elsewhere_or_async(stages)
        self._wait()

    def _other_names(self, kept: list[int], name: str | None) -> tuple[str, ...] | None:
        """Return the names of all models, checked."""
        known = self._words.names
        if known is None:
            if name is not None:
                raise ValueError("name must be left out: the other models have none")
            return None
        if -1 in kept and not (isinstance(name, str) and name and name.isprintable()):
            raise ValueError(f"name must be given, as for the other models, got {brief(name)}")
        names = tuple(str(name) if was < 0 else known[was] for was in kept)
        if len(set(names)) < len(names):
            raise ValueError(f"name must be another than those of the other models, got {brief(name)}")
        return names

    def _other_reference(self, kept: list[int], replaced: int | None) -> int:
        """Return the number of the reference of a promise then."""
        reference = self._core.terms.promise.reference
        if reference in kept:
            return kept.index(reference)
        if replaced is None:
            raise ValueError(
                "the reference cannot be removed: promise(reference=...) names another one before"
            )
        return kept.index(-1)

    def _other_stages(self, kept: list[int], model: Any) -> list[Any]:
        """Return the models to call then."""
        elsewhere = self._stages[0].elsewhere
        if -1 in kept and (model is None) != elsewhere:
            what = (
                "be left out: the others run elsewhere" if elsewhere else "be given: a callable or classifier"
            )
            raise ValueError(f"model must {what}, got {brief(model)}")
        if elsewhere:
            return make_models(len(kept), None)
        targets = [model if was < 0 else self._stages[was].target for was in kept]
        return make_models(targets, self._game.timeout)

    def seat(self, models: Any) -> None:
        """Call these models, None: elsewhere; their number may have changed since the journal that was read began."""
        stages = make_models(self._size if models is None else models, self._game.timeout)
        if len(stages) != self._size:
            raise ValueError(f"models must be {self._size}, as the journal says, got {len(stages)}")
        self._stages, self._unready, self._failed = stages, elsewhere_or_async(stages), frozenset[int]()
        promised = self._core.terms.promise  # the names of the beginning may be those of other models
        names = None if promised is None else promised.names
        self._use(Words(self._words.noun, names, self._words.currency))

    # -- rounds that were under way

    def _staged(self, id: int) -> list[Any]:
        """Return the models that a decision is about."""
        stages = self._stages
        return stages if id >= self._since else self._then(id)[1]

    def _then(self, id: int) -> tuple[int, list[Any], list[float]]:
        return next((one for one in reversed(self._former) if id >= one[0]), self._former[0])

    def _record(self, id: int, decided: Any, seen: dict[int, Any], failed: dict[int, Exception]) -> Any:
        if id >= self._since:
            return self._game.answered_by(id, decided, seen, failed, self._core.terms)
        prices = self._then(id)[2]
        record = ComparisonRecord(
            id, decided, (), None, outputs=[seen.get(k) for k in decided], failed=failed
        )
        record.cost = add_up(costs_of(list(seen.values()), [prices[k] for k in seen]))
        return record

    def _learn(self, records: list[Any]) -> None:
        super()._learn([one for one in records if one.id >= self._since])
