"""Learners of all kinds with a history, made through the service."""

import random
from pathlib import Path
from typing import Any

from tests.rig.harness import Caller, quick, serving

from weakfeedback.serve.service import Service

COSTS = {"stages": ["a", "b", "c"], "stage_costs": [0.5, 2.0, 5.0], "error_cost": 20.0}
LEARNERS: dict[str, dict[str, Any]] = {
    "uss-ts": {"kind": "cascade", **COSTS},
    "uss-ucb": {"kind": "cascade", "policy": "USS-UCB", **COSTS},
    "drift": {"kind": "cascade", "policy": "USS-TS-drift", **COSTS},
    "numbers": {"kind": "cascade", "compare": {"type": "number", "scale": 2.0}, **COSTS},
    "kept": {"kind": "cascade", "keep_outputs": True, "compare": {"type": "text"}, **COSTS},
    "context": {"kind": "contextual", **COSTS},
    "within": {"kind": "adaptive", **COSTS},
    "pay": {"kind": "router", "models": ["a", "b"], "prices": [1.0, 20.0], "error_cost": 100.0},
    "double": {"kind": "router", "policy": "Double-Thompson", "models": ["a", "b"], "prices": [1.0, 9.0]}
    | {"error_cost": 30.0},
    "csb-su": {"kind": "allocation", "policy": "CSB-SU", "arms": ["n", "s", "e"], "budget": 1.5},
    "csb-ts": {"kind": "allocation", "arms": ["n", "s"], "budget": 1.0, "setting": "reward"},
}
PROMISES: dict[str, dict[str, Any]] = {  # which are in no store that is kept
    "early": {"kind": "router", "models": ["a", "b", "c"], "prices": [1.0, 3.0, 20.0], "agree": 0.9}
    | {"background": True, "options": {"memory": 64}},
}
EVERY = LEARNERS | PROMISES


async def live_through(call: Caller, name: str, rounds: int, luck: random.Random) -> None:
    """Some rounds of one learner, with cancellations, late answers, new prices and a warm start."""
    config, place = EVERY[name], f"/v1/learners/{name}"
    kind, open_ones = config["kind"], []
    if kind == "adaptive":
        await tell_through(call, place, rounds, luck)
        return
    for n in range(rounds):
        body = {"context": [luck.choice([-1.0, 0.0, 1.0])]} if kind == "contextual" else {}
        reply = await call("POST", place + "/decide", body, idempotency_key=f"{name}{n}")
        assert reply.status == 200, reply.data
        if reply.data["expires"] is not None:
            open_ones.append(reply.data)
        if n == rounds // 2 and kind in ("cascade", "router"):
            field = "prices" if kind == "router" else "stage_costs"
            prices = [2 * price for price in config.get("prices") or config["stage_costs"]]
            await call("PATCH", place + "/costs", {field: prices})
            row = ["x"] * len(prices) if name == "kept" else [1] * len(prices)
            await call("POST", place + "/warm-start", {"outputs": [row]})
        while len(open_ones) > 5:
            one = open_ones.pop(luck.randrange(len(open_ones)))
            if luck.random() < 0.1:
                await call("POST", f"{place}/decisions/{one['id']}/cancel", {"cost": 0.5})
                continue
            reply = await call(
                "POST", f"{place}/decisions/{one['id']}/feedback", answer(kind, name, one, luck)
            )
            assert reply.status == 200, reply.data


async def tell_through(call: Caller, place: str, rounds: int, luck: random.Random) -> None:
    """Some rounds that decide after every answer; now and then one is left open."""
    for _ in range(rounds // 2):
        step = (await call("POST", place + "/begin", {})).data
        while step["stage"] is not None and luck.random() < 0.9:
            sent = {"output": luck.randrange(2), "score": luck.random()}
            reply = await call("POST", f"{place}/decisions/{step['id']}/tell", sent)
            assert reply.status == 200, reply.data
            step = reply.data


def answer(kind: str, name: str, one: dict[str, Any], luck: random.Random) -> dict[str, Any]:
    """The observation that belongs to a decision."""
    if kind == "allocation":
        return {"observed": {arm: float(luck.random() < 0.5) for arm in one["allocation"]}}
    if name in PROMISES:  # mostly the same, or no cheap answer goes out
        return {"outputs": [int(luck.random() < 0.04) for _ in one["call"]]}
    outputs: list[Any] = [luck.randrange(2) for _ in one["call"]]
    return {"outputs": [f"w {output}" for output in outputs] if name == "kept" else outputs}


async def make_history(
    path: Path, rounds: int, names: Any = tuple(LEARNERS), **options: Any
) -> dict[str, Any]:
    """Fill a store, and return the states of its learners as they were when the service ended."""
    luck = random.Random(5)
    async with serving(path, quick(durability="process", **options)) as (service, call):
        for name in names:
            assert (await call("PUT", f"/v1/learners/{name}", {**EVERY[name], "seed": 3})).status == 201
            await live_through(call, name, rounds, luck)
        states = states_of(service)
        for learner in service.learners.values():
            learner.pictured = learner.seq  # no snapshot at the end: all is replayed
    return states


def states_of(service: Service) -> dict[str, Any]:
    """All that a restart must bring back, by learner."""
    return {name: learner.picture() for name, learner in service.learners.items()}
