"""A service that decides now and hears later: ids, late and repeated feedback, a journal, a restart, and going on."""

import random
import tempfile
from pathlib import Path

from weakfeedback import Cascade, FeedbackConflict, UnknownDecision

dice = random.Random(5)
cheap, dear = (lambda x: x > 4), (lambda x: x > 5)
stages, costs = [cheap, dear], {"stage_costs": [1, 12], "error_cost": 100}


def outputs_of(arm, x):
    """What the stages say; in a real service this comes back over a queue, minutes later."""
    return [stage(x) for stage in stages[: arm + 1]]


folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "cascade.db"
cascade = Cascade.open(path, stages, **costs, seed=0)  # on disk before anybody is told
waiting = []
for _ in range(400):
    decision = cascade.decide()
    waiting.append((decision.id, outputs_of(decision.arm, dice.randrange(10))))
    if len(waiting) > 30:  # answers come late and in any order
        cascade.feedback(*waiting.pop(dice.randrange(len(waiting))))
print(f"{cascade.rounds} answers learned, {len(cascade.pending)} decisions are still open")

id, outputs = waiting.pop()
print("first time: ", cascade.feedback(id, outputs))
print("once more:  ", cascade.feedback(id, outputs))
try:
    cascade.feedback(id, [not outputs[0], *outputs[1:]])
except FeedbackConflict as error:
    print("changed:    ", error)
try:
    cascade.feedback(10_000, outputs)
except UnknownDecision as error:
    print("unknown:    ", error)

twin = Cascade.from_state(cascade.state(), stages)
expected = [twin.decide().arm for _ in range(20)]  # what would have come
cascade.close()  # the process ends; killed without this, nothing would be lost either
cascade = Cascade.open(path, stages, **costs)
same = [cascade.decide().arm for _ in range(20)] == expected
print(f"after a restart: {cascade.rounds} answers learned, the same decisions: {same}")
for id, outputs in waiting:  # feedback from before the restart is still welcome
    cascade.feedback(id, outputs)
for id in cascade.pending:  # and what will never come must be given up by name
    cascade.cancel(id)
print(f"in the end: {cascade.rounds} answers learned, {len(cascade.pending)} open")
cascade.close()
folder.cleanup()
