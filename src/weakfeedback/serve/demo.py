"""``weakfeedback serve --demo``: watch learners learn from simulated models; no key, no network.

Three models answer made-up questions. `SKILLS` says how good they are (the share of questions that each answers
correctly); the learners do not know it. An hour is simulated as fast as possible, so that the page has something to
show; after that, questions keep coming.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from weakfeedback.serve.auth import Auth
from weakfeedback.serve.models import CONFIG, DecideRequest, FeedbackBatch, FeedbackItem, TellRequest
from weakfeedback.serve.outbox import now
from weakfeedback.serve.service import Service

MODELS = ("rules", "small", "large")
SKILLS = (0.72, 0.93, 0.98)  # share of the questions that each answers correctly
WORSE = (0.72, 0.74, 0.98)  # after the small model was changed
PRICES = [0.0002, 0.002, 0.03]
ERROR_COST = 0.25
LABELS = ("billing", "delivery", "account", "other")
NEEDS = {"north": 0.5, "south": 0.7, "east": 0.4, "west": 0.9}  # patrols from which on nothing happens
RISKS = {"north": 0.3, "south": 0.6, "east": 0.5, "west": 0.2}
HISTORY = 60  # minutes that are simulated before the page is shown
PER_MINUTE = 30  # questions to each learner
SLOWER = 3  # an adaptive learner, asked after every answer, gets this many times fewer questions
PERIOD = 0.5  # seconds between rounds of live questions

_money = {"currency": "USD", "seed": 1}
_priced = {"error_cost": ERROR_COST, **_money}
LEARNERS: dict[str, dict[str, Any]] = {
    "support": {"kind": "cascade", "stages": list(MODELS), "stage_costs": PRICES, **_priced},
    "mailroom": {"kind": "router", "models": list(MODELS), "prices": PRICES, "agree": 0.95, **_money},
    "returns": {"kind": "contextual", "stages": ["rules", "large"], "stage_costs": [0.0002, 0.03], **_priced},
    "claims": {"kind": "adaptive", "stages": list(MODELS), "stage_costs": PRICES, **_priced},
    "refunds": {"kind": "cascade", "stages": list(MODELS), "stage_costs": PRICES, **_priced},
    "patrols": {"kind": "allocation", "arms": list(NEEDS), "budget": 1.6, "seed": 1},
}


class Clock:
    """The clock of the service: in the past while history is simulated, then the real one."""

    def __init__(self) -> None:
        self.behind = HISTORY * 60_000_000  # microseconds behind the real time; 0 once the history is over
        self.end = now()  # end of the history
        self._last = 0

    def __call__(self) -> int:
        """Return the time in microseconds since 1970."""
        told = self.end - self.behind if self.behind else now()
        self._last = max(self._last, told)
        return self._last


class World:
    """Questions, and what the models answer to them."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def answers(self, skills: tuple[float, ...], hardness: float | None = None) -> list[str]:
        """Return the models' answers to one question: each is right if the question is not too hard for it."""
        hard = self.dice.random() if hardness is None else hardness
        truth, wrong = self.dice.sample(LABELS, 2)
        return [truth if hard < skill else wrong for skill in skills]

    def observed(self, allocation: dict[str, float]) -> dict[str, float]:
        """Return what happens at each place; nothing where there are enough patrols."""
        return {
            arm: float(given < NEEDS[arm] and self.dice.random() < RISKS[arm])
            for arm, given in allocation.items()
        }


class Load:
    """Asks every learner, and tells it what was seen."""

    def __init__(self, service: Service) -> None:
        self.service, self.world = service, World(7)
        self.rounds = 0

    async def create(self) -> None:
        """Create the learners, unless they exist."""
        for name, config in LEARNERS.items():
            if name not in self.service.learners:
                await self.service.create(name, CONFIG.validate_python(config))

    async def ask(self, counts: dict[str, int], changed: bool, forgotten: float = 0.01) -> None:
        """Play ``counts`` rounds with each learner; a few are never answered."""
        asked = [(name, count) for name, count in counts.items() if count]
        await asyncio.gather(*(self._ask_one(name, count, changed, forgotten) for name, count in asked))

    async def _ask_one(self, name: str, count: int, changed: bool, forgotten: float) -> None:
        dice, kind = self.world.dice, LEARNERS[name]["kind"]
        if kind == "adaptive":
            await asyncio.gather(*(self._ask_on(name) for _ in range(-(-count // SLOWER))))
            return
        hardness = [dice.random() for _ in range(count)]
        contexts: list[Any] = [[2.0 * hard - 1.0, dice.uniform(-1.0, 1.0)] for hard in hardness]
        asked = DecideRequest(count=count, contexts=contexts if kind == "contextual" else None)
        decisions = (await self.service.decide(name, asked))["decisions"]
        items = []
        for decision, hard in zip(decisions, hardness):
            if dice.random() < forgotten:
                continue
            if kind == "allocation":
                seen = self.world.observed(decision["allocation"])
                items.append(FeedbackItem(id=decision["id"], observed=dict(seen)))
            elif kind != "router" or len(decision["call"]) > 1:
                items.append(
                    FeedbackItem(id=decision["id"], outputs=self._outputs(name, decision, hard, changed))
                )
        if items:
            await self.service.feedback_batch(name, FeedbackBatch(items=items))
        self.rounds += count

    async def _ask_on(self, name: str) -> None:
        """Play one round of a learner that decides after every answer."""
        said = self.world.answers(SKILLS)
        step = await self.service.begin(name)
        while step["stage"] is not None:
            told = TellRequest(output=said[step["stage"]], stage=step["stage"])
            step = await self.service.tell(name, step["id"], told)
        self.rounds += 1

    def _outputs(self, name: str, decision: dict[str, Any], hard: float, changed: bool) -> list[str]:
        config = LEARNERS[name]
        names = config.get("stages") or config["models"]
        skills: tuple[float, ...] = WORSE if changed and name == "refunds" else SKILLS
        if config["kind"] == "contextual":
            skills = (0.6, 0.98)
        said = dict(zip(names, self.world.answers(skills, hard)))
        return [said[model] for model in decision["call"]]

    async def play_past(self, clock: Clock, minutes: int = HISTORY) -> None:
        """Play an hour as fast as possible; in its last quarter the small model of "refunds" becomes worse."""
        for minute in range(minutes):
            clock.behind = (minutes - minute) * 60_000_000
            counts = {name: max(1, round(self.world.dice.gauss(PER_MINUTE, 6.0))) for name in LEARNERS}
            await self.ask(counts, changed=minute > 0.75 * minutes)
        clock.behind = 0
        seconds = (clock() - clock.end) / 1e6  # that the simulation has taken
        await self.ask({name: 1 + int(seconds * PER_MINUTE / 60.0) for name in LEARNERS}, changed=True)

    async def go_on(self) -> None:
        """Ask a few questions at intervals, until the service ends."""
        while self.service.state == "ready" and not self.service.draining:
            mean = PER_MINUTE * PERIOD / 60.0
            counts = {name: int(mean + self.world.dice.random()) for name in LEARNERS}
            await self.ask(counts, changed=True)
            await asyncio.sleep(PERIOD)


# What the demo does once the service runs; each part returns further operations and routes, as an extension of the
# server does.
Part = Callable[[Service, Clock, Auth], Awaitable[dict[str, Any]]]


async def questions(service: Service, clock: Clock, _: Auth) -> dict[str, Any]:
    """Add the learners, an hour of history, and a continuous load."""
    load = Load(service)
    await load.create()
    await load.play_past(clock)
    service.spawn(load.go_on())
    return {}


async def proxy(service: Service, _: Clock, auth: Auth) -> dict[str, Any]:
    """Add a proxy with simulated language models, and questions that go through it."""
    from weakfeedback.serve.proxy.demo import add_demo

    return await add_demo(service, auth)


PARTS: list[Part] = [questions, proxy]


def extension(clock: Clock) -> Callable[..., Awaitable[dict[str, Any]]]:
    """Return the demo as an extension of the server."""

    async def extend(service: Service, auth: Auth, *_: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"operations": [], "routes": []}
        for part in PARTS:
            more = await part(service, clock, auth)
            found["operations"] += more.get("operations", ())
            found["routes"] += more.get("routes", ())
            found |= {key: more[key] for key in ("close", "models") if key in more}
        return found

    return extend
