"""A live cascade of tests, classifiers or models: pay for no more stages than needed, without labels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weakfeedback.cascade.audit import Audit
from weakfeedback.cascade.certificate import Certificate, certify
from weakfeedback.live.adaptive_report import adaptive_explanation, make_adaptive_report
from weakfeedback.live.answers import (
    Comparer,
    Costed,
    Metric,
    Scored,
    as_array,
    costs_of,
    fingerprint,
    labelled_content,
    majority,
    output_list,
    refuse_tolerance,
    short,
)
from weakfeedback.live.audits import (
    all_rows,
    audit_rule,
    audit_stage,
    rows_up_to,
    run_stages,
    teller,
    told_truth,
    with_scores,
)
from weakfeedback.live.cascade_report import CascadeReport, explanation, make_report
from weakfeedback.live.cascading import Cascading
from weakfeedback.live.core import PENDING_LIMIT
from weakfeedback.live.form import Form
from weakfeedback.live.game import EXPLAINED, View
from weakfeedback.live.games.adaptive import SETTING, AdaptiveGame, in_table
from weakfeedback.live.games.cascade import (
    Answer,
    CascadeGame,
    Counts,
    Decision,
    RoundRecord,
    default_policy,
    terms_of,
)
from weakfeedback.live.games.comparing import (
    check_functions,
    warm_body,
)
from weakfeedback.live.games.promise import PromiseCounts, salt_of
from weakfeedback.live.label_source import LabelSource, label_price_of
from weakfeedback.live.live import Live
from weakfeedback.live.numbers import Squared, check_metric, loss_of
from weakfeedback.live.promise import POLICY, Promises, is_promised, promise_of, refuse_unpromised
from weakfeedback.live.promise_report import PromiseCertificate, promise_explanation
from weakfeedback.live.rounds import Rounds
from weakfeedback.live.stages import Rows, make_stages
from weakfeedback.live.steps import StepByStep
from weakfeedback.live.warning import warn_of_prices, warn_of_saving
from weakfeedback.settings.catalog import POLICIES, canonical_name, make_policy, option_names
from weakfeedback.settings.setting import find_name
from weakfeedback.stats import add_up
from weakfeedback.validate import fraction, integer, number
from weakfeedback.words import prices_told_elsewhere

__all__ = ["EXPLAINED", "Answer", "Audit", "Cascade", "Costed", "Decision", "Scored", "majority"]

LEARNERS = ("USS-A", "USS-next")  # policies that decide after every answer, and depend on the prices
UNPRICED = ("fixed", "random", "agreement", "thresholds")  # policies that need no price of an error


class Cascade(Promises, StepByStep, Cascading, Live, Rounds):
    """Stages of increasing cost whose answers are never checked; learns at which one to stop.

    A sample goes through the stages in order up to the one the policy chose, and the answer is that of the last
    stage called. The cascade learns how often the answers of two stages differ: a later stage is worth its price
    only if it differs often enough. This finds the best stage under weak dominance (thesis, section 2.3), which in
    general can be checked only with labels (`audit`).

    Safe to use from several threads. No lock is held while a stage, ``combine`` or ``compare`` runs. Memory does
    not grow with the number of rounds.

    Parameters
    ----------
    stages : K callables or fitted classifiers, or their number
        A callable takes one sample and returns a label of any type, or ``Costed(label, cost)`` if it knows what
        the call actually cost. If it has a parameter ``earlier``, it gets the tuple of the earlier stages' labels.
        Of a classifier, ``predict`` is called, on one row or on many. A number means that many stages that run
        elsewhere: then use `decide` and `feedback` or `feedback_pairs`.
    stage_costs : K numbers >= 0
        What each call costs, in any unit of money.
    agree, budget, error_cost : numbers, or None
        What the answers are for; one of them must be given. ``agree``, such as .95: at least this share of the answers
        are those of the last stage (or ``reference``), as cheaply as possible, whatever the stages do. ``budget``:
        money a request, on average; as few answers as possible differ. ``error_cost``: what a wrong answer costs, in
        the same unit. The first two imply the policy "Promise"; with ``agree`` and ``error_cost`` both limits hold.
    policy : name or policy object
        "USS-TS", "USS-UCB", "Hanawal", "USS-WD", "USS-TS-drift", "Q-USS", "Fixed" or "Random" with their
        options, or an object made for the costs ``cumsum(stage_costs) / error_cost``, which belongs to the
        cascade from then on. The default is "Q-USS" if there is a ``label`` or a ``label_price``, else "USS-WD" for up
        to 8 stages, which gives way to "USS-TS" in the first round whose answers take three values; for more stages
        "USS-TS". "USS-WD" by name is for answers with two labels, and raises ValueError when three differ.
        "USS-A", "USS-next", "Agreement" and "Thresholds", and objects with a method ``go_on`` made for
        ``stage_costs / error_cost``, decide after every answer instead: see below.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the policy's generator; fresh entropy if None. A Generator must use PCG64, and is not copied.
    names : K strings, optional
        What the stages are called in reports, explanations and errors.
    reference : stage or its name, optional
        With a promise: whose answers are promised; the last stage's if None.
    sure, shadow, groups : bool, bool, None or "each"
        With a promise. ``sure``: the share is above 1 - agree at any time with a probability of at most 5 %; dearer.
        ``shadow``: the reference always answers, and `report` says what would have been. ``groups="each"``: the promise
        holds for every group (``cascade(x, group=...)``), dearer as well.
    background, self_check : bool
        With a promise. ``background``: a cheap answer goes out before it is compared, as streams need. ``self_check``:
        now and then the reference is called twice, so that `report` can say how often it agrees with itself.
    combine : callable, optional
        Computes the answer of stage i from the list of outputs 0, ..., i, for instance `majority`.
    compare : callable, optional
        ``compare(a, b)`` is true when two answers count as the same; ``a == b`` if None. NaN is not a label. A
        tolerance is not allowed, and is refused as soon as it is detected.
    metric : callable, optional
        For numeric answers, in place of ``compare``: ``metric(a, b)`` returns their distance, from 0 to 1, and obeys
        the triangle inequality. An error then costs ``error_cost`` times its distance from the truth. The default
        policy is "USS-mean", which learns the distances. For others two answers count as different with that
        probability: when a round is learned, one number is drawn from the policy's generator for every pair of stages
        called, in the order (0, 1), (0, 2), ..., (1, 2), ....
    loss, scale : "squared" and a number > 0, optional
        For numeric answers, in place of ``metric``: an error of size ``scale`` costs ``error_cost``, one half as large
        a quarter of it, a larger one no more. Right only if each stage is calibrated given the earlier ones: let it see
        their answers (``earlier``), or stack it. `report` and `calibration` check that, without and with labels.
    label : callable, optional
        For a policy that buys labels, "Q-USS": ``label(x)``, or ``label(x, outputs)`` if it takes ``outputs``, returns
        the truth of a sample, or ``Costed(truth, cost)``. It is called during `cascade(x)`, after the stages and
        before anything is learned. If it raises, the decision is cancelled.
    label_price : number >= 0
        What a label costs, in the same unit; required by "Q-USS".
    timeout : number > 0, optional
        Maximum duration of a stage call in seconds. The call itself cannot be stopped: it continues in its thread.
    compiled : bool
        Whether the policy's methods run compiled: faster for many stages, with the same decisions. The constructor
        compiles them, or loads them from the compiler's cache, so that no decision has to wait for it.
    remember : integer >= 0, optional
        How many answers are remembered individually (default 10,000); older ones count as duplicates, unchecked.

    Notes
    -----
    With a policy that decides after every answer, a stage may return ``Scored(label, score)``; a classifier with
    ``predict_proba`` does so automatically. ``judge`` ("last", the default, "score", if the last score is a
    probability, or "calibrated") selects what USS-A believes in the end. ``calibrate(items, truth)`` lowers its limit
    with about 30 labels. ``begin()`` and ``tell(id, output)`` replace `decide` and `feedback`. `audit` compares the
    rule with every fixed stage. ``combine``, ``metric``, ``label`` and `certificate` are refused. Use
    ``compiled=True``, or each fit takes a second after some thousand rounds.

    Examples
    --------
    >>> cascade = Cascade([lambda x: x > 2, lambda x: x > 3], stage_costs=[1, 30], error_cost=100, seed=0)
    >>> answers = [cascade(x % 10) for x in range(1000)]
    >>> sum(answer.arm == 0 for answer in answers), answers[-1].label
    (971, True)

    Decide after every answer: the first stage errs where it is unsure, and the second is called only there.

    >>> sure = lambda x: Scored(x > 2, abs(x - 2.5))
    >>> cascade = Cascade([sure, lambda x: x > 3], stage_costs=[1, 8], error_cost=100, policy="USS-A", seed=0)
    >>> arms = [cascade(x % 10).arm for x in range(500)]
    >>> arms[-10:]
    [0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    """

    kind = CascadeGame.kind
    setting = CascadeGame.setting
    form = CascadeGame.form
    _most = PENDING_LIMIT

    def __init__(
        self,
        stages: Sequence[Any] | int,
        stage_costs: Any,
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
        names: Sequence[str] | None = None,
        background: bool = False,
        self_check: bool = False,
        combine: Callable[[list[Any]], Any] | None = None,
        compare: Callable[[Any, Any], Any] | None = None,
        metric: Metric | None = None,
        loss: str | None = None,
        scale: float | None = None,
        label: Callable[..., Any] | None = None,
        label_price: float | None = None,
        timeout: float | None = None,
        compiled: bool = False,
        remember: int | None = None,
        **options: Any,
    ) -> None:
        promises = is_promised(policy, agree, budget)
        within = decides_within(policy, options) or promises
        if within:
            refuse_for_steps(combine=combine, metric=metric, loss=loss, label=label, label_price=label_price)
        limit = None if timeout is None else number("timeout", timeout, above=0.0)
        self._stages = make_stages(stages, limit, scored=within)
        K = len(self._stages)
        chosen = {"reference": reference, "sure": sure, "shadow": shadow, "groups": groups}
        chosen |= {"background": background, "self_check": self_check}
        more: dict[str, Any] = {}
        counts, terms = Counts.of(K), terms_of(stage_costs, 1.0, K, combine is not None)
        check_functions(combine=combine, compare=compare)
        if promises:
            promised = promise_of(
                ("stage_costs", terms.prices), self._noun, (agree, budget, error_cost), names, **chosen
            )
            counts, policy, more = counts._replace(promise=PromiseCounts()), POLICY, promised.options()
        else:
            check_name(policy)
            needs = policy is None or (isinstance(policy, str) and policy.lower() not in UNPRICED)
            price_of_error = refuse_unpromised(self._noun, policy, error_cost, needs, **chosen)
            terms = terms_of(stage_costs, price_of_error, K, combine is not None)
        refuse_tolerance(options, compare)
        squared = loss_of(loss, scale, metric, compare)
        check_metric(metric, compare)
        if loss is None and scale is not None:
            options["scale"] = scale  # of a policy
        code = Comparer(compare, combine, squared or metric)
        game: AdaptiveGame | CascadeGame
        if within:
            game = AdaptiveGame(K, code, limit, promises)
            costs = terms.stage_costs / terms.error_cost
            if isinstance(policy, str):
                options = self._options_for(canonical_name(SETTING, policy), options, stages)
        else:
            if policy is None:
                policy = default_policy(
                    K, label is not None or label_price is not None, code.metric is not None
                )
            self._source = None if label is None else LabelSource("label", label)
            price = label_price_of(policy, label, label_price, terms.error_cost, options)
            game, costs = CascadeGame(K, code, limit, label is not None, price), terms.costs
        make = lambda name, **o: make_policy(game.setting, name, costs, **more, **o)  # noqa: E731
        with prices_told_elsewhere():
            self._begin(game, policy, make, seed, options, compiled, remember, counts, terms)
        self.speak(names)
        if promises:
            promised = promised._replace(salt=salt_of(self._core.rng))
            self._core.terms = terms._replace(promise=promised)
            warn_of_saving(self._core.terms, self._words)
        if (
            isinstance(game, CascadeGame)
            and code.metric is not None
            and (game.binary or game.label_price is not None)
        ):
            name = "metric" if loss is None else "loss"
            raise ValueError(f"{name} must not be given with {self._label}, which is for labels")
        if game.moves:
            self._core.counts = Counts.of(K, moved=True)
        self._unready = game.label_price is not None or (within and self._stages[0].elsewhere)
        self._unready = self._unready or any(stage.asynchronous for stage in self._stages)
        known = self._core.driver.origin.name
        # one that learns where to stop
        if known in LEARNERS if within else known not in (None, "Fixed", "Random"):
            warn_of_prices(terms.stage_costs[1:2], terms.error_cost, self._words)

    def _options_for(self, name: str, options: dict[str, Any], stages: Any) -> dict[str, Any]:
        """Return the options of a policy; the last stage gives the default of the number of labels."""
        given = {key: value for key, value in options.items() if key != "judge" or value is not None}
        if "judge" in option_names(SETTING, name):
            last = self._stages[-1]
            given.setdefault("judge", "last")
            if last.gives_chances and given.get("labels") is None:
                given["labels"] = max(2, len(stages[-1].classes_))
        return given

    @classmethod
    def _form(cls, body: Any) -> Form:
        if not isinstance(body, dict):
            return CascadeGame.form
        if "promise" in body:
            return AdaptiveGame.promised_form
        if "setting" in body:
            return AdaptiveGame.form
        return CascadeGame.of_numbers if "numbers" in body else CascadeGame.form

    @classmethod
    def _setting(cls, body: Any) -> str:
        return SETTING if "setting" in body else CascadeGame.setting

    # -- one sample at a time

    async def acall(self, x: Any, group: Any = None) -> Answer:
        """Answer for one sample, awaiting the stages; synchronous stages run in a thread."""
        found: Answer = await self._play_async(x, self._context(group))
        return found

    # -- many samples

    def predict(self, X: Any, batch_size: int = 256, groups: Any = None) -> np.ndarray:
        """Return the labels for many samples; see `answers`."""
        return as_array([answer.label for answer in self.answers(X, batch_size, groups)])

    def answers(self, X: Any, batch_size: int = 256, groups: Any = None) -> list[Answer]:
        """Answer for many samples, ``batch_size`` at a time; with a promise there may be one of ``groups`` for each.

        The stages of a whole batch are chosen before any of its outputs is seen; then each stage is called on
        the rows that go that far, and the rows are learned in order. ``batch_size=1`` (always used for a policy that
        is not ``delay_safe``) is the same as one call after the other. If anything fails, nothing is learned from
        the current batch and its decisions are cancelled; earlier batches stay learned.
        """
        self._refuse_call(awaits=False)
        samples = Rows(X)
        return self._answers(samples, self._contexts(groups, samples.size), batch_size)

    # -- by hand

    def decide(self) -> Decision:
        """Decide for one sample; call the stages yourself and give their outputs to `feedback`."""
        self._offer("decide")
        id, arm = self._core.decide()
        if self._journal is not None:
            self._give_out(id)
        return Decision(id, arm)

    def wants_label(self, id: int, outputs: Sequence[Any]) -> bool:
        """Return whether the policy buys the label of a decision with these outputs; False if it buys no labels.

        Nothing is changed. Call this before `feedback`, buy the label, and pass outputs and label to `feedback`.
        """
        core, game = self._core, self._game
        if game.stepwise:
            return False
        given = output_list("outputs", outputs)
        record = game.record(int(id), core.run(core.ledger.decided, id), given, core.terms, ())
        return self._wants(record)

    def _buy(self, record: RoundRecord, label: Any) -> None:
        self._add_label(record, label)
        record.content = labelled_content(record.content, label)

    # -- other ways to learn

    def calibrate(self, items: Any, truth: Any) -> int:
        """Learn from labelled samples how reliable the last stage is. For a policy that judges, such as USS-A.

        Parameters
        ----------
        items : samples
            About 30, drawn like future samples and not selected. All stages are run on each of them; the cost of
            these calls is not counted as spent.
        truth : labels, one per item

        Return the number of items. No round is learned from them.
        """
        self._offer("calibrate")
        samples = Rows(items, "items")
        self._refuse_elsewhere("calibrate_outputs()")
        self._refuse_asynchronous()
        told = told_truth(truth, samples.size)  # before any call is paid for
        return self._calibrate(run_stages(samples, self._stages, alone=True), told)

    def calibrate_outputs(self, outputs: Any, scores: Any, truth: Any) -> int:
        """Calibrate as `calibrate` does, with existing outputs of all stages.

        ``outputs`` has one row of K labels per item. The labels may be `Scored`; then ``scores`` is None. Otherwise
        ``scores`` has the shape of ``outputs``, with None or NaN for a missing score.
        """
        self._offer("calibrate_outputs")
        rows = all_rows(outputs, len(self._stages))
        rows = rows if scores is None else with_scores(rows, scores)
        return self._calibrate(rows, told_truth(truth, len(rows)))

    def _calibrate(self, rows: list[list[Any]], told: Rows) -> int:
        body = in_table(rows, [told[row] for row in range(told.size)], self._game.code.compare)
        self._alter("calibrate", body, ("calibrate", fingerprint(body)))
        return len(rows)

    def warm_start(self, outputs: Any) -> int:
        """Learn from logs in which all stages ran: ``outputs`` has a row of K labels per sample.

        Return the number of rows learned. They count as comparisons, not as rounds, and cost nothing. The samples
        must be like future ones; selected samples (for instance hard ones) bias the disagreements.
        """
        self._offer("warm_start")
        found, call = self._warm_rows(outputs)
        self._alter("warm", warm_body(found), call)
        return len(found)

    # -- what was learned

    def report(self) -> CascadeReport:
        """Return what was seen, spent and saved so far; ``print`` it for a table.

        With a policy that decides after every answer it is an `AdaptiveReport`, with a promise a `PromiseReport`.
        """
        found: CascadeReport = self._core.view(self._report)
        return found

    def _report(self, view: View) -> Any:
        if view.terms.promise is not None:
            return self._promise_report(view)
        if self._game.stepwise:
            return make_adaptive_report(view, self._label, self._words)
        return make_report(view, self._game, self._label, self._words)

    def certificate(self, alpha: float = 0.05) -> Certificate | PromiseCertificate:
        """Return what the comparisons so far prove without labels; with a promise, how many answers differ at most.

        Either the first stage is optimal whatever the truth is, or weak dominance fails (then labels are needed), or
        neither is decided yet. The confidence ``1 - alpha`` holds however often you look. Rows of a warm start count.
        Not available for a policy that forgets: its comparisons may be out of date.

        >>> cascade = Cascade([lambda x: x > 2, lambda x: x > 3], stage_costs=[1, 30], error_cost=100, seed=0)
        >>> answers = [cascade(x % 10) for x in range(1000)]
        >>> cascade.certificate().verdict
        'undecided'
        >>> rows = cascade.warm_start([[x % 10 > 2, x % 10 > 3] for x in range(200)])
        >>> print(cascade.certificate())
        The first stage is optimal for certain (at confidence 95 %), whatever the truth is.
        """
        self._offer("certificate")
        if self.promised is not None:
            return self._promise_certificate(alpha)
        counts, terms = self._core.view(lambda view: (view.counts, view.terms))
        differed = (
            counts.differed if counts.moved is None else np.minimum(counts.moved.total, counts.compared)
        )
        return replace(certify(terms.costs, counts.compared, differed, alpha), words=self._words)

    def audit(self, items: Any, truth: Any, alpha: float = 0.05, arm: int | None = None) -> Any:
        """Estimate from a few labels how much more a stage costs than the cheapest, without weak dominance.

        Parameters
        ----------
        items : samples
            Fresh ones, drawn like future samples. They go through stages 0, ..., ``arm``, and nothing is learned.
        truth : labels, one per item, or a callable
            Used only where the answers of these stages differ. A callable is called like ``label``.
        alpha : number between 0 and 1
            How often the interval may miss the truth.
        arm : integer, optional
            The stage to audit; by default the one at which most rounds stopped.

        Earlier stages are compared by the labels, later ones by how often they differed from this one so far,
        so let some rounds go there first. Do not repeat it until you like the verdict: ``alpha`` is for one audit.

        With a policy that decides after every answer, the rule is compared with always stopping at each stage: all
        stages are run on each item, all labels are used, and ``arm`` must be left out.

        >>> stages = [lambda x: x > 3, lambda x: x > 2]
        >>> cascade = Cascade(stages, stage_costs=[0, 1], error_cost=100, policy="Fixed", arm=1)
        >>> answer = cascade(5)
        >>> print(cascade.audit([x % 10 for x in range(500)], lambda x: x > 2))
        Audit of stage 1 on 500 fresh items, 50 of them labelled: optimal
        it costs 0 to 0 per round more than the cheapest stage (95 % confidence)
          against stage 0: -11.64 to -6.283, by labels
        """
        samples, stepwise = Rows(items, "items"), self._game.stepwise
        self._refuse_asynchronous()
        self._refuse_elsewhere("audit_outputs()" if stepwise else "decide() and feedback(), not a call")
        chosen = self._audited(arm, samples.size)
        ask, level = teller(samples, truth), fraction("alpha", alpha)  # before any call is paid for
        outputs = run_stages(samples, self._stages[: chosen + 1], alone=stepwise)
        calls = add_up(add_up(costs_of(seen, self._core.terms.prices)) for seen in outputs)
        return self._audit(outputs, ask, level, chosen, calls)

    def audit_outputs(self, outputs: Any, truth: Any, alpha: float = 0.05, arm: int | None = None) -> Any:
        """Audit a stage as `audit` does, on existing outputs.

        ``outputs`` has one row per fresh item: the outputs of the stages 0, ..., ``arm``, or of all. ``truth`` is a
        sequence of labels, or a callable that takes the number of a row. With a policy that decides after every answer,
        each row has the outputs of all stages, `Scored` where there are scores.
        """
        size = Rows(outputs, "outputs").size
        chosen = self._audited(arm, size)
        K = len(self._stages)
        rows = all_rows(outputs, K) if self._game.stepwise else rows_up_to(outputs, chosen, K, self._noun)
        return self._audit(rows, teller(Rows(range(size)), truth), alpha, chosen, 0.0)

    def _audit(self, outputs: list[list[Any]], ask: Any, alpha: float, arm: int, calls: float) -> Any:
        core, code = self._core, self._game.code
        if self._game.stepwise:
            policy, rng = core.view(lambda view: (copy.deepcopy(view.policy), copy.deepcopy(core.rng)))
            rule = audit_rule(outputs, ask, alpha, code, policy, rng, core.terms)
            return replace(rule, words=self._words, spent=calls)
        view, price = core.view(lambda view: view), self._game.label_price or 0.0
        found = audit_stage(outputs, ask, alpha, arm, calls, code, price, view)
        return replace(found, words=self._words)

    def _audited(self, arm: int | None, items: int) -> int:
        """Return the stage to audit; where a rule is audited, the last."""
        last = len(self._stages) - 1
        if self._game.stepwise:
            if arm is not None:
                raise ValueError(f"arm must be left out: {self._label} is compared with all of them")
            if items < 2:
                raise ValueError(f"items must be at least two samples, got {items}")
            return last
        if self._game.code.metric is not None:
            instead = ": use calibration" if isinstance(self._game.code.metric, Squared) else ""
            raise ValueError(f"an audit is for labels, not for answers compared by a metric{instead}")
        stops = self._core.view(lambda view: view.counts.stops)
        if arm is None and not any(stops):
            raise ValueError("arm must be given, because no round was learned yet")
        chosen = int(np.argmax(stops)) if arm is None else integer("arm", arm, 0, last)
        if chosen > 0 and not items:
            raise ValueError("items must be at least one sample, got none")
        return chosen

    def explain(self, id: int) -> str:
        """Explain why a stage was chosen, for the last 1000 decisions made since this object was loaded.

        With a policy that decides after every answer: why each stage was called.
        """
        why = self._explained(id)
        if self.promised is not None:
            return promise_explanation(int(id), why, self.promised, self._words)
        if self._game.stepwise:
            return adaptive_explanation(int(id), why, len(self._stages), self._label, self._words)
        arm, counts, terms = why
        how = str(getattr(self._core.driver.policy, "explained", ""))
        return explanation(int(id), arm, counts, terms, self._label, how, self._words)

    # -- refusals

    def _refuse_call(self, awaits: bool) -> None:
        by_hand = "begin() and tell()" if self._game.stepwise else "decide() and feedback()"
        if awaits or self._game.stepwise:
            self._refuse_elsewhere(f"{by_hand}, not a call")
        if not awaits:
            self._refuse_asynchronous()
        if self._game.wants is not None and self._source is None:
            raise ValueError(f"label must be given to call the cascade, because {self._label} buys labels")
        if self._source is not None and self._source.asynchronous and not awaits:
            raise ValueError("label is asynchronous: use `await cascade.acall(x)`")


def decides_within(policy: Any, options: dict[str, Any]) -> bool:
    """Return whether a policy (a name or an object) decides after every answer.

    "Fixed" is the name of one that does not, and of one that does; ``setting="adaptive"`` among the options, which is
    taken out of them, means the latter.
    """
    if "setting" in options:
        setting = options.pop("setting")
        if setting != SETTING:
            raise ValueError(f"setting must be {SETTING!r} or left out, got {short(setting)}")
        return True
    if isinstance(policy, str):
        known = {name.lower() for name in POLICIES[SETTING]} - {name.lower() for name in POLICIES["cascade"]}
        return policy.lower() in known
    asked = any(callable(getattr(policy, method, None)) for method in ("go_on", "next_stage"))
    return asked and not isinstance(policy, type)


def check_name(policy: Any) -> None:
    """Refuse a name that no policy has, with all names: also of those that decide after every answer."""
    try:
        if isinstance(policy, str):
            canonical_name("cascade", policy)
    except ValueError:
        find_name("policy", policy, dict.fromkeys((*POLICIES["cascade"], *POLICIES[SETTING])))


def refuse_for_steps(**given: Any) -> None:
    """Reject what does not go with a policy that decides after every answer."""
    for name, value in given.items():
        if value is not None and name in ("combine", "metric", "loss"):
            raise ValueError(f"{name} must be left out for a policy that decides after every answer")
        if value is not None:
            raise ValueError(f"{name} goes with a policy that buys labels, such as Q-USS: use calibrate")
