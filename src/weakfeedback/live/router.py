"""A live router for models that can be called alone: pay for a comparison only while it is worth its price."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.cascade.audit import Audit
from weakfeedback.cascade.certificate import Certificate, certify
from weakfeedback.live.answers import (
    Comparer,
    Content,
    Costed,
    Metric,
    as_array,
    content_of,
    costs_of,
    output_list,
    refuse_tolerance,
    sorted_pairs,
)
from weakfeedback.live.audits import audit_stage, rows_up_to, run_stages, teller
from weakfeedback.live.changing import Changing
from weakfeedback.live.core import ALONE
from weakfeedback.live.driver import has
from weakfeedback.live.errors import Refused, UnknownDecision
from weakfeedback.live.form import Form
from weakfeedback.live.game import View
from weakfeedback.live.games.comparing import check_functions, content_of_pairs, warm_body
from weakfeedback.live.games.context_router import POLICY as LOOKS
from weakfeedback.live.games.context_router import ContextRouterGame, features_of
from weakfeedback.live.games.promise import PromiseCounts, salt_of
from weakfeedback.live.games.promised_router import PromisedRouterGame
from weakfeedback.live.games.router import RouterAnswer, RouterCounts, RouterGame, terms_of
from weakfeedback.live.live import Live
from weakfeedback.live.looks import Looks, belief_words, looks_words, refuse_context, yield_reports
from weakfeedback.live.numbers import check_metric
from weakfeedback.live.promise import (
    POLICY,
    Promises,
    check_prices,
    is_promised,
    promise_of,
    refuse_unpromised,
)
from weakfeedback.live.promise_report import PromiseCertificate, router_explanation
from weakfeedback.live.rounds import Rounds
from weakfeedback.live.router_report import RouterReport, explanation, make_router_report
from weakfeedback.live.stages import Rows, elsewhere_or_async, make_models
from weakfeedback.live.talks import TTL, Turn, key_of, talk_words, talks_of, turn_of
from weakfeedback.live.warning import warn_of_prices, warn_of_saving
from weakfeedback.settings.catalog import make_policy
from weakfeedback.stats import add_up
from weakfeedback.validate import fraction, integer, number, vector
from weakfeedback.words import MODELS, prices_told_elsewhere

__all__ = ["Costed", "Router", "RouterAnswer", "RouterDecision", "RouterReport"]

DEFAULT = "Pay-to-compare"
UNPRICED = ("fixed-model",)  # needs no price of an error


@dataclass(frozen=True, slots=True)
class RouterDecision:
    """A decision: call the models of ``call`` and use the answer of ``answer``, the last of them.

    If there are several, give their outputs, in this order, as feedback under ``id``. A single model needs no feedback.
    ``turn``, of a conversation, is "first", "same" or "up": decided, as before, or moved to a dearer model.
    """

    id: int
    call: tuple[int, ...]
    answer: int
    turn = None  # no field: only a turn of a conversation has one


@dataclass(frozen=True, slots=True)
class TurnDecision(RouterDecision):
    """A decision on a turn of a conversation."""

    turn: Any


class Router(Changing, Promises, Looks, Live, Rounds):
    """Models of increasing price that can be called alone; learns which to trust, and compares only while that pays.

    With ``agree=0.95`` it promises instead that at least 95 % of the answers are those of the last model, whatever the
    models do, and calls a cheaper one where that saves most (policy "Promise", decided before the call).

    Every decision calls a set of models, usually one. The last of them answers, and is known before any call. The
    router learns how often two models differ. With the policy "Pay-to-compare" two things are guaranteed. Whatever the
    models answer, the router never spends more than the last model alone, plus 5 %, plus 50 calls. And, up to
    estimation errors, money plus errors are at most 5 % above those of always calling the last model.

    Safe to use from several threads. No lock is held while a model, ``compare`` or ``metric`` runs. Memory does not
    grow with the number of rounds.

    Parameters
    ----------
    models : K callables or fitted classifiers, or their number
        From the cheapest to the most expensive. A callable takes one sample and returns a label of any type, or
        ``Costed(label, cost)``. A number means that many models that run elsewhere: then use `decide` and `feedback`.
    prices : K non-decreasing numbers >= 0, the last > 0
        What a call of each model alone costs, in any unit of money.
    agree, budget, error_cost : numbers, or None
        What the answers are for; one of them must be given, as for `Cascade`. ``agree`` and ``budget`` imply "Promise".
    policy : name or policy object
        "Pay-to-compare", "Double-Thompson" or "Fixed-model" with their options, or an object made for
        ``prices / error_cost``, which belongs to the router from then on.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the policy's generator; Pay-to-compare draws nothing, unless there is a ``metric``.
    compare, metric : callables, optional
        As for `Cascade`: when two answers count as the same, or how far apart they are.
    context : names of features, optional
        What may be known of a request before any call, such as ``["task", "tenant"]``. Implies the policy
        "Second-looks", which goes down to a cheaper model for groups of requests in which it agrees, and never up.
        From its first conversation on such a router *believes the last model* (``trust``, an option of that policy):
        every request begins there, and goes down where a cheaper model agrees. The bound on the money stays, and money
        plus errors stay within 5 % of the last model alone; where it is not really better it is paid for nothing.
        ``trust="nobody"`` turns that off, ``trust="last"`` begins with it.
    timeout, compiled, remember, reference, names, sure, shadow, groups, self_check
        As for `Cascade`.

    Examples
    --------
    Two models that differ on one sample in ten; the second costs a fifth of an error more.

    >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 20], error_cost=100)
    >>> answers = [router(x % 10) for x in range(1000)]
    >>> router.settled(), router.comparisons, sum(len(answer.call) == 1 for answer in answers)
    (0, 29, 971)

    The same models, and a promise: they differ in a tenth, so half of the requests may go to the first one.

    >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 20], agree=0.95, seed=0)
    >>> answers = [router(x % 10) for x in range(1000)]
    >>> router.report().differ <= 0.05, router.report().saved > 0
    (True, True)

    Two tasks; the models differ in one of them only.

    >>> router = Router([lambda x: x % 4 == 1, lambda x: False], prices=[2, 20], error_cost=100, context=["task"])
    >>> for x in range(2000):
    ...     answer = router(x, context={"task": "hard" if x % 2 else "easy"})
    >>> [(one.group, one.model) for one in router.report().groups]
    [('easy', 0), ('hard', 1)]
    """

    kind = RouterGame.kind
    setting = RouterGame.setting
    form = RouterGame.form
    _noun = "model"
    _words = MODELS
    _whole = "router"
    _done = "the round is counted"
    _most = ALONE
    conversation_ttl = TTL  # seconds

    def __init__(
        self,
        models: Sequence[Any] | int,
        prices: Any,
        error_cost: float | None = None,
        policy: Any = None,
        seed: Any = None,
        *,
        agree: float | None = None,
        budget: float | None = None,
        reference: int | str | None = None,
        sure: bool = False,
        shadow: bool = False,
        groups: str | None = None,
        context: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        background: bool = False,
        self_check: bool = False,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        timeout: float | None = None,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        limit = None if timeout is None else number("timeout", timeout, above=0.0)
        self._stages = make_models(models, limit)
        K, more = len(self._stages), dict[str, Any]()
        stated = terms_of(prices, 1.0, K).prices  # wrong prices are named before what is missing
        promises = is_promised(policy, agree, budget)
        chosen = {"reference": reference, "sure": sure, "shadow": shadow, "groups": groups}
        chosen |= {"background": background, "self_check": self_check}
        features = None if context is None else features_of(context)
        if features is not None:
            refuse_context(policy, promises, options)
            policy, more = LOOKS, {"features": len(features)}
            more |= {} if "trust" in options else {"trust": "conversations"}
        if promises:
            refuse_metric(metric)
            promised = promise_of(
                ("prices", stated), self._noun, (agree, budget, error_cost), names, **chosen
            )
            policy, more, price = POLICY, {**promised.options(), "before": True}, 1.0
        else:
            needs = policy is None or (isinstance(policy, str) and policy.lower() not in UNPRICED)
            price = refuse_unpromised(self._noun, policy, error_cost, needs, **chosen)
        policy = DEFAULT if policy is None else policy
        terms = terms_of(prices, price, K)
        refuse_tolerance(options, compare)
        check_functions(compare=compare)
        check_metric(metric, compare)
        code = Comparer(compare, None, metric)
        game: RouterGame = (PromisedRouterGame if promises else RouterGame)(K, code, limit)
        if features is not None:
            game = ContextRouterGame(K, code, limit, features)
        make = lambda name, **o: make_policy(game.setting, name, terms.costs, **more, **o)  # noqa: E731
        counts = RouterCounts.of(terms.prices)
        counts = counts._replace(promise=PromiseCounts()) if promises else counts
        with prices_told_elsewhere():
            self._begin(game, policy, make, seed, options, compiled, remember, counts, terms)
        if promises:
            promised = promised._replace(salt=salt_of(self._core.rng))
            self._core.terms = terms._replace(promise=promised)
        self.speak(names)
        if promises:
            warn_of_saving(self._core.terms, self._words)
        elif self._core.driver.origin.name not in (None, "Fixed-model"):
            warn_of_prices(np.diff(terms.prices)[:1], price, self._words)
        self._unready = elsewhere_or_async(self._stages)

    @classmethod
    def _form(cls, body: Any) -> Form:
        known = body if isinstance(body, dict) else {}
        form = PromisedRouterGame.form if "promise" in known else RouterGame.form
        form = ContextRouterGame.form if "context" in known else form
        rare = {name: (list,) for name in ("conversations", "yields") if name in known}
        return dataclasses.replace(form, other={**form.other, **rare}) if rare else form

    @classmethod
    def _setting(cls, body: Any) -> str:
        return PromisedRouterGame.setting if "promise" in body else RouterGame.setting

    # -- what can be seen

    @property
    def rounds(self) -> int:
        """The number of decisions made and not cancelled."""
        return self._core.view(lambda view: int(view.counts.rounds))

    @property
    def comparisons(self) -> int:
        """The number of feedbacks accepted so far."""
        return self._core.view(lambda view: view.rounds)

    # -- one sample at a time

    def __call__(  # type: ignore[override]
        self, x: Any, *, group: Any = None, context: Any = None, prices: Any = None, conversation: Any = None
    ) -> RouterAnswer:
        """Answer for one sample, of which ``context``, ``prices`` and ``conversation`` may be known as for `decide`.

        If the answering model raises, the decision is cancelled and nothing is learned from it (with a promise, the
        reference answers then). If another one raises, the comparison is cancelled and the answer stands.
        """
        found: RouterAnswer = super().__call__(x, *self.told_of(group, context, prices, conversation))
        return found

    async def acall(
        self, x: Any, group: Any = None, *, context: Any = None, prices: Any = None, conversation: Any = None
    ) -> RouterAnswer:
        """Answer for one sample, calling all models of the decision at once; synchronous models run in threads."""
        known = self.told_of(group, context, prices, conversation)
        found: RouterAnswer = await self._play_async(x, known)
        return found

    # -- many samples

    def predict(self, X: Any, batch_size: int = 50, groups: Any = None, contexts: Any = None) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size, groups, contexts)])

    def answers(
        self, X: Any, batch_size: int = 50, groups: Any = None, contexts: Any = None
    ) -> list[RouterAnswer]:
        """Answer for many samples, ``batch_size`` at a time, at most 100; ``groups`` as for `Cascade`.

        ``contexts`` has what is known of each, for a router with ``context``.

        The models of a whole batch are chosen before any of its outputs is seen, so keep the first batches small. Then
        each model is called on its rows, a classifier once for all of them, and the comparisons are learned in order.
        ``batch_size=1`` (always used for a policy that is not ``delay_safe``) is the same as one call after the other.
        If a model fails on a row that it answers, nothing is learned from the current batch and its decisions are
        cancelled; if it fails on another row, only the comparison of that row is cancelled.

        >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 20], error_cost=100)
        >>> answers = router.answers([x % 10 for x in range(1000)])
        >>> router.settled(), router.comparisons
        (0, 50)
        """
        self._refuse_call(awaits=False)
        samples = Rows(X)
        known = self._requests(contexts, samples.size)
        return self._answers(
            samples, self._contexts(groups, samples.size) if known is None else known, batch_size
        )

    # -- by hand

    def decide(
        self,
        group: Any = None,
        *,
        context: Any = None,
        prices: Any = None,
        conversation: Any = None,
        switching: Any = None,
    ) -> RouterDecision:
        """Decide for one sample: which models to call, and whose answer counts.

        ``prices`` are what this request costs on each model, in the order of the stated ones; left out, these.
        Decisions, the money and its bound use them. A router made with ``context=["task"]`` takes what is known of the
        request, ``context={"task": "classify"}``.

        ``conversation`` is a key, a text or an integer: the first request of a key is decided, later ones go to the
        same model, or to a dearer one if that pays by now with ``switching``, what moving to each model would cost (the
        prompt that it has not cached). So the price of a model should be the mean over a conversation, and ``prices``
        what a turn of this one costs on average, not its first request, with nothing cached. A key is
        forgotten ``conversation_ttl`` seconds after its last request (3600), and if 100,000 others came later. With a
        promise each turn has its own coin, and after an answer of the reference a conversation stays with it.
        A router with ``context`` believes the last model from the first conversation on, unless ``trust="nobody"``.

        >>> router = Router(2, prices=[1, 20], error_cost=100)
        >>> [router.decide(conversation="a").turn for _ in range(3)]
        ['first', 'same', 'same']
        """
        id, call = self._core.decide(self.told_of(group, context, prices, conversation, switching))
        if self._journal is not None:
            self._give_out(id)
        turn = turn_of(call)
        if turn is not None:
            return TurnDecision(id, tuple(call), call[-1], turn)
        return RouterDecision(id, tuple(call), call[-1])

    def model_of(self, conversation: Any) -> int | None:
        """Return the model that a conversation is on, None if it is not known any more."""
        turn = Turn(key_of(conversation), int(time.time()), self.conversation_ttl)
        found: int | None = self._core.view(lambda _: self._game.talks.look_up(turn).held)
        return found

    def told_of(
        self, group: Any, context: Any, prices: Any, conversation: Any = None, switching: Any = None
    ) -> tuple[Any, ...]:
        """Return what is known of a request, checked, as the core takes it: for programs that hold the core."""
        layered = isinstance(self._game, ContextRouterGame)
        known = self._request(context, prices if layered else None) or self._context(group)
        paid = None if layered else self._game.prices_of(prices)
        if paid is not None and not self._game.prices_requests:
            raise Refused(f"prices of a request are not for {self._label}")
        if paid is not None and self.promised is not None:
            check_prices("prices", paid)
        if conversation is None:
            if switching is not None:
                raise ValueError("switching goes with conversation, which is left out")
            return known if paid is None else (*(known or self._game.nothing), None, None, paid)
        if self.promised is not None and self.promised.budget is not None:
            raise Refused("conversation goes with agree or error_cost: to keep a budget, one must go down")
        lost = None if switching is None else vector("switching", switching, at_least=0.0)
        if lost is not None and lost.size != self._size:
            raise ValueError(f"switching must be {self._size} numbers, one per model, got {lost.size}")
        lost_on = None if lost is None else tuple(lost.tolist())
        turn = Turn(key_of(conversation), int(time.time()), self.conversation_ttl, lost_on)
        found = (*(known or self._game.nothing), None, turn)
        return found if paid is None else (*found, paid)

    def move_conversation(self, conversation: Any, model: int) -> None:
        """Let a conversation go on with another model than was decided, such as the one that answered for it."""
        k = integer("model", model, 0, self._size - 1)
        self._alter("talk", {"conversation": key_of(conversation), "at": int(time.time()), "model": k})

    def decide_many(self, count: int, groups: Any = None, contexts: Any = None) -> list[RouterDecision]:
        """Decide for several samples at once, at most 100: all or, if one is refused, none; ``contexts`` one of each.

        Open comparisons are taken into account, although their outcome is not yet known. With a journal, all these
        decisions wait for the disk once.
        """
        number_of_decisions, opened = integer("count", count, 1, ALONE), list[int]()
        try:
            known = self._requests(contexts, number_of_decisions)
            known = self._contexts(groups, number_of_decisions) if known is None else known
            decisions = self._core.decide_many(known, opened)
            self._wait()
        except BaseException:
            self._abandon(opened, [{} for _ in range(number_of_decisions)])
            raise
        return [RouterDecision(id, tuple(call), call[-1]) for id, call in decisions]

    def feedback(self, id: int, outputs: Sequence[Any]) -> str:
        """Learn the outputs of the models of a decision, in the order of its ``call``.

        Feedback may come at any time and in any order. Return "accepted", or "duplicate" if the same feedback was given
        before. `FeedbackConflict`, `UnknownDecision` (also for a single model, which does not wait for feedback) and
        ValueError leave everything unchanged.
        """
        given = output_list("outputs", outputs)
        content = content_of(given)
        call = self._awaited(id, content)
        settled = "duplicate"
        if call is not None:
            settled = self._core.settle(self._game.record(int(id), call, given, self._core.terms, content))
        self._wait()
        return settled

    def feedback_pairs(
        self,
        id: int,
        differ: Sequence[tuple[int, int]],
        *,
        far: Sequence[float] | None = None,
        digest: str | None = None,
        failed: Sequence[int] = (),
        outputs: Sequence[Any] = (),
    ) -> str:
        """Learn a comparison that was made elsewhere: ``differ`` has the pairs of models (i, j), i < j, that differed.

        ``far`` is for a router with a ``metric``, instead of ``differ``: the distances of the pairs of ``call``, in the
        order (first, second), (first, third), .... ``digest`` distinguishes a repeated answer from a conflict.
        ``failed``, with a promise: models other than the reference that gave no answer. ``outputs``, of all models of
        the call, are kept for `check_again`. Return and raise as `feedback` does.
        """
        differ = sorted_pairs(differ)
        if failed:
            self._keeps("failed")
        content = content_of_pairs(digest, differ, far, *([list(failed)] if failed else []))
        call = self._awaited(id, content)
        settled = "duplicate"
        if call is not None:
            record = self._game.record_of_pairs(int(id), call, self._core.terms, content, differ, far)
            record.outputs = list(outputs)
            record.failed = {integer("failed", k, 0, len(self._stages) - 1): RuntimeError() for k in failed}
            settled = self._core.settle(record)
        self._wait()
        return settled

    def _awaited(self, id: int, content: Content) -> Any:
        ledger = self._core.ledger
        try:
            return self._core.awaited(id, content)
        except UnknownDecision:
            known_end = ledger.ending is not None and ledger.ending(int(id)) is not None
            if not 1 <= id < ledger.next or known_end:
                raise
            raise UnknownDecision(
                f"decision {id} waits for no feedback: it called one model alone, or was cancelled"
            ) from None

    # -- other ways to learn

    def warm_start(self, outputs: Any) -> int:
        """Learn from logs in which all models ran: ``outputs`` has a row of K labels per sample.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing. The samples must
        be like future ones; selected samples bias the disagreements.
        """
        found, call = self._warm_rows(outputs)
        self._offer("warm_start")
        self._alter("warm", warm_body(found), call)
        return len(found)

    def recost(self, prices: Any, error_cost: float | None = None) -> None:
        """Continue with new prices; the counts stay, and the bound on spending starts again for this period."""
        error = self._stated_prices()[1] if error_cost is None else error_cost
        policy = self._core.driver.policy
        new = terms_of(prices, 1.0 if error is None else error, len(self._stages))
        reprices = has(policy, "reprice") or has(policy, "take_costs")
        if not getattr(policy, "recostable", False) or not reprices:
            raise Refused(f"recost is not for {self._label}: what it has learned depends on the prices")
        self._check_reference(new.prices)
        self._alter(
            "recost", {"stage_costs": new.prices, "error_cost": None if error is None else new.error_cost}
        )

    # -- what was learned

    def settled(self) -> int:
        """Return the model that the policy trusts now."""
        return self._core.view(lambda view: int(self._game.settled(view.counts, view.terms)))

    def report(self) -> RouterReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table."""
        found: RouterReport = self._core.view(self._report)
        return found

    def _report(self, view: View) -> Any:
        if view.terms.promise is not None:
            return self._promise_report(view)
        counts, terms = view.counts, view.terms
        settled = self._game.settled(counts, terms)
        found = make_router_report(view, settled, self._label, self._words)
        talks = talks_of(counts)
        more = (*looks_words(view.policy, self._words), *talk_words(talks, self._words, self._words.last()))
        more = (*found.guarantees, *more)
        yields = yield_reports(counts.yields)
        return dataclasses.replace(
            found,
            groups=self._groups(view),
            yields=yields,
            guarantees=more,
            conversations=talks,
            belief=belief_words(view.policy, self._words),
        )

    def certificate(self, alpha: float = 0.05) -> Certificate | PromiseCertificate:
        """Return what the comparisons so far prove without labels, at the prices of the models alone.

        With a promise: how many answers differ from the reference's at most.

        Either the first model is optimal whatever the truth is, or weak dominance fails, or neither is decided yet. The
        confidence ``1 - alpha`` holds however often you look. Rows of a warm start count. Not available for a policy
        that forgets: its comparisons may be out of date. Pay-to-compare stops comparing long before anything is proved;
        ``needed`` says how many comparisons are missing, which a warm start can provide.

        >>> router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 40], error_cost=100)
        >>> answers = [router(x % 10) for x in range(1000)]
        >>> router.certificate().verdict
        'undecided'
        >>> rows = router.warm_start([[x % 10 > 2, x % 10 > 3] for x in range(200)])
        >>> print(router.certificate())
        The first model is optimal for certain (at confidence 95 %), whatever the truth is.
        """
        self._offer("certificate")
        if self.promised is not None:
            return self._promise_certificate(alpha)
        counts, terms = self._core.view(lambda view: (view.counts, view.terms))
        return dataclasses.replace(
            certify(terms.costs, counts.compared, counts.differed, alpha), words=self._words
        )

    def audit(self, items: Any, truth: Any, alpha: float = 0.05, model: int | None = None) -> Audit:
        """Estimate from a few labels how much more a model costs than the cheapest, without weak dominance.

        Parameters
        ----------
        items : samples
            Fresh ones, drawn like future samples. They go through models 0, ..., ``model``, and nothing is learned.
        truth : labels, one per item, or a callable
            Used only where the answers of these models differ. A callable takes an item, and the outputs of the
            models if it has a parameter ``outputs``.
        alpha : number between 0 and 1
            How often the interval may miss the truth.
        model : integer, optional
            The model to audit; by default the settled one.

        Cheaper models are compared by the labels, more expensive ones by how often they differed from this one so far,
        so make some comparisons first. Do not repeat it until you like the verdict: ``alpha`` is for one audit.

        >>> router = Router([lambda x: x > 3, lambda x: x > 2], prices=[1, 2], error_cost=100)
        >>> answers = [router(x % 10) for x in range(500)]
        >>> print(router.audit([x % 10 for x in range(500)], lambda x: x > 2))
        Audit of model 1 on 500 fresh items, 50 of them labelled: optimal
        it costs 0 to 0 per round more than the cheapest model (95 % confidence)
          against model 0: -11.64 to -6.283, by labels
        """
        samples = Rows(items, "items")
        self._refuse_call(awaits=False)
        chosen = self._audited(model, samples.size)
        ask, level = teller(samples, truth), fraction("alpha", alpha)  # before any call is paid for
        outputs = run_stages(samples, self._stages[: chosen + 1])
        calls = add_up(add_up(costs_of(seen, self._core.terms.prices)) for seen in outputs)
        return self._audit(outputs, ask, level, chosen, calls)

    def audit_outputs(self, outputs: Any, truth: Any, alpha: float = 0.05, model: int | None = None) -> Audit:
        """Audit a model as `audit` does, on existing outputs.

        ``outputs`` has one row per fresh item: the outputs of the models 0, ..., ``model``, or of all. ``truth`` is a
        sequence of labels, or a callable that takes the number of a row.
        """
        size = Rows(outputs, "outputs").size
        chosen = self._audited(model, size)
        rows = rows_up_to(outputs, chosen, len(self._stages), self._noun)
        return self._audit(rows, teller(Rows(range(size)), truth), alpha, chosen, 0.0)

    def _audit(self, outputs: list[list[Any]], ask: Any, alpha: float, model: int, calls: float) -> Audit:
        view = self._core.view(lambda view: view)
        found = audit_stage(outputs, ask, alpha, model, calls, self._game.code, 0.0, view)
        return dataclasses.replace(found, words=self._words)

    def _audited(self, model: int | None, items: int) -> int:
        """Return the model to audit."""
        self._offer("audit")
        if self._game.code.metric is not None:
            raise ValueError("an audit is for labels, not for answers compared by a metric")
        chosen = self.settled() if model is None else integer("model", model, 0, len(self._stages) - 1)
        if chosen > 0 and not items:
            raise ValueError("items must be at least one sample, got none")
        return chosen

    def explain(self, id: int) -> str:
        """Explain, also in money, why these models were called, for the last 1000 decisions of this object."""
        known = self._explained(id)
        if self.promised is not None:
            return router_explanation(int(id), known.call, self.promised, self._words)
        return explanation(int(id), known, self._label, self._words)

    def cancel(self, id: int, cost: float = 0.0) -> None:
        """Cancel a decision that waits for feedback, or one of the last 100 that called one model alone.

        Its comparisons are no longer open. Its price stays counted, and ``cost`` is shown as wasted in the report.
        """
        super().cancel(id, cost)


def refuse_metric(metric: Any) -> None:
    """Refuse a metric: a promise is about answers that are the same or not."""
    if metric is not None:
        raise ValueError(
            "metric must be left out with a promise: compare= says when two answers are the same"
        )
