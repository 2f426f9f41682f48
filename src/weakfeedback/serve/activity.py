"""What the page shows of a learner in addition to its report: a fold of its events, without HTTP and without SQL.

::

    event --> Activity.see --> series   minutes: decisions, stops, comparisons, money
                        --> drift    a detector for every pair of stages
                        --> open     decisions that wait, with their age
                        --> recent   the last decisions and how they ended
                        --> prices   every change of the prices;  audits   the last ones

Replay rebuilds all of it, bit for bit. Answers that changed nothing (duplicates, conflicts, late ones) and calls of
upstream models are not events: `note` counts them in a separate series, which lasts as long as the process.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from weakfeedback.journal.events import Event
from weakfeedback.serve.drift import Drift
from weakfeedback.serve.invoice import alone_of, calls_of, money_of
from weakfeedback.serve.series import KEPT, Series, added, total

RECENT = 20  # decisions
CHANGES = 100  # of prices that are kept
AUDITS = 20
WATCHED = ("cascade", "router")  # kinds with drift detectors: they compare without looking at the sample
ALL_PAIRS = 8  # with up to this many stages every pair is counted by minute, with more only neighbours
SETS = 1000  # of stages called together that are cached
TOKENS = ("tokens_in", "tokens_cached", "tokens_out")
RESULTS = ("duplicate", "conflict", "late")


class Activity:
    """What the page shows of one learner.

    Parameters
    ----------
    kind : str
        "cascade", "contextual", "adaptive", "router" or "allocation".
    names : K strings
        Names of the stages, models or arms.
    costs : K numbers
        Stated costs of the stages or prices of the models; none for an allocation.
    baseline : int, optional
        The stage that is the alternative to learning: always called, and alone. The last one by default.
    """

    def __init__(
        self, kind: str, names: Sequence[str], costs: Sequence[float] = (), baseline: int | None = None
    ) -> None:
        self.kind, self.names = kind, tuple(names)
        self.costs = [float(cost) for cost in costs]
        self.baseline = len(self.names) - 1 if baseline is None else baseline
        self.pairs = [] if kind == "allocation" else pairs_of(len(self.names))
        self.series = Series(columns_of(kind, len(self.names), self.pairs))
        self.noted = Series(noted_columns_of(kind, len(self.names)))  # not in snapshots
        place = self.series.place
        self._spent = place.get("spent", 0)  # the next column is "saved"
        self._stops = [place[f"stop_{k}"] for k in range(len(self.names))] if kind != "allocation" else []
        self._places = {
            (i, j): (place[f"compared_{i}_{j}"], place[f"differed_{i}_{j}"]) for i, j in self.pairs
        }
        self.drift = Drift()
        self.open: dict[int, list[Any]] = {}  # id -> [at, stage or None, called stages, or classes so far]
        self.strayed: dict[int, list[int]] = {}  # id -> called stages, where not 0, 1, 2, ...
        self.recent: dict[int, dict[str, Any]] = {}  # by decision, oldest first
        self.prices: deque[dict[str, Any]] = deque(maxlen=CHANGES)
        self.audits: deque[dict[str, Any]] = deque(maxlen=AUDITS)
        self.given = [0.0] * len(self.names)  # total given to each arm of an allocation
        self.stops = [0] * len(self.names)  # decisions that stopped at each stage
        self.alarmed: int | None = None  # when the last alarm was raised
        self._among: dict[Any, list[tuple[Any, Any, Any, Any]]] = {}  # sets of stages -> their pairs
        self.differed: dict[tuple[int, int], list[int]] = {}  # pair -> comparisons, differences
        self.decided, self.spent, self.saved, self.wasted = 0, 0.0, 0.0, 0.0
        self.ends = {"accepted": 0, "cancelled": 0, "expired": 0}
        self.billed = False  # whether money comes from bills, not from stated prices
        self.early = False  # whether answers go out before they are compared

    def see(self, event: Event) -> None:
        """Take one event into account; kinds that show nothing are ignored."""
        step = self._steps.get(event.kind)
        if step is not None:
            step(self, event)

    def note(self, at: int, column: str, amount: float = 1.0) -> None:
        """Count something that is not an event: an answer that changed nothing, or a call of an upstream model."""
        self.noted.add(at, column, amount)

    def read(self, start: int, end: int, step: int = 60) -> dict[str, Any]:
        """Return the sums by step of all columns; see `Series.read`."""
        read, noted = self.series.read(start, end, step), self.noted.read(start, end, step)
        for name, values in noted["columns"].items():
            known = read["columns"].get(name)
            read["columns"][name] = values if known is None else list(map(added, known, values))
        return read

    def ages(self, now: int) -> list[float]:
        """Return how long each open decision has waited, in seconds, oldest first."""
        return sorted((max(0.0, (now - at) / 1e6) for at, _, _ in self.open.values()), reverse=True)

    def minute_of(self, ago: int) -> int | None:
        """Return when the decision was made that ``ago`` others followed: its minute, if that is still kept."""
        last = self.series.last()
        if last is None:
            return None
        read = self.series.read(last - 60 * (KEPT - 1), last + 60, 60, ["decisions"])
        for at, made in zip(reversed(read["at"]), reversed(read["columns"]["decisions"])):
            if ago < made:
                return int(at) * 1_000_000
            ago -= int(made)
        return None

    # -- one method for each kind of event

    def _decide(self, event: Event) -> None:
        body, place, row = event.body, self.series.place, self._count_decision(event)
        if "allocation" in body:
            for k, amount in enumerate(body["allocation"]):
                row[place[f"given_{k}"]] = added(row[place[f"given_{k}"]], amount)
                self.given[k] = added(self.given[k], amount)
            self._opened(event, None, None)
            return
        stage = body["answer"] if "call" in body else body["stage"]
        self._count_stop(row, stage)
        called = body.get("call")
        if called is not None:  # a router spends its money with the decision
            costs = body.get("prices", self.costs)  # a request may have its own
            self._pay(row, total(costs[k] for k in called), costs[self.baseline])
            if len(called) == 1:  # nothing to compare, nothing to wait for
                self._remember(event, stage, called, "done")
                return
        self._opened(event, stage, called)

    def _begin(self, event: Event) -> None:
        self._count_decision(event)
        self._opened(event, None, [])

    def _tell(self, event: Event) -> None:
        known = None if event.decision is None else self.open.get(event.decision)
        if known is None:
            return
        assert event.decision is not None
        body, classes, stage = event.body, known[2], int(event.body["stage"])
        called = [*self.strayed.get(event.decision, range(len(classes))), stage]
        classes.append(body["class"])
        if body["next"] is not None:
            if stage != len(called) - 1 or event.decision in self.strayed:
                self.strayed[event.decision] = called
            return
        self.strayed.pop(event.decision, None)
        if self.early and 0.0 < body.get("chance", 1.0) < 1.0:
            stage = int(body["first"])
        self._count_stop(self.series.row(event.at), stage)
        # the feedback that follows has the differences and the costs
        known[1], known[2] = stage, None if called == list(range(stage + 1)) else called
        self._remembered(event.decision, stage=stage)

    def _feedback(self, event: Event) -> None:
        known = self._count_end(event, "accepted")
        row, place, body = self.series.row(event.at), self.series.place, event.body
        self._remembered(event.decision, state="answered", ended=event.at)
        if known is None:
            return
        _, stage, called = known
        if "observed" in body:
            for k, seen in enumerate(body["observed"]):
                if seen > 0.0:
                    row[place[f"seen_{k}"]] += 1
                    row[place[f"observed_{k}"]] = added(row[place[f"observed_{k}"]], seen)
            return
        paid = body.get("costs")
        if called is not None and self.kind == "adaptive" and paid is not None and len(paid) == len(called):
            # stages that were named, in the order of their calls
            alone = (
                paid[called.index(self.baseline)] if self.baseline in called else self.costs[self.baseline]
            )
            self._pay(row, total(paid), float(alone))
            called = sorted(called)
        elif called is None or self.kind == "adaptive":
            spent = total(self.costs[: stage + 1]) if paid is None else total(paid)
            self._pay(row, spent, self._alone(paid))
            called = range(stage + 1)
        self._compare(event.at, called, body.get("differ"), body.get("far"))

    def _end(self, event: Event) -> None:
        word = "cancelled" if event.kind == "cancel" else "expired"
        self._count_end(event, word)
        wasted = 0.0 if self.billed else event.body.get("cost", 0.0)
        self.series.add(event.at, "wasted", wasted)
        self.wasted = added(self.wasted, wasted)
        self._remembered(event.decision, state=word, ended=event.at)

    def _serve(self, event: Event) -> None:
        """Count a proxied request without comparison."""
        body, stage, row = event.body, int(event.body["stage"]), self._count_decision(event)
        self._count_stop(row, stage)
        self._pay(row, body.get("cost", self.costs[stage]), body.get("alone", self.costs[self.baseline]))
        for column, amount in zip(TOKENS, body.get("tokens", ())):
            row[self.series.place[column]] += amount
        if event.decision is not None:
            self._remember(event, stage, [stage], "done")

    def _terms(self, event: Event) -> None:
        """Begin to count bills; what was counted at stated prices is no invoice."""
        self.baseline = int(event.body["baseline"])
        if not self.billed:
            self.billed = True
            self.series.clear(("spent", "saved", "wasted"))
            self.spent = self.saved = self.wasted = 0.0

    def _bill(self, event: Event) -> None:
        """Count the money and the tokens of calls."""
        bill, place = event.body, self.series.place
        row, spent = self.series.row(event.at), money_of(bill)
        self._count_money(row, spent, alone_of(bill))
        for call in calls_of(bill):
            for column, amount in zip(TOKENS, (call.input, call.cached, call.output)):
                row[place[column]] += amount
            if call.purpose == "lost":
                row[place["wasted"]] += call.money
                self.wasted += call.money

    def _warm(self, event: Event) -> None:
        body, everyone = event.body, range(len(self.names))
        for row in range(len(body["far"] if "differ" not in body else body["differ"])):
            differ, far = (body[key][row] if key in body else None for key in ("differ", "far"))
            self._compare(event.at, everyone, differ, far)

    def _recost(self, event: Event) -> None:
        self.costs = [float(cost) for cost in event.body["stage_costs"]]
        self.prices.append({"at": event.at, **event.body})

    def _models(self, event: Event) -> None:
        """Go on with other models: the sums of those that stay stay theirs."""
        kept, prices = event.body["kept"], event.body["prices"]
        place = {was: k for k, was in enumerate(kept) if was >= 0}
        state = self.state()
        names = event.body.get("names") or [str(k) for k in range(len(kept))]
        baseline = event.body.get("reference", len(kept) - 1)  # without a promise the last one of now
        state |= {"names": names, "costs": prices, "baseline": baseline, "open": [], "recent": []}
        state["series"]["columns"] = [_moved(name, place) for name in state["series"]["columns"]]
        state["stops"] = [state["stops"][was] if was >= 0 else 0 for was in kept]
        state["given"] = [0.0] * len(kept)
        for part in ("drift", "differed"):
            rows = [row for row in state[part] if row[0] in place and row[1] in place]
            state[part] = [[place[i], place[j], *rest] for i, j, *rest in rows]
        self.restore(state)
        self.prices.append({"at": event.at, "stage_costs": prices})

    def _check_again(self, event: Event) -> None:
        self._pay(self.series.row(event.at), event.body["cost"], 0.0)

    def _promise(self, event: Event) -> None:
        """Count money against the reference in force."""
        self.baseline = int(event.body["reference"])

    def _audit(self, event: Event) -> None:
        self.audits.append({"at": event.at, **event.body})

    _steps: ClassVar[dict[str, Callable[[Activity, Event], None]]] = {
        "decide": _decide,
        "begin": _begin,
        "tell": _tell,
        "feedback": _feedback,
        "cancel": _end,
        "expire": _end,
        "serve": _serve,
        "terms": _terms,
        "bill": _bill,
        "warm": _warm,
        "recost": _recost,
        "models": _models,
        "promise": _promise,
        "self_check": _check_again,
        "audit": _audit,
    }

    # -- what these share

    def _count_decision(self, event: Event) -> list[float]:
        row = self.series.row(event.at)
        row[self.series.place["decisions"]] += 1
        self.decided += 1
        return row

    def _count_stop(self, row: list[float], stage: int) -> None:
        row[self._stops[stage]] += 1
        self.stops[stage] += 1

    def _opened(self, event: Event, stage: int | None, called: Any) -> None:
        if event.decision is not None:
            self.open[event.decision] = [event.at, stage, called]
        self._remember(event, stage, called, "open")

    def _count_end(self, event: Event, word: str) -> list[Any] | None:
        self.ends[word] += 1
        self.series.row(event.at)[self.series.place[word]] += 1
        if event.decision is None:
            return None
        self.strayed.pop(event.decision, None)
        return self.open.pop(event.decision, None)

    def _pay(self, row: list[float], spent: float, alone: float) -> None:
        """Count money at stated prices, unless there are bills."""
        if not self.billed:
            self._count_money(row, spent, alone)

    def _count_money(self, row: list[float], spent: float, alone: float) -> None:
        place, saved = self._spent, added(alone, -spent)
        row[place] = added(row[place], spent)
        row[place + 1] = added(row[place + 1], saved)
        self.spent, self.saved = added(self.spent, spent), added(self.saved, saved)

    def _alone(self, paid: Sequence[float] | None) -> float:
        """Return what the baseline alone would have cost; if it was called, what was paid for it."""
        base = self.baseline
        return self.costs[base] if paid is None or len(paid) <= base else float(paid[base])

    def _compare(self, at: int, called: Sequence[int], differ: Any, far: Any = None) -> None:
        """Count a comparison: pairs that differ or, where there are none, distances of all pairs."""
        if len(called) < 2:
            return
        row, raised = self.series.row(at), 0
        unlike: dict[tuple[int, int], float] = {}
        if differ is not None:
            unlike = dict.fromkeys([(i, j) for i, j in differ], True)
        elif far is not None:
            unlike = dict(zip(itertools.combinations(called, 2), far))
        for pair, places, counts, detector in self._pairs_among(called):
            differs = unlike.get(pair, False)
            counts[0] += 1
            counts[1] += differs
            if places is not None:
                row[places[0]] += 1
                row[places[1]] += differs
            if detector is not None:
                raised += detector.add(differs, at)
        if raised:
            row[self.series.place["alarms"]] += raised
            self.alarmed = at

    def _pairs_among(self, called: Sequence[int]) -> list[tuple[Any, Any, Any, Any]]:
        """Return each pair of these stages with its columns, its counts and its detector."""
        key = called if isinstance(called, range) else tuple(called)
        known = self._among.get(key)
        if known is None:
            known, stages = [], sorted(called)  # an early answer stands last, whatever its number
            for k, j in enumerate(stages):
                for pair in [(i, j) for i in stages[:k]]:
                    counts = self.differed.setdefault(pair, [0, 0])
                    detector = self.drift.detector(pair) if self.kind in WATCHED else None
                    known.append((pair, self._places.get(pair), counts, detector))
            if len(self._among) >= SETS:
                self._among.clear()
            self._among[key] = known
        return known

    def _remember(self, event: Event, stage: int | None, called: Any, state: str) -> None:
        if event.decision is None:  # a request that was served without a decision
            return
        shown: dict[str, Any] = {"id": event.decision, "at": event.at}
        shown |= {"stage": stage, "state": state, "ended": None}
        if "allocation" in event.body:
            shown["allocation"] = event.body["allocation"]
        elif self.kind == "router":
            shown["call"] = list(called)
        if event.body.get("group"):
            shown["group"] = event.body["group"]
        self.recent[shown["id"]] = shown
        if len(self.recent) > RECENT:
            del self.recent[next(iter(self.recent))]

    def _remembered(self, id: int | None, **news: Any) -> None:
        shown = None if id is None else self.recent.get(id)
        if shown is not None:
            shown.update(news)

    # -- as an observer of a learner of the service

    @classmethod
    def of(cls, learner: Any) -> Activity:
        """Return the watch of a new learner."""
        config = learner.config
        costs = getattr(config, "stage_costs", None) or getattr(config, "prices", None) or ()
        promised = getattr(learner.core.terms, "promise", None)
        made = cls(
            learner.kind.name, learner.kind.names, costs, None if promised is None else promised.reference
        )
        made.early = promised is not None and promised.background
        return made

    def restore(self, state: Any) -> None:
        """Continue from a result of ``state``."""
        early = self.early
        self.__dict__.update(Activity.from_state(state).__dict__)
        self.early = early

    # -- snapshots

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data, as a copy: it is written while the watch continues."""
        return {
            "kind": self.kind,
            "names": list(self.names),
            "costs": list(self.costs),
            "baseline": self.baseline,
            "billed": self.billed,
            "series": self.series.state(),
            "drift": self.drift.state(),
            "open": [
                [id, at, stage, None if called is None else list(called)]
                for id, (at, stage, called) in self.open.items()
            ],
            **({"strayed": [[id, list(one)] for id, one in self.strayed.items()]} if self.strayed else {}),
            "recent": [dict(shown) for shown in self.recent.values()],
            "prices": [dict(change) for change in self.prices],
            "audits": [dict(audit) for audit in self.audits],
            "ends": dict(self.ends),
            "stops": list(self.stops),
            "given": list(self.given),
            "differed": [[*pair, *counts] for pair, counts in self.differed.items()],
            "sums": [self.decided, self.spent, self.saved, self.wasted],
        }

    @classmethod
    def from_state(cls, state: Any) -> Activity:
        """Return the watch restored from ``state``; ValueError for anything else."""
        try:
            made = cls(state["kind"], state["names"], state["costs"], state["baseline"])
            made.billed = bool(state.get("billed", False))
            made.series = Series.from_state(state["series"], made.series.columns)
            # earlier versions counted pairs with an early answer the wrong way round, and never their differences
            made.drift = Drift.from_state([row for row in state["drift"] if row[0] < row[1]])
            made.alarmed = max((alarm.at for alarm in made.drift.marks()), default=None)
            made.open = {int(id): [at, stage, called] for id, at, stage, called in state["open"]}
            made.strayed = {int(id): list(called) for id, called in state.get("strayed", ())}
            made.recent = {int(shown["id"]): dict(shown) for shown in state["recent"]}
            for name in ("prices", "audits"):
                getattr(made, name).extend(dict(item) for item in state[name])
            made.ends.update({name: int(state["ends"][name]) for name in made.ends})
            made.stops = [int(count) for count in state["stops"]]
            made.given = [float(amount) for amount in state["given"]]
            made.differed = {(i, j): [tries, count] for i, j, tries, count in state["differed"] if i < j}
            made.decided, made.spent, made.saved, made.wasted = state["sums"]
        except (LookupError, TypeError, ValueError) as error:
            raise ValueError(f"not the state of a watch: {error}") from None
        return made


def _moved(column: str, place: dict[int, int]) -> str:
    """Return the name of a column when its models have other numbers; of one that is gone, none of another.

    >>> _moved("compared_0_2", {0: 0, 2: 1}), _moved("stop_1", {0: 0, 2: 1}), _moved("spent", {})
    ('compared_0_1', 'stop_gone', 'spent')
    """
    what, *numbers = column.split("_")
    if not numbers or not all(one.isdigit() for one in numbers):
        return column
    return "_".join([what, *(str(place.get(int(one), "gone")) for one in numbers)])


def pairs_of(stages: int) -> list[tuple[int, int]]:
    """Return the pairs that are counted by minute: all pairs of few stages, neighbours of many."""
    if stages > ALL_PAIRS:
        return [(i, i + 1) for i in range(stages - 1)]
    return [(i, j) for i in range(stages) for j in range(i + 1, stages)]


def columns_of(kind: str, size: int, pairs: Sequence[tuple[int, int]]) -> list[str]:
    """Return the columns filled by the events of a learner of this kind with ``size`` stages or arms."""
    columns = ["decisions", "accepted", "cancelled", "expired", "wasted"]
    if kind == "allocation":
        return columns + [f"{what}_{k}" for what in ("given", "seen", "observed") for k in range(size)]
    columns += ["spent", "saved", "alarms", *TOKENS, *(f"stop_{k}" for k in range(size))]
    return columns + [f"{what}_{i}_{j}" for i, j in pairs for what in ("compared", "differed")]


def noted_columns_of(kind: str, size: int) -> list[str]:
    """Return the columns for what is not an event."""
    if kind == "allocation":
        return list(RESULTS)
    calls = [
        f"{what}_{k}" for what in ("calls", "errors", "seconds", "streams", "first") for k in range(size)
    ]
    return [*RESULTS, *TOKENS, *calls]
