"""Moves of every policy in every live object: what is decided, refused, saved, journalled and reported, as digests.

Only public names of live objects are used, so that the same moves can be played whatever is inside. A digest is taken
every `STEP` moves: it tells where two versions part.
"""

import json
import random
import re
import warnings
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from weakfeedback import Allocator, Cascade, ContextualCascade, Costed, Player, Router, Scored
from weakfeedback.journal import open_store
from weakfeedback.settings.catalog import SETTINGS

MOVES, STEP, SAVED = 2000, 200, 50
KINDS_OF_ERRORS = (LookupError, ValueError, RuntimeError)
TIME = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.]+")
LABELS = [0, 1, True, "a", "1", "x" * 17, 2**63, 1.0, 0.5, None, Costed(1, 0.3), Costed("a", 7), (1, 2)]


class Tape:
    """Digests of what was noted, one for each part."""

    def __init__(self):
        self.parts = {}

    def note(self, part, value):
        """Add a value, by its text; numbers keep all their digits."""
        self.parts.setdefault(part, sha256()).update(f"{plain(value)!r}\n".encode())

    def digests(self):
        """The digests so far, shortened."""
        return {part: one.hexdigest()[:16] for part, one in sorted(self.parts.items())}


def plain(value):
    """A value as plain data: no type of NumPy, no name of a class that may be renamed."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return [plain(one) for one in value]
    if isinstance(value, BaseException):
        kind = next((one for one in KINDS_OF_ERRORS if isinstance(value, one)), type(value))
        return [kind.__name__, TIME.sub("TIME", str(value))]
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return list(value) if isinstance(value, tuple) else value


@dataclass
class Table:
    """A live object at play, and what was told to it."""

    thing: Any
    rng: Any
    tape: Tape
    decided: dict[int, Any] = field(default_factory=dict)
    told: list[Any] = field(default_factory=list)

    def try_(self, what, call, *given, **named):
        """Note what a call returns or raises; return it, or None."""
        try:
            found = call(*given, **named)
        except KINDS_OF_ERRORS as error:
            self.tape.note("refused", (what, error))
            return None
        self.tape.note("decided", (what, found))
        return found

    def id(self):
        """The id of an open decision, or now and then one that is not open."""
        pending = self.thing.pending
        if pending and self.rng.random() > 0.1:
            return pending[self.rng.randrange(len(pending))]
        return self.rng.randrange(1, 3 + max(self.decided, default=1))


def stages(number):
    """Stages that differ more or less often."""
    return [lambda x, k=k: (x * (k + 3)) % 2 if k else Costed(x % 2, 0.5) for k in range(number)]


# -- moves: each takes a table


def decide(table):
    found = table.try_("decide", table.thing.decide)
    if found is not None:
        table.decided[found.id] = found


def calls_of(decision):
    """How many outputs a decision waits for."""
    return len(decision.call) if hasattr(decision, "call") else decision.arm + 1


def outputs_for(table, id):
    size = calls_of(table.decided[id]) if id in table.decided else table.rng.randrange(1, 4)
    own = random.Random(id)
    if table.rng.random() < 0.8:
        return [int(own.random() < 0.4) for _ in range(size)]
    return [table.rng.choice(LABELS) for _ in range(size + table.rng.choice([0, 0, 0, 1]))]


def feedback(table):
    id = table.id()
    outputs = outputs_for(table, id)
    if table.try_("feedback", table.thing.feedback, id, outputs) is not None:
        table.told.append((id, outputs))


def repeat(table):
    """What was said before, or something else."""
    if table.told:
        id, outputs = table.rng.choice(table.told)
        said = outputs if table.rng.random() < 0.7 else [1 - bool(one) for one in outputs]
        table.try_("repeat", table.thing.feedback, id, said)


def pairs(table):
    id = table.id()
    models = table.decided.get(id)
    called = getattr(models, "call", None) or range(getattr(models, "arm", 1) + 1)
    differ = [(i, j) for j in called for i in called if i < j and table.rng.random() < 0.4]
    table.try_("pairs", table.thing.feedback_pairs, id, differ)


def cancel(table):
    table.try_("cancel", table.thing.cancel, table.id(), table.rng.choice([0.0, 0.5]))


def call(table):
    table.try_("call", table.thing, table.rng.randrange(1000))


def batch(table):
    X = [table.rng.randrange(1000) for _ in range(5)]
    table.try_("batch", table.thing.answers, X, batch_size=3)


def warm(table):
    rows = [[table.rng.randrange(2) for _ in range(3)] for _ in range(2)]
    table.try_("warm", table.thing.warm_start, rows)


def recost(table):
    prices = sorted(table.rng.random() * 10 for _ in range(3))
    table.try_("recost", table.thing.recost, prices, table.rng.uniform(20, 40))


def report(table):
    found = table.thing.report()
    table.tape.note("reported", (str(found), json.dumps(plain(found.to_dict()))))


def explain(table):
    id = max(table.decided, default=1) - table.rng.randrange(3)
    table.try_("explain", table.thing.explain, id)


def settled(table):
    found = table.thing.settled
    table.try_("settled", found if callable(found) else lambda: found)


def certificate(table):
    table.try_("certificate", table.thing.certificate)


def audit(table):
    rows = [[table.rng.randrange(2) for _ in range(3)] for _ in range(20)]
    truth = [table.rng.randrange(2) for _ in range(20)]
    table.try_("audit", lambda: str(table.thing.audit_outputs(rows, truth)))


def label(table):
    """Feedback with a label, wanted or not."""
    pending = table.thing.pending
    if pending:
        id = table.rng.choice(pending)
        own = random.Random(id)
        outputs = [int(own.random() < 0.4) for _ in range(calls_of(table.decided[id]))]
        table.try_("wants", table.thing.wants_label, id, outputs)
        table.try_("label", table.thing.feedback, id, outputs, label=table.rng.randrange(2))


CASCADE = [decide] * 5 + [feedback] * 5 + [call] * 3
CASCADE += [repeat, pairs, cancel, batch, warm, recost, report, explain, settled, certificate, audit]
CALLED = [one for one in CASCADE if one is not audit]


def begin(table):
    found = table.try_("begin", table.thing.begin)
    if found is not None:
        table.decided[found.id] = found


def tell(table):
    id = table.id()
    output = table.rng.choice([0, 1, 1, Costed(1, 0.3), Scored(0, 0.9), Scored(1, 0.4)])
    found = table.try_("tell", table.thing.tell, id, output)
    if found is not None:
        table.told.append((id, output))


def tell_again(table):
    if table.told:
        id, output = table.rng.choice(table.told)
        table.try_("told again", table.thing.tell, id, output, stage=table.rng.randrange(3))


def calibrate(table):
    rows = [[table.rng.randrange(2) for _ in range(3)] for _ in range(5)]
    scores = [[table.rng.random() for _ in range(3)] for _ in range(5)]
    table.try_(
        "calibrate", table.thing.calibrate_outputs, rows, scores, [table.rng.randrange(2) for _ in range(5)]
    )


ADAPTIVE = [begin] * 4 + [tell] * 8 + [call] * 3
ADAPTIVE += [tell_again, cancel, batch, recost, report, explain, settled, calibrate, decide, warm]


def context(table):
    return [round(table.rng.uniform(-1, 1), 3) for _ in range(2)]


def decide_x(table):
    found = table.try_("decide", table.thing.decide, context(table))
    if found is not None:
        table.decided[found.id] = found


def call_x(table):
    table.try_("call", table.thing, table.rng.randrange(1000), context(table))


def batch_x(table):
    X, contexts = [table.rng.randrange(1000) for _ in range(4)], [context(table) for _ in range(4)]
    table.try_("batch", table.thing.answers, X, batch_size=3, contexts=contexts)


def warm_x(table):
    rows = [[table.rng.randrange(2) for _ in range(3)] for _ in range(2)]
    table.try_("warm", table.thing.warm_start, [context(table), context(table)], rows)


def wrong_x(table):
    table.try_("wrong", table.thing.decide, [0.1, 0.2, 0.3])


CONTEXTUAL = [decide_x] * 5 + [feedback] * 5 + [call_x] * 3
CONTEXTUAL += [repeat, pairs, cancel, batch_x, warm_x, wrong_x, recost, report, explain, settled]


def decide_many(table):
    for found in table.try_("many", table.thing.decide_many, 3) or ():
        table.decided[found.id] = found


def allot(table):
    found = table.try_("decide", table.thing.decide)
    if found is not None:
        table.decided[found.id] = found


def observe_arms(table):
    id = table.id()
    seen = [table.rng.choice([0.0, 0.0, 0.5, 1.0]) for _ in range(4)]
    said = seen if table.rng.random() < 0.8 else {1: seen[0]}
    if table.try_("feedback", table.thing.feedback, id, said) is not None:
        table.told.append((id, said))


def repeat_arms(table):
    if table.told:
        id, said = table.rng.choice(table.told)
        table.try_("repeat", table.thing.feedback, id, said if table.rng.random() < 0.7 else [0.0] * 4)


ALLOCATOR = [allot] * 5 + [observe_arms] * 5 + [repeat_arms, cancel, report]


def choose(table):
    table.try_("choose", table.thing.choose)


def observe(table):
    arm = table.thing.choose()
    hit = bool(arm >= 0 and table.rng.random() < 0.15)
    reward = 0.0 if hit or arm < 0 else float(table.rng.random() < 0.2 + 0.2 * arm)
    slot = table.thing.slot + table.rng.choice([0] * 9 + [1])
    table.try_("observe", table.thing.observe, reward, hit, slot)
    table.tape.note("decided", (arm, table.thing.phase, table.thing.description))


PLAYER = [choose] + [observe] * 20 + [cancel, report, settled]


# -- the games: every policy of the catalogue, and the arguments that change how a round is learned


@dataclass(frozen=True)
class Game:
    """What is made, and how it is moved."""

    made: type
    given: tuple[Any, ...]
    named: dict[str, Any]
    moves: list[Any]


COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}
PRICES = {"prices": [1.0, 4.0, 9.0], "error_cost": 30.0}
REWARD = ("NUM-SK", "NUM-MK")


def closeness(one, other):
    return abs(len(str(one)) % 2 - len(str(other)) % 2) / 2 if isinstance(one, str) else 0.25 * (one != other)


def truth(x):
    return Costed(x % 2, 2.0)


def games():
    """All games by name: the setting, the policy and what is special."""
    found = {}
    for setting, known in SETTINGS.items():
        for policy in (*known.policies, *known.unlisted):
            if policy == "Supervised":
                continue  # it needs labels, and no live object gives them
            options = dict(getattr(known.policy_class(policy), "sample_options", {}))
            found[f"{setting} {policy}"] = game(setting, policy, options)
    plain_cascade = {**COSTS, "policy": "USS-TS", "seed": 7}
    found["cascade USS-TS metric"] = Game(
        Cascade, (stages(3),), {**plain_cascade, "metric": closeness}, CASCADE
    )
    found["cascade USS-TS compare"] = Game(
        Cascade, (stages(3),), {**plain_cascade, "compare": lambda a, b: str(a) == str(b)}, CASCADE
    )
    found["cascade USS-TS elsewhere"] = Game(Cascade, (3,), plain_cascade, CASCADE)
    router = {**PRICES, "seed": 7, "metric": closeness}
    found["routing Pay-to-compare metric"] = Game(Router, (stages(3),), router, [*CALLED, decide_many])
    found["allocation CSB-TS reward"] = Game(Allocator, (4, 1.3, "CSB-TS", "reward"), {"seed": 7}, ALLOCATOR)
    return found


def game(setting, policy, options):
    """The game of one policy."""
    named = {**options, "policy": policy, "seed": 7}
    if setting == "cascade":
        if policy == "Q-USS":
            named = {"policy": policy, "seed": 7, "label": truth, "label_price": 2.0}
            return Game(Cascade, (stages(3),), {**COSTS, **named}, [*CASCADE, label, label, label])
        return Game(Cascade, (stages(3),), {**COSTS, **named}, CASCADE)
    if setting == "adaptive":
        return Game(Cascade, (stages(3),), {**COSTS, **named}, ADAPTIVE)
    if setting == "contextual":
        keep = {} if policy in ("Fixed", "Random") else {"keep": 100}
        return Game(ContextualCascade, (stages(3),), {**COSTS, **named, **keep}, CONTEXTUAL)
    if setting == "routing":
        return Game(Router, (stages(3),), {**PRICES, **named}, [*CALLED, decide_many])
    if setting == "allocation":
        kind = "reward" if policy in REWARD else "loss"
        return Game(Allocator, (4, 1.3, policy, kind), {**options, "seed": 7}, ALLOCATOR)
    return Game(Player, (4, policy), {**options, "seed": 7}, PLAYER)


def play(name, path, moves=MOVES, compiled=False):
    """Play a game with a journal at ``path``; return the digests every `STEP` moves."""
    chosen, tape, found, seq = games()[name], Tape(), [], -1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thing = chosen.made.open(path, *chosen.given, **chosen.named, compiled=compiled, every=1_000_000)
        table = Table(thing, random.Random(name), tape)
        for n in range(1, moves + 1):
            table.rng.choice(chosen.moves)(table)
            if n % SAVED == 0:
                tape.note("saved", json.dumps(thing.state(), sort_keys=True))
            if n % STEP == 0:
                seq = note_rows(tape, path, seq)
                found.append(tape.digests())
        thing.close()
    return found


def note_rows(tape, path, seq):
    """Note the events of a journal after number ``seq``, without times and version; return the last number."""
    store = open_store(path, read_only=True)
    try:
        (learner,) = store.learners()
        for event in store.events(learner.id, seq):
            body = {key: value for key, value in event.body.items() if key != "package"}
            tape.note("journal", (event.seq, event.kind, event.decision, event.key, json.dumps(body)))
            seq = event.seq
    finally:
        store.close()
    return seq
