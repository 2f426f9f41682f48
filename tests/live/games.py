"""Random moves of all kinds, played on a compiled and on an interpreted live object."""

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tests.live import inside

from weakfeedback import Allocator, Cascade, ContextualCascade, Player
from weakfeedback.live import Costed

COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}
# what a stage may say: plain labels short and long, equal ones of other types, costs of their own, no labels at all
LABELS = [0, 1, True, "a", "1", "", "x" * 17, 2**63, 10**40, "\ud800", 1.0, 0.5, None, np.int64(1)]
LABELS += [np.bool_(True), Costed(1, 0.3), Costed("a", 7), (1, 2), float("nan")]
WRAPS = [list] * 6 + [tuple, iter, str]
IDS = [int] * 8 + [np.int64, bool, str, float]


def stage(k):
    return lambda x: (x * (k + 3)) % 2


STAGES = [stage(k) for k in range(3)]


def truth(x):
    return Costed(x % 2, 2.0)


def told(call, *arguments, **named):
    """What a call returns, or raises."""
    try:
        found = call(*arguments, **named)
    except (ValueError, LookupError, RuntimeError) as error:
        return type(error), str(error)
    return found


def text(thing):
    return json.dumps(thing.state(), sort_keys=True)


@dataclass
class Game:
    """How an object is made, made again, and moved; ``moves`` take the object and a generator of their own."""

    make: Any  # compiled -> object
    again: Any  # (path, compiled) -> object
    moves: dict[str, Any]
    often: str  # moves that come more often
    answers: dict[int, Any] = field(default_factory=dict)

    def play(self, seed, steps, path):
        """Play moves at random on two objects; return how many rounds were learned."""
        rng = np.random.default_rng(seed)
        things = [self.make(True), self.make(False)]
        assert [thing.compiled for thing in things] == [True, False]
        names = [*self.moves, *self.often.split(",") * 4]
        for _ in range(steps):
            name, luck = str(rng.choice(names)), int(rng.integers(2**32))
            found = [self.moves[name](thing, np.random.default_rng(luck)) for thing in things]
            assert str(found[0]) == str(found[1]), name
            assert text(things[0]) == text(things[1]), name
            if rng.random() < 0.06:  # each goes on where the other stopped
                things[0].save(path)
                things = [self.again(path, True), self.again(path, False)]
        return things[0].rounds


# -- moves by hand, for all that have ids


def some_id(thing, rng, wrong=0.15):
    pending = thing.pending
    if pending and rng.random() > wrong:
        return pending[rng.integers(len(pending))]
    return IDS[rng.integers(len(IDS))](rng.integers(0, 60))


def decided_arm(thing, id):
    decided = inside.waiting(thing).get(id, 1) if type(id) is int else 1
    return decided if isinstance(decided, int) else decided[0]


def outputs_for(id, size):
    """The outputs that belong to an id: given twice they are a duplicate."""
    own = np.random.default_rng(abs(int(id)))
    return [int(own.random() < 0.4) for _ in range(size)]


def feedback(thing, rng):
    id = some_id(thing, rng)
    size = decided_arm(thing, id) + 1
    if rng.random() < 0.6:
        return told(thing.feedback, id, outputs_for(id, size))
    labels = [LABELS[k] for k in rng.integers(len(LABELS), size=size + rng.choice([0, 0, 0, 1]))]
    return told(thing.feedback, id, WRAPS[rng.integers(len(WRAPS))](labels))


def again(thing, rng):
    """What was said before: a duplicate, or, with other outputs, a contradiction."""
    answered = list(inside.answered(thing)) or [1]
    id = answered[rng.integers(len(answered))]
    return told(thing.feedback, id, outputs_for(id, int(rng.integers(1, 4))))


def pairs(thing, rng):
    id = some_id(thing, rng)
    arm = decided_arm(thing, id)
    differ = [(i, j) for j in range(arm + 1) for i in range(j) if rng.random() < 0.4]
    costs = rng.choice([None, 1]) and [float(c) for c in rng.random(arm + 1)]
    return told(thing.feedback_pairs, id, differ, costs=costs)


def cancel(thing, rng):
    return told(thing.cancel, some_id(thing, rng), float(rng.choice([0.0, 0.5])))


def explain(thing, rng):
    return told(thing.explain, inside.next_id(thing) - 1 - int(rng.integers(3)))


def report(thing, rng):
    return str(thing.report()), json.dumps(thing.report().to_dict())


def x_of(rng):
    return int(rng.integers(1000))


CASCADE = {
    "decide": lambda thing, rng: told(thing.decide),
    "feedback": feedback,
    "again": again,
    "pairs": pairs,
    "cancel": cancel,
    "call": lambda thing, rng: told(thing, x_of(rng)),
    "batch": lambda thing, rng: told(thing.answers, [x_of(rng) for _ in range(5)], batch_size=3),
    "warm": lambda thing, rng: told(thing.warm_start, rng.integers(0, 2, size=(2, 3))),
    "report": report,
    "explain": explain,
    "settled": lambda thing, rng: thing.settled(),
    "recost": lambda thing, rng: told(thing.recost, rng.random(3) * 10, float(rng.uniform(20, 40))),
}


def label(thing, rng):
    """Feedback with a label, wanted or not."""
    id = some_id(thing, rng, wrong=0.0)
    if not thing.pending:
        return None
    outputs = outputs_for(id, decided_arm(thing, id) + 1)
    return thing.wants_label(id, outputs), told(thing.feedback, id, outputs, label=int(rng.integers(2)))


def cascade(policy, **options):
    code = {"label": truth} if policy == "Q-USS" else {}
    moves = CASCADE if policy != "Q-USS" else {**CASCADE, "label": label}
    price = {"label_price": 2.0} if policy == "Q-USS" else {}
    return Game(
        lambda compiled: Cascade(
            STAGES, **COSTS, policy=policy, seed=7, compiled=compiled, **code, **price, **options
        ),
        lambda path, compiled: Cascade.load(path, STAGES, compiled=compiled, **code),
        moves,
        "decide,feedback,label" if policy == "Q-USS" else "decide,feedback,decide",
    )


def context(rng):
    return rng.uniform(-1, 1, size=2)


def with_contexts(thing, rng):
    X = [x_of(rng) for _ in range(4)]
    return told(thing.answers, X, batch_size=3, contexts=rng.uniform(-1, 1, size=(4, 2)))


def contextual(policy, **options):
    moves = {
        name: CASCADE[name]
        for name in ("feedback", "again", "pairs", "cancel", "report", "explain", "recost")
    }
    moves |= {
        "decide": lambda thing, rng: told(thing.decide, context(rng)),
        "call": lambda thing, rng: told(thing, x_of(rng), context(rng)),
        "batch": with_contexts,
        "warm": lambda thing, rng: told(
            thing.warm_start, [context(rng)] * 2, rng.integers(0, 2, size=(2, 3))
        ),
        "wrong": lambda thing, rng: told(thing.decide, rng.uniform(-1, 1, size=3)),
    }
    return Game(
        lambda compiled: ContextualCascade(
            STAGES, **COSTS, policy=policy, seed=7, keep=100, compiled=compiled, **options
        ),
        lambda path, compiled: ContextualCascade.load(path, STAGES, compiled=compiled),
        moves,
        "decide,feedback,batch",
    )


def allotted(thing, rng):
    found = told(thing.decide)
    return found if isinstance(found, tuple) else (found.id, found.allocation.tolist())


def observed(thing, rng):
    id = some_id(thing, rng)
    seen = rng.choice([0.0, 0.0, 0.5, 1.0], size=4 + (rng.random() < 0.05)).tolist()
    return told(thing.feedback, id, seen if rng.random() < 0.8 else {1: seen[0]})


def observed_again(thing, rng):
    answered = list(inside.answered(thing)) or [1]
    return told(thing.feedback, answered[rng.integers(len(answered))], [0, 0, 0, float(rng.integers(2))])


def allocator(policy, setting="loss", **options):
    return Game(
        lambda compiled: Allocator(4, 1.3, policy, setting, seed=7, compiled=compiled, **options),
        lambda path, compiled: Allocator.load(path, compiled=compiled),
        {
            "decide": allotted,
            "feedback": observed,
            "again": observed_again,
            "cancel": cancel,
            "report": report,
        },
        "decide,feedback",
    )


def observe(thing, rng):
    slot = None if rng.random() < 0.5 else thing.slot + int(rng.choice([0, 0, 0, 0, 1]))
    hit = bool(rng.random() < 0.2)
    idle = bool(thing.pending) and inside.decided(thing, thing.pending[0]) < 0
    reward = 0.0 if hit or (idle and rng.random() < 0.9) else float(rng.random())
    return told(thing.observe, reward, hit and not idle, slot)


def slots(thing, rng):
    """Some slots in a row, so that the game gets somewhere."""
    seen = []
    for _ in range(20):
        seen.append(thing.choose())
        hit = bool(seen[-1] >= 0 and rng.random() < 0.1)
        thing.observe(0.0 if hit or seen[-1] < 0 else float(rng.random()), hit)
    return seen, thing.phase, thing.description, thing.settled, thing.arm


def player(policy, **options):
    return Game(
        lambda compiled: Player(4, policy, seed=7, compiled=compiled, **options),
        lambda path, compiled: Player.load(path, compiled=compiled, missed=0),
        {
            "choose": lambda thing, rng: told(thing.choose),
            "observe": observe,
            "slots": slots,
            "cancel": cancel,
            "report": report,
        },
        "choose,observe,slots",
    )


GAMES = {
    "USS-TS": cascade("USS-TS"),
    "USS-UCB": cascade("USS-UCB"),
    "Hanawal": cascade("Hanawal"),
    "USS-WD": cascade("USS-WD"),
    "USS-TS-drift": cascade("USS-TS-drift"),
    "Q-USS": cascade("Q-USS"),
    "Random": cascade("Random"),
    "USS-PD": contextual("USS-PD", forced=10),
    "USS-PD-TS": contextual("USS-PD-TS"),
    "USS-PD-lambdaI": contextual("USS-PD-lambdaI"),
    "CSB-TS": allocator("CSB-TS"),
    "CSB-SU": allocator("CSB-SU"),
    "CSB-MK": allocator("CSB-MK", epsilon=0.3, delta=0.1, gamma=0.02),
    "NUM-SK": allocator("NUM-SK", "reward", epsilon=0.3, delta=0.1),
    "DLC-LIX": player("DLC-LIX", epsilon=0.3),
    "SIC-MMAB": player("SIC-MMAB", horizon=10_000),
    "Musical-Chairs": player("Musical-Chairs", learning_rounds=100),
}
# which take long to compile, or differ from others in nothing that a live object notices
SLOW = ("USS-PD-TS", "USS-PD-lambdaI", "Hanawal", "USS-TS-drift", "USS-WD")
SLOW += ("CSB-TS", "CSB-MK", "NUM-SK", "Musical-Chairs", "SIC-MMAB")
