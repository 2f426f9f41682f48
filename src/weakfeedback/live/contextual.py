"""A cascade that looks at the sample before it decides how far to go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weakfeedback.contextual.features import context_table
from weakfeedback.live.answers import (
    Comparer,
    Metric,
    as_array,
)
from weakfeedback.live.cascading import Cascading
from weakfeedback.live.context_report import ContextualReport, context_explanation, make_context_report
from weakfeedback.live.contexts import Context, Contexts
from weakfeedback.live.core import PENDING_LIMIT
from weakfeedback.live.driver import Interpreted
from weakfeedback.live.form import Form
from weakfeedback.live.games.cascade import Answer, Counts, Decision, terms_of
from weakfeedback.live.games.comparing import check_functions, warm_body
from weakfeedback.live.games.contextual import ContextualGame
from weakfeedback.live.live import Live
from weakfeedback.live.numbers import check_metric, loss_of
from weakfeedback.live.rounds import Rounds
from weakfeedback.live.stages import Rows, elsewhere_or_async, make_stages
from weakfeedback.live.warning import warn_of_prices
from weakfeedback.settings.catalog import make_policy, option_names, policy_class
from weakfeedback.validate import brief, integer, number, vector

KEEP = 5000  # default number of observations


class ContextualCascade(Cascading, Live, Rounds):
    """Stages of increasing cost whose answers are never checked; learns for which samples to stop at which one.

    As `Cascade`, but how often two stages differ may depend on the sample. It is estimated for each pair of stages by
    a logistic regression on features of a context, a vector of numbers. The context is the sample itself unless given
    separately. This finds the best stage if weak dominance holds at the context (thesis, section 3.3) and the
    features can express the disagreements.

    The first rounds (see ``forced`` of USS-PD) go to the last stage. A context that is not finite, or whose length
    differs from that of the first one, raises ValueError and changes nothing. Safe to use from several threads.

    Parameters
    ----------
    stages, stage_costs, error_cost, combine, compare, timeout
        As for `Cascade`.
    metric, loss, scale
        As for `Cascade`, given the context: with ``loss="squared"`` a stage must be calibrated given the earlier ones
        and the context. "USS-mean" learns distances as they are. Other policies learn from pairs that are sampled to
        differ with the probability of their distance: then a number is drawn for every pair of stages called when a
        round is learned.
    policy : name or policy object, optional
        "USS-PD", "USS-mean", "USS-PD-lambdaI", "USS-PD-TS", "Fixed" or "Random" with their options, or an object made
        for the costs ``cumsum(stage_costs) / error_cost`` and the length of the features. If left out, "USS-PD", and
        "USS-mean" with ``loss`` or a ``metric``. "Supervised" is not available: it learns from labels, and there are
        none.
    features : map, optional
        Takes contexts, shape (n, d), and returns their features, shape (n, d'): ``QuadraticFeatures(bound)``, a
        ``PairFeatures``, or your own. If left out, ``QuadraticFeatures(sqrt(d))``, for numbers from -1 to 1. The
        quadratic map refuses contexts whose norm exceeds its bound.
    seed : integer >= 0, SeedSequence or Generator, optional
        As for `Cascade`.
    keep : integer >= 100, or None
        How many observations are kept individually. Older ones are kept together, as the quadratic expansion of
        their likelihood at the estimate of that time. This bounds memory, saved state and the time of a decision. With
        None all are kept: O(t d') numbers. A policy given as an object has its own limit.
    compiled, remember, names
        As for `Cascade`. With more than a few features use ``compiled=True``: interpreted regressions are slow.

    Examples
    --------
    Two tests that differ only where x > 0: there the second is worth its cost.

    >>> cascade = ContextualCascade([lambda x: False, lambda x: x[0] > 0], stage_costs=[1, 20], error_cost=100, seed=0)
    >>> contexts = np.random.default_rng(0).uniform(-1, 1, size=(800, 1))
    >>> arms = np.array([cascade(x).arm for x in contexts])[400:]
    >>> float(arms[contexts[400:, 0] > 0].mean()), float(arms[contexts[400:, 0] < -0.3].mean())
    (1.0, 0.0)
    """

    kind = ContextualGame.kind
    setting = ContextualGame.setting
    form = ContextualGame.form
    _game: ContextualGame
    _most = PENDING_LIMIT

    def __init__(
        self,
        stages: Sequence[Any] | int,
        stage_costs: Any,
        error_cost: float = 1.0,
        policy: Any = None,
        features: Any = None,
        seed: Any = None,
        *,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        loss: str | None = None,
        scale: float | None = None,
        timeout: float | None = None,
        keep: int | None = KEEP,
        compiled: bool = False,
        remember: int | None = None,
        names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        limit = None if timeout is None else number("timeout", timeout, above=0.0)
        self._stages = make_stages(stages, limit)
        K = len(self._stages)
        terms = terms_of(stage_costs, error_cost, K, combine is not None)
        check_functions(combine=combine, compare=compare)
        mapping = Contexts(features)
        kept = None if keep is None else integer("keep", keep, 100)
        squared = loss_of(loss, scale, metric, compare)
        check_metric(metric, compare)
        code = Comparer(compare, combine, squared or metric, proven=True)
        if policy is None:
            policy = "USS-PD" if code.metric is None else "USS-mean"
        if isinstance(policy, str) and getattr(policy_class("contextual", policy), "sees_truth", False):
            raise ValueError(f"policy must be one that needs no labels, got {brief(policy)}")
        told: dict[str, Any] = {"per_pair": True} if mapping.per_pair else {}
        if kept is not None:
            told["keep"] = kept

        def make(name: str, dimension: int, costs: np.ndarray, options: dict[str, Any]) -> Any:
            known = option_names("contextual", name)
            taken = {option: value for option, value in told.items() if option in known}
            return make_policy("contextual", name, costs, dimension, **{**taken, **options})

        def resized(driver: Interpreted, dimension: int) -> Any:
            origin = driver.origin
            return make(str(origin.name), dimension, self._core.terms.costs, origin.options or {})

        named = isinstance(policy, str)
        if loss is None and scale is not None:
            options["scale"] = scale  # of a policy
        game = ContextualGame(K, code, limit, mapping, kept, resized if named else None)
        # The length of the features is not known yet: this policy checks the options, and is replaced later.
        first = lambda name, **o: make(name, max(1, K * (K - 1) // 2), terms.costs, o)  # noqa: E731
        counts = Counts.of(K, moved=code.metric is not None)
        self._begin(game, policy, first, seed, options, compiled, remember, counts, terms)
        self.speak(names)
        if self._core.driver.origin.name not in (None, "Fixed", "Random"):  # one that learns where to stop
            warn_of_prices(terms.stage_costs[1:2], terms.error_cost, self._words)
        self._unready = elsewhere_or_async(self._stages)

    @classmethod
    def _form(cls, body: Any) -> Form:
        numeric = isinstance(body, dict) and "numbers" in body
        return ContextualGame.of_numbers if numeric else ContextualGame.form

    @property
    def policy(self) -> Any:
        """The policy object itself; None before the first context fixes the number of features."""
        named = self._game.make is not None
        return None if named and not self._core.terms.dimension else super().policy

    # -- one sample at a time

    def __call__(self, x: Any, context: Any = None) -> Answer:  # type: ignore[override]
        """Answer for one sample; its context is ``context`` or, if that is left out, ``x`` itself.

        A stage that raises cancels the decision; nothing is learned from it.
        """
        self._refuse_call(awaits=False)
        found: Answer = super().__call__(x, *self.context_of(x, context))
        return found

    async def acall(self, x: Any, context: Any = None) -> Answer:
        """Answer for one sample, awaiting the stages; synchronous stages run in a thread."""
        self._refuse_call(awaits=True)
        found: Answer = await self._play_async(x, self.context_of(x, context))
        return found

    # -- many samples

    def predict(self, X: Any, batch_size: int = 256, contexts: Any = None) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size, contexts)])

    def answers(self, X: Any, batch_size: int = 256, contexts: Any = None) -> list[Answer]:
        """Answer for many samples, ``batch_size`` at a time, as `Cascade.answers`.

        The contexts, one row per sample, are X itself if left out. All are checked before the first decision.
        """
        self._refuse_call(awaits=False)
        samples = Rows(X)
        if samples.size == 0:
            return []
        return self._answers(samples, self._many(X, contexts, samples.size), batch_size)

    # -- by hand

    def decide(self, x: Any) -> Decision:
        """Decide for a context; call the stages yourself and give their outputs to `feedback`."""
        id, decided = self._core.decide(self.context_of(x))
        if self._journal is not None:
            self._give_out(id)
        return Decision(id, decided[0])

    def warm_start(self, X: Any, outputs: Any) -> int:
        """Learn from logs in which all stages ran: ``outputs`` has a row of K labels per context in X.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing.
        """
        contexts = self._many(X)
        found, call = self._warm_rows(outputs, len(contexts))
        inputs = contexts[0][0] if contexts else self._core.terms.inputs
        body = {**warm_body(found), "phi": [phi.tolist() for _, phi in contexts], "inputs": inputs}
        self._alter("warm", body, call)
        return len(found)

    # -- contexts

    def context_of(self, x: Any, context: Any = None) -> Context:
        """Return the numbers of a context and its features, as a decision needs them; ValueError if they do not fit."""
        # No lock: the map is user code. If another thread fixes the lengths meanwhile, resize checks against them.
        name, given = ("x", x) if context is None else ("context", context)
        return self._mapped(name, vector(name, given).reshape(1, -1))[0]

    def _many(self, X: Any, contexts: Any = None, rows: int | None = None) -> list[Context]:
        name, given = ("X", X) if contexts is None else ("contexts", contexts)
        found = self._mapped(name, context_table(name, given))
        if rows is not None and len(found) != rows:
            raise ValueError(f"contexts must have {rows} rows, one per sample, got {len(found)}")
        return found

    def _mapped(self, name: str, table: np.ndarray) -> list[Context]:
        game, core = self._game, self._core
        return game.contexts.mapped(
            name, table, core.terms, core.driver.policy if game.make is None else None
        )

    # -- what was learned

    def report(self) -> ContextualReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        return self._core.view(lambda view: make_context_report(view, self._game, self._label, self._words))

    def certificate(self, alpha: float = 0.05) -> None:
        """Not available: which samples were compared depends on the samples, so nothing is proved for all of them."""
        self._offer("certificate")

    def explain(self, id: int) -> str:
        """Explain why a stage was chosen, for the last 1000 decisions made since this object was loaded."""
        record, terms = self._explained(id)
        how = str(getattr(self._core.driver.policy, "explained", ""))
        apart = self._game.code.metric is not None
        return context_explanation(int(id), record, terms, self._label, how, self._words, apart)
