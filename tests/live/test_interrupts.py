"""A round is committed whole or not at all, whatever exception arrives at whatever line."""

import asyncio
import gc
import json
import random
import signal
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.live import inside
from tests.live.interrupts import Watch, attempt
from tests.live.kinds import KINDS, play

from weakfeedback import Allocator, Cascade, ContextualCascade, Player, Router
from weakfeedback.live import Costed

STAGES = [lambda x: x % 2, lambda x: x % 3, lambda x: x % 5]
COSTED = [lambda x: Costed(x % 2, 0.3), lambda x: x % 3, lambda x: Costed(x % 5, 0.1 * x)]
NUMBERS = [lambda x: 0.1 * (x % 2), lambda x: 0.3 * (x % 3), lambda x: 0.2 * (x % 5)]
COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}
CONTEXT = np.array([0.3, -0.2])


async def awaited(x):
    return x % 2


async def awaited_too(x):
    return x % 3


async def awaited_last(x):
    return x % 5


ASYNC = [awaited, awaited_too, awaited_last]


def distance(a, b):
    return abs(a - b)


def truth(x):
    return Costed(x % 2, 2.5)


class Wanders:
    """A policy of one's own that moves on when it chooses."""

    delay_safe = True

    def __init__(self):
        self.step = 0
        self.seen = np.zeros(3)

    def select(self, rng):
        self.step += 1
        return int(rng.random() * 3)

    def update_pairs(self, arm, differ, rng):
        self.seen[arm] += 1
        self.seen[0] += rng.random()


# -- gestures: what is done to an object whose decisions 21 and 22 (players: one slot) are open


def outputs_of(thing, id, stages=STAGES, x=7):
    decided = inside.decided(thing, id)
    arm = decided if isinstance(decided, int) else decided[0]
    return [stage(x) for stage in stages[: arm + 1]]


FAILS = 13  # the sample on which the first model of a router fails


def failing(x):
    if x == FAILS:
        raise OSError("no answer")
    return x % 2


MODELS = [failing, *STAGES[1:]]


def model_outputs(thing, id, x):
    return [STAGES[k](x) for k in inside.decided(thing, id)]


def first(thing):
    return thing.pending[0]


def feedback(thing):
    thing.feedback(first(thing), outputs_of(thing, first(thing)))


def feedback_numbers(thing):
    thing.feedback(first(thing), outputs_of(thing, first(thing), NUMBERS))


def feedback_far(thing):
    arm = inside.decided(thing, first(thing))
    thing.feedback_pairs(first(thing), [], far=[0.5, 0.2, 0.4][: arm * (arm + 1) // 2])


def feedback_pairs(thing):
    arm = len(outputs_of(thing, first(thing))) - 1
    thing.feedback_pairs(first(thing), [(0, 1)] if arm else [], costs=[0.5] * (arm + 1))


def feedback_label(thing):
    id = first(thing)
    outputs = outputs_of(thing, id, x=5)
    thing.feedback(id, outputs, *([Costed(1, 2.0)] if thing.wants_label(id, outputs) else []))


def cancel(thing):
    thing.cancel(first(thing), 2.5)


GESTURES = {
    "call": lambda thing: thing(7),
    "acall": lambda thing: asyncio.run(thing.acall(7)),
    "decide": lambda thing: thing.decide(),
    "feedback": feedback,
    "feedback of numbers": feedback_numbers,
    "feedback of distances": feedback_far,
    "feedback with a label": feedback_label,
    "feedback_pairs": feedback_pairs,
    "cancel": cancel,
    "batch": lambda thing: thing.answers([7, 8, 9, 10]),
    "warm_start": lambda thing: thing.warm_start([[0, 1, 0], [1, 1, 0]]),
    "warm_start of numbers": lambda thing: thing.warm_start([[0.1, 0.4, 0.9], [0.5, 0.5, 0.2]]),
    "recost": lambda thing: thing.recost([2, 2, 12], 25.0),
    "call with a context": lambda thing: thing(7, CONTEXT),
    "batch with contexts": lambda thing: thing.answers([7, 8, 9], contexts=[CONTEXT, -CONTEXT, CONTEXT]),
    "decide for a context": lambda thing: thing.decide(CONTEXT),
    "warm_start with contexts": lambda thing: thing.warm_start([CONTEXT] * 2, [[0, 1, 0], [1, 1, 0]]),
    "feedback of losses": lambda thing: thing.feedback(first(thing), [0.0, 1.0, None, 0.5]),
    "decide_many": lambda thing: thing.decide_many(3),
    "call sparing a failure": lambda thing: thing(FAILS),
    "batch sparing failures": lambda thing: thing.answers([7, FAILS, 9]),
    "feedback of models": lambda thing: thing.feedback(first(thing), model_outputs(thing, first(thing), 8)),
    "choose": lambda thing: thing.choose(),
    "observe": lambda thing: thing.observe(1.0, False),
}


@dataclass
class Case:
    """An object, how it is made again from its state, and what is done to it."""

    make: Any
    again: Any  # state -> object
    gestures: str
    begin: Any  # brings a new object to where the gestures start
    go_on: Any  # what is done afterwards: returns all that can be seen
    outputs: Any = None  # what the stages return for a sample, for what was wasted
    waits: bool = True  # whether a decision is open at the start
    like: str = ""  # a case that runs the same lines for the same gestures, except for its policy
    body: Any = field(default=None)
    known: dict[str, Any] = field(default_factory=dict)  # state -> what an object made from it does next


def cascade_rounds(stages, rounds=20, waiting=2):
    def begin(thing):
        rng = random.Random(3)
        for _ in range(rounds):
            id = thing.decide().id
            outputs = outputs_of(thing, id, stages, rng.randrange(100))
            thing.feedback(id, outputs)
        thing.cancel(thing.decide().id)
        for _ in range(waiting):
            thing.decide()

    return begin


def cascade_goes_on(stages):
    def go_on(thing):
        seen = []
        for x in (3, 4, 5):
            seen += [thing.feedback(id, outputs_of(thing, id, stages, x)) for id in thing.pending[:1]]
            seen.append(thing.decide())
        return seen

    return go_on


def contextual_begins(rounds):
    def begin(thing):
        for t in range(rounds):
            id = thing.decide(np.array([0.9 * np.sin(t), 0.9 * np.cos(3 * t)])).id
            thing.feedback(id, outputs_of(thing, id, x=3 * t))
        thing.decide(CONTEXT)
        thing.decide(-CONTEXT)

    return begin


def contextual_goes_on(thing):
    seen = []
    for x in (3, 4):
        seen += [thing.feedback(id, outputs_of(thing, id, x=x)) for id in thing.pending[:1]]
        seen.append(thing.decide(CONTEXT / x))
    return seen


def allocator_begins(thing):
    play(KINDS["Allocator"], thing, 20)
    thing.cancel(thing.decide().id)
    for _ in range(2):
        thing.decide()


def allocator_goes_on(thing):
    seen = []
    for _ in range(3):
        seen += [thing.feedback(id, [1.0, 0.0, 0.5, 0.0]) for id in thing.pending[:1]]
        decision = thing.decide()
        seen.append((decision.id, decision.allocation.tolist()))
    return seen


def router_begins(thing):
    rng = random.Random(3)
    for _ in range(8):
        decision = thing.decide()
        if len(decision.call) > 1:
            thing.feedback(decision.id, model_outputs(thing, decision.id, rng.randrange(100)))
    thing.cancel(thing.decide().id)
    while len(thing.pending) < 2:
        thing.decide()


def router_goes_on(thing):
    seen = []
    for x in (3, 4, 5):
        seen += [thing.feedback(id, model_outputs(thing, id, x)) for id in thing.pending[:1]]
        seen.append(thing.decide())
    return seen


def player_begins(thing):
    play(KINDS["Player"], thing, 41)


def player_waits(thing):
    player_begins(thing)
    thing.choose()


def player_goes_on(thing):
    seen = []
    for _ in range(4):
        seen.append((thing.slot, thing.choose()))
        thing.observe(0.0, False)
    return seen


def cascade(gestures, stages=STAGES, begin=None, waiting=2, outputs=None, again=None, like="", **options):
    given = {name: options[name] for name in ("metric", "label") if name in options}
    return Case(
        lambda: Cascade(stages, **COSTS, seed=1, **options),
        again
        or (lambda state, compiled=False: Cascade.from_state(state, stages, compiled=compiled, **given)),
        gestures,
        begin or cascade_rounds(outputs or stages, waiting=waiting),
        cascade_goes_on(outputs or stages),
        outputs=outputs or stages,
        waits=waiting > 0,
        like=like,
    )


CASES = {
    "USS-TS": cascade("call,decide,feedback,feedback_pairs,cancel,batch,warm_start,recost"),
    "USS-TS, little remembered": cascade("call,batch,feedback,cancel", remember=2, like="USS-TS"),
    "USS-TS, awaited": cascade("acall", stages=ASYNC, outputs=STAGES),
    "USS-TS, costs told": cascade("call,batch", stages=COSTED, like="USS-TS"),
    "USS-TS, metric": cascade(
        "call,feedback of numbers,feedback of distances,warm_start of numbers",
        stages=NUMBERS,
        metric=distance,
        like="USS-TS",
    ),
    "USS-TS-drift": cascade("call,feedback", policy="USS-TS-drift", like="USS-TS"),
    "USS-UCB": cascade("call,feedback,recost", policy="USS-UCB", like="USS-TS"),
    "Q-USS": cascade("call,decide", waiting=0, label=truth, label_price=3.0, outputs=STAGES),
    "Q-USS, waiting": cascade("feedback with a label,cancel", waiting=1, label=truth, label_price=3.0),
    "own": cascade(
        "call,decide,feedback,batch",
        policy=Wanders(),
        again=lambda state: Cascade.from_state(state, STAGES, policy=Wanders()),
    ),
}
CASES |= {
    "USS-PD": Case(
        lambda: ContextualCascade(STAGES, **COSTS, seed=1, keep=100, forced=10),
        lambda state: ContextualCascade.from_state(state, STAGES),
        "call with a context,decide for a context,feedback,feedback_pairs,cancel,batch with contexts,"
        "warm_start with contexts,recost",
        contextual_begins(30),
        contextual_goes_on,
        outputs=STAGES,
    ),
    "USS-PD, letting go": Case(  # the next feedback lets a quarter of the observations go
        lambda: ContextualCascade(STAGES, **COSTS, seed=1, keep=100, forced=10),
        lambda state: ContextualCascade.from_state(state, STAGES),
        "feedback",
        contextual_begins(99),
        contextual_goes_on,
    ),
    "USS-PD, growing": Case(  # the next feedback needs longer tables
        lambda: ContextualCascade(STAGES, **COSTS, seed=1, keep=None, forced=10),
        lambda state: ContextualCascade.from_state(state, STAGES),
        "feedback",
        contextual_begins(64),
        contextual_goes_on,
    ),
    "USS-PD-TS": Case(
        lambda: ContextualCascade(STAGES, **COSTS, policy="USS-PD-TS", seed=1, keep=100),
        lambda state: ContextualCascade.from_state(state, STAGES),
        "call with a context",
        contextual_begins(20),
        contextual_goes_on,
        outputs=STAGES,
    ),
    "USS-PD, first context": Case(
        lambda: ContextualCascade(STAGES, **COSTS, seed=1, keep=100, forced=10),
        lambda state: ContextualCascade.from_state(state, STAGES),
        "call with a context,decide for a context,batch with contexts,warm_start with contexts",
        lambda thing: None,
        contextual_goes_on,
        outputs=STAGES,
        waits=False,
    ),
    **{
        policy: Case(
            lambda policy=policy, options=options: Allocator(4, 1.0, policy, seed=1, **options),
            Allocator.from_state,
            "decide,feedback of losses,cancel",
            allocator_begins,
            allocator_goes_on,
            like="CSB-SU" * (policy != "CSB-SU"),
        )
        for policy, options in (("CSB-SU", {}), ("CSB-TS", {}), ("CSB-DU", {"gamma": 0.05}))
    },
    "Pay-to-compare": Case(
        lambda: Router(MODELS, [1.0, 4.0, 9.0], error_cost=30.0, seed=1),
        lambda state: Router.from_state(state, MODELS),
        "call,decide,decide_many,feedback of models,cancel,batch,warm_start,recost,call sparing a failure,"
        "batch sparing failures",
        lambda thing: router_begins(thing),
        lambda thing: router_goes_on(thing),
        outputs=STAGES,
    ),
    "DLC-LIX": Case(
        lambda: Player(4, "DLC-LIX", epsilon=0.3, seed=1),
        Player.from_state,
        "choose",
        player_begins,
        player_goes_on,
    ),
    "DLC-LIX, waiting": Case(
        lambda: Player(4, "DLC-LIX", epsilon=0.3, seed=1),
        Player.from_state,
        "observe,cancel",
        player_waits,
        player_goes_on,
    ),
}
PAIRS = [(name, gesture) for name, case in CASES.items() for gesture in case.gestures.split(",")]


def started(name):
    """The state from which the gestures of a case start."""
    case = CASES[name]
    if case.body is None:
        thing = case.make()
        case.begin(thing)
        case.body = thing.state()
    return case.body


def dump(state):
    return json.dumps(state, sort_keys=True)


def cancelled(case, gesture, samples, contexts):
    """The states of a call, or a batch, that was given up: so many decisions, so many calls of stages."""
    found = []
    for opened in range(1, len(samples) + 1):
        arms = [0] * opened
        probe = case.again(case.body)
        decided = [inside.decide(probe, *context) for context in contexts[:opened]]
        arms = [arm if isinstance(arm, int) else arm[0] for _, arm in decided]
        column = [(k, row) for k in range(3) for row in range(opened) if arms[row] >= k]
        steps = range(len(column) + 1) if opened == len(samples) else range(1)
        for calls in steps:
            thing = case.again(case.body)
            ids = [inside.decide(thing, *context)[0] for context in contexts[:opened]]
            for row, id in enumerate(ids):
                outputs = [case.outputs[k](samples[row]) for k, r in column[:calls] if r == row]
                prices = zip(outputs, inside.prices(thing))
                thing.cancel(id, sum(o.cost if isinstance(o, Costed) else p for o, p in prices))
            found.append(thing.state())
    return found


def router_given_up(case, samples):
    """The states of a call, or a batch, of a router: given up after so many calls, or with spared failures closed."""
    found = []
    for learned in (False, True):
        probe = case.again(case.body)
        decided = inside.core(probe).decide_many([()] * len(samples))
        order = [
            (k, row)
            for k in (2, 1, 0)
            for row, (_, call) in enumerate(decided)
            if k in call and (len(samples) > 1 or k == call[-1])
        ]
        if len(samples) == 1:  # the answering model first
            call = decided[0][1]
            order = [(k, 0) for k in (call[-1], *call[:-1])]
        fails = {
            row
            for row, x in enumerate(samples)
            if x == FAILS and len(decided[row][1]) > 1 and 0 in decided[row][1]
        }
        for calls in range(len(order) + 1) if not learned else [len(order)]:
            for closed in range(len(decided) + 1) if learned else [0]:
                thing = case.again(case.body)
                core = inside.core(thing)
                core.decide_many([()] * len(samples))
                if learned:
                    compared = [
                        core.game.record(id, call, [STAGES[k](samples[row]) for k in call], core.terms)
                        for row, (id, call) in enumerate(decided)
                        if len(call) > 1 and row not in fails
                    ]
                    if compared:
                        core.learn(compared)
                    closing = sorted(fails)[:closed]
                else:
                    closing = []
                for row, (id, _) in enumerate(decided):
                    paid = sum(
                        inside.prices(thing)[k]
                        for k, r in order[:calls]
                        if r == row and not (k == 0 and samples[row] == FAILS)
                    )
                    if row in closing:
                        core.close([id], paid, reason="a model failed")
                if learned:
                    found.append(thing.state())
                for row, (id, _) in enumerate(decided):  # and then given up
                    paid = sum(
                        inside.prices(thing)[k]
                        for k, r in order[:calls]
                        if r == row and not (k == 0 and samples[row] == FAILS)
                    )
                    core.close([id], paid, reason="the round failed")
                found.append(thing.state())
    return found


def allowed(case, gesture):
    """All states that may be found after an interruption: before, after, and given up."""
    thing = case.again(case.body)
    before = thing.state()
    make_gesture = GESTURES[gesture]
    make_gesture(thing)
    found = [before, thing.state()]
    if "context" in gesture:
        phi = [inside.features(case.again(case.body), c) for c in (CONTEXT, -CONTEXT, CONTEXT)]
        if case.body["contexts"]["dimension"] == 0:  # what the first context fixes stays fixed
            thing = case.again(case.body)
            inside.fix(thing, phi[0])
            found.append(thing.state())
    if "Router" in str(type(thing)) and any(word in gesture for word in ("call", "batch", "decide_many")):
        samples = {"call": [7], "batch": [7, 8, 9, 10], "decide_many": [7, 8, 9]}
        found += router_given_up(case, samples.get(gesture, [FAILS]))
        if gesture == "batch sparing failures":
            found += router_given_up(case, [7, FAILS, 9])
        return {dump(state) for state in found}
    if "call" in gesture:
        found += cancelled(case, gesture, [7], [phi[0] if "context" in gesture else ()])
    if gesture == "batch":
        found += cancelled(case, gesture, [7, 8, 9, 10], [()] * 4)
    if gesture == "batch with contexts":
        found += cancelled(case, gesture, [7, 8, 9], phi)
    return {dump(state) for state in found}


def future(case, text):
    """What an object made from a state does next, and the state then; found out once for each state."""
    if text not in case.known:
        twin = case.again(json.loads(text))
        assert dump(twin.state()) == text
        case.known[text] = case.go_on(twin), dump(twin.state())
    return case.known[text]


def is_whole(case, thing, states, path=None):
    """What must hold of an object after an interruption; with a ``path`` it is saved there, and goes on."""
    text = dump(thing.state())
    assert text in states
    following = future(case, text)
    if path is None:
        return
    thing.save(path)
    assert json.loads(path.read_text())["body"] == json.loads(text)
    assert (case.go_on(thing), dump(thing.state())) == following


def places_of(name, gesture):
    """The places where a case can be interrupted during a gesture, each with its first line event."""
    return attempt(GESTURES[gesture], CASES[name].again(started(name))).places


def events(lines, places, more, most=10_000):
    """The line events at which to interrupt: the first at every place, and some more of them, ``most`` in all."""
    luck = random.Random(0)
    chosen = set(places)
    rest = sorted(set(range(lines)) - chosen)
    chosen |= set(luck.sample(rest, min(more, len(rest))))
    return sorted(luck.sample(sorted(chosen), min(most, len(chosen))))


@pytest.mark.parametrize(
    "more", [pytest.param(10, id="some"), pytest.param(1000, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("name", "gesture"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_an_exception_at_any_line_leaves_a_whole_round_or_none(name, gesture, more, tmp_path):
    body, case = started(name), CASES[name]
    states = allowed(case, gesture)
    watch = attempt(GESTURES[gesture], case.again(body))
    assert watch.raised == 0
    path = tmp_path / "state.json"
    case.again(body).save(path)
    most = 50 if "contexts" in body and more == 10 else 10_000  # regressions in the interpreter take long
    places = dict(watch.places)
    if more == 10 and case.like and gesture in CASES[case.like].gestures.split(","):
        for place in places_of(case.like, gesture).keys() & places.keys():
            del places[place]  # interrupted there in the other case
    for n, event in enumerate(events(watch.lines, places.values(), more, most)):
        thing = case.again(body)
        assert attempt(GESTURES[gesture], thing, event).raised == 1
        is_whole(case, thing, states, path if n % 4 == 0 else None)


def fields_of_game(thing):
    """What a game holds besides its policy and the methods that it took from it."""
    return {
        name: value
        for name, value in vars(inside.core(thing).game).items()
        if isinstance(value, (bool, int, float, str, tuple, dict, type(None))) and name != "alters"
    }


@pytest.mark.parametrize(
    ("name", "gesture"),
    [
        ("USS-TS", "batch"),
        ("Q-USS", "call"),
        ("USS-PD, first context", "call with a context"),
        ("CSB-SU", "decide"),
        ("Pay-to-compare", "call sparing a failure"),
        ("DLC-LIX", "choose"),
    ],
)
def test_a_game_keeps_nothing_of_a_gesture_that_was_interrupted(name, gesture):
    body, case = started(name), CASES[name]
    fresh = fields_of_game(case.again(body))
    watch = attempt(GESTURES[gesture], case.again(body))
    for event in events(watch.lines, watch.places.values(), 5, 40):
        thing = case.again(body)
        assert attempt(GESTURES[gesture], thing, event).raised == 1
        assert fields_of_game(thing) == fresh
        assert not inside.lock(thing)._is_owned()


DOUBLE = [
    ("USS-TS", "call"),
    ("USS-TS", "feedback"),
    ("USS-TS, little remembered", "batch"),
    ("own", "decide"),
]
DOUBLE += [("Q-USS", "call"), ("USS-PD", "feedback"), ("CSB-SU", "feedback of losses"), ("DLC-LIX", "choose")]


@pytest.mark.parametrize(("name", "gesture"), DOUBLE, ids=["-".join(pair) for pair in DOUBLE])
def test_a_second_exception_during_the_recovery_does_no_harm(name, gesture, tmp_path):
    body, case = started(name), CASES[name]
    states = allowed(case, gesture)
    # A call that is interrupted a second time, as it is given up, may leave its decisions open: they are pending.
    states |= left_open(case, gesture)
    with Watch(after=10**9) as watch:
        GESTURES[gesture](case.again(body))
    twice, luck = 0, random.Random(1)
    for after in sorted(luck.sample(range(watch.calls), min(150, watch.calls))):
        recovery = attempt(GESTURES[gesture], case.again(body), after=after).lines
        for at in luck.sample(range(recovery), min(6, recovery)):
            thing = case.again(body)
            twice += attempt(GESTURES[gesture], thing, at, after).raised == 2
            is_whole(case, thing, states, tmp_path / "state.json" if at % 3 == 0 else None)
    assert twice > 10


def left_open(case, gesture):
    """The states after the decisions of a call, or a batch, of which some are still open."""
    samples = {"call": [7], "batch": [7, 8, 9, 10]}.get(gesture, [])
    found = set()
    for opened in range(1, len(samples) + 1):
        for given_up in range(opened):
            found |= _open(case, samples, opened, given_up)
    return found


def _open(case, samples, opened, given_up):
    probe = case.again(case.body)
    arms = [inside.decide(probe)[1] for _ in range(opened)]
    column = [(k, row) for k in range(3) for row in range(opened) if arms[row] >= k]
    found = set()
    for calls in range(len(column) + 1) if opened == len(samples) else range(1):
        thing = case.again(case.body)
        ids = [inside.decide(thing)[0] for _ in range(opened)]
        for row, id in enumerate(ids[:given_up]):
            thing.cancel(id, sum(inside.prices(thing)[k] for k, r in column[:calls] if r == row))
        found.add(dump(thing.state()))
    return found


def test_a_save_that_is_interrupted_leaves_the_old_file_or_the_new(tmp_path):
    case, path = CASES["USS-TS"], tmp_path / "state.json"
    body = started("USS-TS")
    case.again(body).save(path)
    old = path.read_bytes()

    def use(thing):
        thing(3)
        thing.save(path)

    watch = attempt(use, case.again(body))
    new = path.read_bytes()
    assert new != old
    for event in events(watch.lines, watch.places.values(), 20, 80):
        path.write_bytes(old)
        thing = case.again(body)
        assert attempt(use, thing, event).raised == 1
        assert path.read_bytes() in (old, new)
        thing.save(path)
        assert dump(Cascade.load(path, STAGES).state()) == dump(thing.state())


@pytest.mark.parametrize("gesture", ["call", "decide", "feedback", "recost"])
def test_compiled_policies_are_undone_as_well(gesture, tmp_path):
    body, plain = started("USS-TS"), CASES["USS-TS"]
    states = allowed(plain, gesture)
    watch = attempt(GESTURES[gesture], plain.again(body, compiled=True))
    for event in events(watch.lines, watch.places.values(), 5):
        thing = plain.again(body, compiled=True)
        assert attempt(GESTURES[gesture], thing, event).raised == 1
        is_whole(plain, thing, states, tmp_path / "state.json" if event % 3 == 0 else None)


# -- real signals


def repeat(operate, armed):
    """Apart from the ``try``, which from Python 3.12 on does not cover the jump back of a ``while``."""
    while armed[0]:
        operate()


def until_interrupted(operate, delay):
    """Repeat an operation until a signal comes; return whether its exception did.

    What is raised in a destructor or in a callback of the garbage collector is lost; there is no collection here.
    """
    armed = [True]

    def handler(number, frame):
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt

    # Not ITIMER_REAL, which belongs to the time limits of the tests; this one counts time on the processor.
    before = signal.signal(signal.SIGVTALRM, handler)
    gc.disable()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, delay)
        repeat(operate, armed)
    except KeyboardInterrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.enable()
    return False


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KINDS)
def test_signals_at_random_times_leave_nothing_inconsistent(name, count, tmp_path):
    kind, path = KINDS[name], tmp_path / "state.json"
    thing, delays = kind.make(), random.Random(name)
    accepted = caught = 0

    def operate():
        nonlocal accepted
        if thing.pending and name != "Player":
            thing.cancel(thing.pending[0])  # of a round that was interrupted
        id, decided = kind.decide(thing)
        kind.feedback(thing, id, kind.content(id, decided))
        accepted += 1
        if name == "Cascade":
            thing(id)
            accepted += 1

    thing.save(path)
    longest = 6e-3 if name != "Adaptive" else 2e-2 if count == 50 else 0.1  # its rounds get longer
    for n in range(count):
        caught += until_interrupted(operate, delays.uniform(1e-4, longest))
        rounds = thing.rounds
        assert accepted <= rounds <= accepted + 1  # the round under way may have been learned
        accepted = rounds
        if n % 5 == 0:
            thing.save(path)
            assert dump(kind.load(path).state()) == dump(thing.state())
        if name == "Cascade":  # what the policy knows is what was counted
            policy, counts = thing.policy, inside.counts(thing)
            pairs = np.triu_indices(3, 1)
            assert np.array_equal(policy.S[pairs] - 1, counts.differed[pairs])
            assert np.array_equal((policy.S + policy.F)[pairs] - 2, counts.compared[pairs])
            assert thing.pending == [] or len(thing.pending) == 1
    thing.save(path)
    assert play(kind, kind.load(path), 5) == play(kind, thing, 5)
    assert accepted > count
    assert caught == count  # nothing keeps an interrupt to itself
