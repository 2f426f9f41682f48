"""Play a log again, in money: every model alone, the promise after and before the call, router and adaptive rule."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.adaptive import Promise, UssA
from weakfeedback.adaptive.problem import NotedProblem
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.replication import Compiled, streams
from weakfeedback.replays.log import Log, read_frame, read_log
from weakfeedback.replays.page import money, page_of
from weakfeedback.routing.answering import RoutedAnswers
from weakfeedback.validate import brief, integer
from weakfeedback.words import currency_of

SWEEP = (0.85, 0.9, 0.95, 0.98, 0.99)
EARLY = 1000  # requests below which it is too early to say
WORTH = 0.02  # the share saved above which the answer is yes
PRICE_OF_ERROR = 10.0  # for the router and the adaptive rule, in calls of the reference, if none is given


@dataclass(frozen=True)
class Way:
    """One way to answer all requests: totals in money, shares of requests; intervals are over orders of the log."""

    name: str
    spent: float
    differ: float
    errors: float | None
    spent_interval: tuple[float, float]
    differ_interval: tuple[float, float]
    differ_at_most: float | None = None  # what a live learner could have certified,
    differ_estimate: float | None = None  # and estimated
    answered: tuple[float, ...] = ()  # the share of requests that each model answered
    by_group: dict[str, float] = field(default_factory=dict)  # share that differs
    course: tuple[float, ...] = ()  # money of each tenth of the requests, as a share of the reference alone

    def to_dict(self) -> dict[str, Any]:
        """Return money, shares and their intervals as plain data."""
        intervals = {
            "spent_interval": list(self.spent_interval),
            "differ_interval": list(self.differ_interval),
        }
        return {"spent": self.spent, "differ": self.differ, "errors": self.errors, **intervals}


@dataclass(frozen=True)
class Replay:
    """The result of a replay. ``print`` it for words, ``to_dict()`` has plain data, ``save(folder)`` writes a page.

    Attributes
    ----------
    requests, reference, reference_alone
        How many, the name of the reference, and what it costs alone.
    promise, before, router, adaptive : Way
        The promise, the promise decided before the call, Pay-to-compare and USS-A. The last two take ``error_cost`` for
        the price of an error, or ten calls of the reference.
    alone : list of Way
        Every model alone.
    frontier, frontier_before : lists of (agree, Way)
        Whole replays of other promises, and those of promises decided before the call.
    price_of_error : float
        What the router and the adaptive rule took for the price of an error.
    currency : str or None
        What the prices are in.
    unread : dict
        Columns of numbers named after a model that were not read, with the rest of their name: scores, perhaps.
    """

    requests: int
    models: tuple[str, ...]
    prices: tuple[float, ...]
    reference: str
    reference_alone: float
    limit: str
    agree: float | None
    alone: list[Way]
    promise: Way
    before: Way
    router: Way
    adaptive: Way
    frontier: list[tuple[float, Way]]
    frontier_before: list[tuple[float, Way]]
    price_of_error: float
    source: str = ""
    currency: str | None = None
    unread: dict[str, str] = field(default_factory=dict)

    def paid(self, value: float) -> str:
        """Return an amount of money, with its currency if that is known."""
        return money(value) if self.currency is None else f"{money(value)} {self.currency}"

    @property
    def saved_share(self) -> float:
        """Return the share of the money of the reference alone that is saved; negative if it costs more."""
        return 1.0 - self.promise.spent / self.reference_alone

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "requests": self.requests,
            "reference": self.reference,
            "models": [
                {"name": name, "price": price, "differs": way.differ, "errors": way.errors}
                for name, price, way in zip(self.models, self.prices, self.alone)
            ],
            **self.promise.to_dict(),
            "reference_alone": self.reference_alone,
            "saved_share": self.saved_share,
            "differ_at_most": self.promise.differ_at_most,
            "limit": self.limit,
            "by_group": self.promise.by_group,
            **{name: getattr(self, name).to_dict() for name in ("before", "router", "adaptive")},
            "frontier": [
                {"agree": agree, "spent": way.spent, "differ": way.differ} for agree, way in self.frontier
            ],
        }

    def headline(self) -> str:
        """Return one sentence that a manager can repeat."""
        alone, way = self.paid(self.reference_alone), self.promise
        low, high = (1.0 - end / self.reference_alone for end in reversed(way.spent_interval))
        if self.requests < EARLY and low <= 0.0 and self._cheaper():
            few = "1 request is" if self.requests == 1 else f"{self.requests:,} requests are"
            span = [f"{abs(one):.0%} {'more' if one < 0.0 else 'less'}" for one in (low, high)]
            between = span[0] if span[0] == span[1] else f"between {span[0]} and {span[1]}"
            return (
                f"{few} too few: {between}, by their order. "
                f"Ask again with {EARLY} or more, or look first with shadow = true."
            )
        if self.saved_share <= WORTH:
            return self._no()
        return (
            f"Yes. These {self.requests:,} requests would have cost {self.paid(way.spent)} instead of {alone}: "
            f"{self.saved_share:.0%} less, with about {100 * (1 - way.differ):.0f} of 100 answers the same as "
            f"{self.reference}'s."
        )

    def _cheaper(self) -> list[int]:
        """Return the models that cost less than the reference."""
        return [k for k, way in enumerate(self.alone) if way.spent < self.reference_alone]

    def _no(self) -> str:
        """Say why nothing is saved."""
        cheap = self._cheaper()
        if not cheap:
            return f"No. No other model is cheaper than {self.reference}."
        first, *others = (f"{self.models[k]}{{}} in {self.alone[k].differ:.0%}{{}}" for k in cheap)
        told = [first.format(f" differs from {self.reference}", " of the requests")]
        told += [one.format("", "") for one in others]
        cost = -self.saved_share
        found = f"finding out would have cost {cost:.1%}" if cost > 0.0 else f"{-cost:.1%} would be saved"
        less = ", or ask for less agreement" if self.agree else ""
        return (
            f"No. {', '.join(told)}, nothing tells where: {self.reference} has to answer nearly all; {found}."
            f" Try another cheap model{less}."
        )

    def __str__(self) -> str:
        lines = [self.headline(), ""]
        width = max(len(way.name) for way in self.ways())
        known = self.promise.errors is not None
        head = f"{self.currency or 'money':>9}  {'saved':>6}  {'differ':>7}{'    wrong' if known else ''}"
        lines.append(f"{'':{width}}  {head}  {'over orders':>16}")
        for way in self.ways():
            wrong = "" if way.errors is None else f"  {way.errors:>7.1%}"
            saved = 1.0 - way.spent / self.reference_alone
            low, high = (money(end) for end in way.spent_interval)
            over = f"{low} to {high}" if low != high else ""
            cells = f"{money(way.spent):>9}  {saved:>6.0%}  {way.differ:>7.1%}{wrong}  {over:>16}"
            lines.append(f"{way.name:{width}}  {cells}".rstrip())
        lines.append("")
        if self.promise.differ_at_most is not None:
            lines.append(
                f"Live it could have certified: at most {self.promise.differ_at_most:.1%} differ, 95 % sure."
            )
        if self.promise.errors is None:
            lines.append(
                f"Not known: whether {self.reference} is right. At most {self.promise.differ:.1%} more errors than it."
            )
        for name, suffix in self.unread.items():
            lines.append(
                f"Not read: {name}. If it says how sure the model is, give the score suffix {suffix!r}."
            )
        return "\n".join(lines)

    def ways(self) -> list[Way]:
        """Return all ways, the models first."""
        return [*self.alone, self.promise, self.before, self.router, self.adaptive]

    def save(self, folder: str | Path) -> Path:
        """Write the page ``replay.html`` into a folder, and return its path."""
        from weakfeedback.files import write_atomically

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        text = page_of(self)
        write_atomically(path / "replay.html", lambda part: part.write_text(text, encoding="utf-8"))
        return path / "replay.html"


def replay(
    frame: Any,
    models: Any,
    prices: Any,
    reference: str | None = None,
    agree: float | None = None,
    budget: float | None = None,
    error_cost: float | None = None,
    score_suffix: str = ".score",
    group: str | None = None,
    truth: str | None = None,
    tokens_suffix: str | None = None,
    orders: int = 5,
    seed: int = 0,
    currency: str | None = None,
) -> Replay:
    """Play a log of the answers of several models again, and say what the promise would have saved.

    Parameters
    ----------
    frame : pandas.DataFrame, or the path of a CSV, Parquet or JSON Lines file
        One request a row. No labels are needed.
    models, prices : names of columns, and as many numbers
        The answers of each model, and what a call costs; with ``tokens_suffix`` what a token costs.
    reference : name of a model, or None
        The model whose answers are promised; None: the last.
    agree, budget, error_cost : numbers, or None
        The limit, as for `weakfeedback.adaptive.Promise`; agree = .95 if none is given.
    score_suffix, tokens_suffix : text
        The column of a model's score is its name with this suffix, if there is one; that of its tokens likewise.
    group, truth : names of columns, or None
        A group that is known before the call. The truth, from which nothing is decided.
    orders, seed : integers
        The log is played in its own order, and for the intervals in as many random ones.
    currency : text, or None
        What the prices are in, such as USD: for words only.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> hard = np.arange(2000) % 5 == 0
    >>> log = pd.DataFrame({"small": hard.astype(int), "small.score": 1.0 - hard, "large": 0})
    >>> found = replay(log, models=["small", "large"], prices=[1, 20])
    >>> found.reference_alone, 0.5 < found.saved_share < 0.8, found.promise.differ <= 0.05
    (40000.0, True, True)
    """
    source = str(frame) if isinstance(frame, (str, Path)) else ""
    table = read_frame(frame) if source else frame
    log = read_log(table, models, prices, score_suffix, group, truth, tokens_suffix)
    if reference is not None and reference not in log.models:
        raise ValueError(
            f"reference must be one of {', '.join(map(str, log.models))}, got {brief(reference)}"
        )
    R = len(log.models) - 1 if reference is None else log.models.index(reference)
    orders, seed = integer("orders", orders, 1), integer("seed", seed, 0)
    costs = log.prices.mean(axis=0)
    if not costs[R] > 0.0:
        raise ValueError(f"prices must be above 0 for the reference, {log.models[R]}, got {brief(prices)}")
    limits = {"agree": agree, "budget": budget, "error_cost": error_cost}
    if agree is None and budget is None and error_cost is None:
        limits["agree"] = agree = 0.95

    def promise(before: bool, **limits: float | None) -> Promise:
        with warnings.catch_warnings():
            # models that save nothing are in the table of all models
            warnings.simplefilter("ignore", UserWarning)
            return Promise(costs, reference=R, before=before, **limits)

    def sweep(before: bool, whole: Way) -> list[tuple[float, Way]]:
        played = agree if limits == {**dict.fromkeys(limits), "agree": agree} else None
        return [
            (level, whole if level == played else play.play("", promise(before, agree=level), orders=1))
            for level in SWEEP
        ]

    first, second = promise(False, **limits), promise(True, **limits)
    play = _Player(log, costs, R, orders, seed)
    alone = [play.alone(k) for k in range(len(log.models))]
    found, decided = play.play("promise", first), play.play("promise, before the call", second)
    price = PRICE_OF_ERROR * float(costs[R]) if error_cost is None else float(error_cost)
    given = ", ".join(f"{name} = {value:g}" for name, value in limits.items() if value is not None)
    return Replay(
        len(log.outputs),
        tuple(map(str, log.models)),
        tuple(float(price) for price in np.asarray(prices, dtype=float)),
        str(log.models[R]),
        float(log.prices[:, R].sum()),
        given,
        agree,
        alone,
        found,
        decided,
        play.chained("router (Pay-to-compare)", RoutedAnswers, costs, price),
        play.chained("adaptive rule (USS-A)", UssA, costs, price),
        sweep(False, found),
        sweep(True, decided),
        price,
        Path(source).name,
        currency_of(currency),
        log.unread,
    )


class _Player:
    """Plays policies on a log, and counts the money of each request."""

    def __init__(self, log: Log, costs: np.ndarray, reference: int, orders: int, seed: int) -> None:
        self.log, self.R, self.orders, self.seed = log, reference, orders, seed
        self.problems = [self._problem(costs, range(costs.size), order) for order in ("given", "shuffled")]
        self._ready: dict[Any, Compiled] = {}

    def _problem(self, costs: np.ndarray, stages: Any, order: str) -> NotedProblem:
        outputs = self.log.outputs[:, list(stages)]
        scores = None if self.log.scores is None else self.log.scores[:, list(stages)]
        return NotedProblem(outputs[:, -1], outputs, scores, costs, groups=self.log.groups, order=order)

    def alone(self, k: int) -> Way:
        """Return what a model alone would have been."""
        n = len(self.log.outputs)
        called = np.zeros(self.log.outputs.shape, dtype=bool)
        called[:, k] = True
        return self._way(f"{self.log.models[k]} alone", [(called, np.full(n, k))])

    def play(self, name: str, policy: Any, orders: int = 0) -> Way:
        """Play a policy over the log in its own order, then in random ones."""
        runs = []
        for order in range(orders or self.orders + 1):
            called, answered, state = self._run(self.problems[min(order, 1)], policy, order)
            runs.append((called, answered))
            if order == 0:
                last = copy.copy(policy)
                vars(last).update(state)
                known = (last.at_most(0), last.estimate[0] + last.blind[0])
                bound, about = (min(float(one) / len(answered), 1.0) for one in known)
        return dataclasses.replace(self._way(name, runs), differ_at_most=bound, differ_estimate=about)

    def chained(self, name: str, make: Any, costs: np.ndarray, price: float) -> Way:
        """Play a policy over the models up to the price of the reference, which is the last stage."""
        chain = [
            k for k in np.argsort(costs, kind="stable").tolist() if k != self.R and costs[k] <= costs[self.R]
        ]
        chain.append(self.R)
        runs = []
        for order in range(self.orders + 1):
            problem = self._problem(costs[chain] / price, chain, "given" if order == 0 else "shuffled")
            seen, stage, _ = self._run(problem, make(problem.costs), order)
            called = np.zeros(self.log.outputs.shape, dtype=bool)
            called[:, chain] = seen
            runs.append((called, np.array(chain)[stage]))
        return self._way(name, runs)

    def _run(
        self, problem: NotedProblem, policy: Any, order: int
    ) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        n = len(self.log.outputs)
        key = type(policy)
        if key not in self._ready:
            self._ready[key] = Compiled(problem, policy)
        width = len(loop_for(problem, policy).counters(problem))
        world, one = problem.world(), copy.deepcopy(policy)
        counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
        generators = streams(problem, policy, self.seed, order)
        _, state = self._ready[key].play(one, world, *generators, np.array([n]), counts, table)
        return world.called, world.answered, state

    def _way(self, name: str, runs: list[tuple[np.ndarray, np.ndarray]]) -> Way:
        log, n = self.log, len(self.log.outputs)
        rows = np.arange(n)
        spent = [float((log.prices * called).sum()) for called, _ in runs]
        unlike = [log.outputs[rows, answered] != log.outputs[:, self.R] for _, answered in runs]
        differ = [float(one.mean()) for one in unlike]
        called, answered = runs[0]
        groups = {} if log.groups is None else {
            str(kind): float(unlike[0][log.groups == kind].mean()) for kind in np.unique(log.groups)
        }  # fmt: skip
        parts = np.array_split((log.prices * called).sum(axis=1), 10)
        whole = np.array_split(log.prices[:, self.R], 10)
        return Way(
            name,
            spent[0],
            differ[0],
            None if log.wrong is None else float(log.wrong[rows, answered].mean()),
            (min(spent), max(spent)),
            (min(differ), max(differ)),
            answered=tuple(float((answered == k).mean()) for k in range(len(log.models))),
            by_group=groups,
            course=tuple(
                float(part.sum() / max(base.sum(), 1e-300)) for part, base in zip(parts, whole) if part.size
            ),
        )
