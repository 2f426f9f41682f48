"""Constructors of policies, problems and live objects: a ValueError, or an object that works."""

import inspect

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.fuzz.values import COSTS, NUMBERS, ODD, PROBABILITIES, fuzz, mostly, sizes

from weakfeedback import Allocator, Cascade, ContextualCascade, Player, Router
from weakfeedback.adaptive import AdaptiveProblem
from weakfeedback.allocation import AllocationProblem, knapsack
from weakfeedback.cascade import CascadeProblem
from weakfeedback.contextual import ContextualProblem, QuadraticFeatures, RealizableProblem
from weakfeedback.multiplayer import MultiplayerProblem
from weakfeedback.routing import RoutingProblem
from weakfeedback.settings.catalog import POLICIES

SMALL = st.integers(1, 5)
SHARE = st.sampled_from([1e-6, 0.01, 0.05, 0.2, 0.5, 0.9])
TABLE = st.lists(st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=2), min_size=2, max_size=4)
# What an argument of that name usually looks like; any other gets a number.
LIKELY = {
    "costs": COSTS,
    "prices": COSTS,
    "model": SMALL,
    "memory": st.integers(16, 500),
    "least": st.integers(1, 5000),
    "dimension": SMALL,
    "arms": SMALL,
    "budget": st.floats(0.1, 5.0),
    "arm": SMALL,
    "alpha": st.floats(0.01, 3.0),
    "delta": SHARE,
    "epsilon": SHARE,
    "gamma": SHARE,
    "step": SHARE,
    "thresholds": st.lists(PROBABILITIES, min_size=1, max_size=5),
    "means": st.lists(PROBABILITIES, min_size=1, max_size=5),
    "setting": st.sampled_from(["loss", "reward", "REWARD", "both"]),
    "rewards": st.sampled_from(["bernoulli", "uniform", "beta"]),
    "tolerance": st.sampled_from(["eps/N", "eps", 0.5]),
    "served": st.sampled_from(["wait", "keep"]),
    "transfer": st.sampled_from(["exact", "eps/2"]),
    "bonus": st.sampled_from(["alpha", "beta"]),
    "labels": st.sampled_from(["random", "thresholded", 2, 5]),
    "judge": st.sampled_from(["last", "score", "calibrated"]),
    "outputs": st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=2, max_size=4),
    "scores": st.lists(st.lists(PROBABILITIES, min_size=2, max_size=2), min_size=2, max_size=4),
    "chances": st.lists(st.lists(PROBABILITIES, min_size=2, max_size=2), min_size=2, max_size=4),
    "regret": st.sampled_from(["signed", "absolute"]),
    "horizon": st.integers(1, 1000),
    "learning_rounds": st.integers(1, 100),
    "players": SMALL,
    "outcomes": st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=2, max_size=2),
    "probabilities": st.sampled_from([[0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]),
    "errors": st.lists(st.floats(0.0, 0.5), min_size=1, max_size=3),
    "slip": st.floats(0.0, 0.2),
    "truth": st.lists(st.integers(0, 1), min_size=2, max_size=4),
    "predictions": st.lists(st.lists(st.integers(0, 1), min_size=2, max_size=2), min_size=2, max_size=4),
    "contexts": TABLE,
    "parameters": TABLE,
    "pair_parameters": st.one_of(TABLE, st.just([[0.1] * 6])),
    "intercepts": st.none(),
    "features": st.none(),
    "bound": st.floats(0.5, 3.0),
    "tradeoff": st.one_of(st.floats(0.1, 9.0), st.lists(st.floats(0.1, 9.0), max_size=3)),
    "values": st.lists(st.floats(0.0, 1.0), max_size=6),
    "weights": st.lists(st.floats(0.0, 1.0), max_size=6),
    "capacity": st.floats(0.0, 3.0),
}
PROBLEMS = {
    "CascadeProblem": CascadeProblem,
    "CascadeProblem.bsc": CascadeProblem.bsc,
    "CascadeProblem.from_predictions": CascadeProblem.from_predictions,
    "ContextualProblem": ContextualProblem,
    "RealizableProblem": RealizableProblem,
    "QuadraticFeatures": QuadraticFeatures,
    "AdaptiveProblem": AdaptiveProblem,
    "RoutingProblem": RoutingProblem,
    "RoutingProblem.from_predictions": RoutingProblem.from_predictions,
    "AllocationProblem": AllocationProblem,
    "MultiplayerProblem": MultiplayerProblem,
    "knapsack": knapsack,
}
CLASSES = [(setting, name) for setting in POLICIES for name in POLICIES[setting] if name != "CSB-DK"]


def arguments(function):
    """Arguments by name: those without a default, and some of the others."""
    required, optional = {}, {}
    for parameter in inspect.signature(function).parameters.values():
        likely = LIKELY.get(parameter.name, st.one_of(NUMBERS, st.booleans()))
        place = required if parameter.default is inspect.Parameter.empty else optional
        place[parameter.name] = mostly(likely)
    return st.fixed_dictionaries(required, optional=optional)


def made(function, given):
    """What a constructor gives, None if it refuses; a refusal is one line that says something."""
    try:
        return function(**given)
    except ValueError as error:
        refusal = str(error)
    except MemoryError:  # for arms without number
        return None
    assert len(refusal.splitlines()) == 1
    return None


@sizes(10, 2000)
@pytest.mark.parametrize(("setting", "name"), CLASSES)
def test_policies(setting, name, examples):
    kind = POLICIES[setting][name]

    @fuzz(examples, given=arguments(kind), seed=st.integers(0, 9))
    def check(given, seed):
        policy = made(kind, given)
        if policy is not None:
            PLAY[setting](policy, np.random.default_rng(seed))


def play_cascade(policy, rng):
    for _ in range(8):
        arm = policy.select(rng)
        assert 0 <= arm < policy.K
        policy.update(arm, rng.integers(2, size=arm + 1), rng)


def play_contextual(policy, rng):
    size = getattr(policy, "dimension", 3)
    if size > 40:
        return  # such features are no small thing
    told = {"truth": 1} if getattr(policy, "sees_truth", False) else {}
    for _ in range(4):
        phi = rng.uniform(-1.0, 1.0, size) / np.sqrt(size)
        arm = policy.select(phi, rng)
        assert 0 <= arm < policy.K
        policy.update(phi, arm, rng.integers(2, size=arm + 1), rng, **told)


def play_routing(policy, rng):
    for _ in range(8):
        call = policy.select(rng)
        assert call.shape == (policy.K,)
        assert call.any()
        policy.start(call, rng)
        policy.update(call, rng.integers(2, size=int(call.sum())), rng)
        assert 0 <= policy.settled() < policy.K


def play_adaptive(policy, rng):
    if hasattr(policy, "calibrate"):
        policy.calibrate(
            rng.integers(3, size=(6, policy.K)), rng.random((6, policy.K)), rng.integers(3, size=6)
        )
    for _ in range(20):
        outputs, scores = rng.integers(3, size=policy.K), rng.random(policy.K)
        arm = 0
        while arm < policy.K - 1:
            more = policy.go_on(arm, outputs[: arm + 1], scores[: arm + 1], rng)
            assert type(more) is bool
            if not more:
                break
            arm += 1
        policy.update(arm, outputs[: arm + 1], scores[: arm + 1], np.zeros(0), rng)


def play_allocation(policy, rng):
    for _ in range(8):
        allocation = policy.select(rng)
        assert allocation.shape == (policy.K,)
        assert (allocation >= 0.0).all()
        assert allocation.sum() <= policy.Q * (1.0 + 1e-9)
        policy.update(allocation, rng.random(policy.K), rng)


def play_alone(policy, rng):
    for _ in range(20):
        arm = policy.choose(rng)
        assert -1 <= arm < policy.K
        hit = bool(arm >= 0 and rng.random() < 0.3)
        policy.observe(arm, 0.0 if hit or arm < 0 else 1.0, hit, rng)


PLAY = {
    "cascade": play_cascade,
    "contextual": play_contextual,
    "adaptive": play_adaptive,
    "routing": play_routing,
    "allocation": play_allocation,
    "multiplayer": play_alone,
}


@pytest.mark.filterwarnings("ignore:Casting complex")  # to look for them would slow down every knapsack
@sizes(40, 3000)
@pytest.mark.parametrize("name", PROBLEMS)
def test_problems(name, examples):
    @fuzz(examples, given=arguments(PROBLEMS[name]))
    def check(given):
        problem = made(PROBLEMS[name], given)
        if hasattr(problem, "world"):
            assert str(problem)
            assert problem.digest() == PROBLEMS[name](**given).digest()
            counts = np.zeros(len(problem.loop().counters(problem)), dtype=np.int64)
            assert problem.measures(counts)["regret"] == 0.0


OWN = st.sampled_from([len, str, int, max, (lambda x: 1), print])
LIVE = {
    "stages": st.lists(OWN, min_size=1, max_size=4),
    "stage_costs": st.lists(st.floats(0.0, 9.0), min_size=1, max_size=4),
    "models": st.lists(OWN, min_size=1, max_size=4),
    "prices": st.lists(st.floats(0.0, 9.0), min_size=1, max_size=4).map(sorted),
    "metric": st.none(),
    "error_cost": st.floats(0.1, 99.0),
    "seed": st.one_of(st.integers(0, 9), st.none()),
    "combine": st.none(),
    "compare": st.none(),
    "timeout": st.none(),
    "keep": st.integers(100, 200),
    **{name: LIKELY[name] for name in ("arms", "budget", "setting", "epsilon", "delta", "alpha", "features")},
}
NAMES = {
    kind: sorted(POLICIES[setting])
    for kind, setting in (
        (Cascade, "cascade"),
        (ContextualCascade, "contextual"),
        (Router, "routing"),
        (Allocator, "allocation"),
        (Player, "multiplayer"),
    )
}


@sizes(40, 3000)
@pytest.mark.filterwarnings("ignore:at these prices no stage")  # many of these prices are odd
@pytest.mark.filterwarnings("ignore:nothing can be saved", "ignore:never called")
@pytest.mark.parametrize("kind", NAMES)
def test_live_objects(kind, examples):
    likely = LIVE | {"policy": st.sampled_from(NAMES[kind])}
    parameters = [p for p in inspect.signature(kind).parameters.values() if p.kind is not p.VAR_KEYWORD]
    required = {p.name: mostly(likely[p.name], 12) for p in parameters if p.default is p.empty}
    options = {p.name: p.name for p in parameters if p.default is not p.empty and p.name in likely}
    optional = {name: mostly(likely[name], 12) for name in options} | {
        name: mostly(LIKELY[name]) for name in ("alpha", "gamma", "horizon", "learning_rounds")
    }

    @fuzz(examples, given=st.fixed_dictionaries(required, optional=optional))
    def check(given):
        thing = made(kind, given)
        if thing is not None:
            assert thing.rounds == 0
            assert repr(thing)
            assert str(thing.report())


@sizes(60, 10_000)
def test_odd_policies_are_refused(examples):
    @fuzz(examples, policy=ODD)
    def check(policy):
        made(Cascade, {"stages": [len], "stage_costs": [1], "policy": policy})
        made(ContextualCascade, {"stages": [len], "stage_costs": [1], "policy": policy})
        made(Router, {"models": [len], "prices": [1], "policy": policy})
        made(Allocator, {"arms": 2, "budget": 1, "policy": policy})
        made(Player, {"arms": 2, "policy": policy})
