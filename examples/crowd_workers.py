"""How many crowd workers should look at a task? One, three or five, by majority; nobody knows the truth."""

import random

from weakfeedback import Cascade
from weakfeedback.live import majority

PAY, MISTAKE = 2.0, 60.0  # cents
dice = random.Random(3)


def worker(task):
    """Right nine times out of ten, seven out of ten on a hard task."""
    truth, hard = task
    return truth if dice.random() < (0.7 if hard else 0.9) else 1 - truth


def panel(size):
    """So many more workers."""
    return lambda task: [worker(task) for _ in range(size)]


def vote(panels):
    """The answer after some panels: the majority of all workers asked so far."""
    return majority([answer for answers in panels for answer in answers])


def run(policy, **options):
    """Total cost per task, with the mistakes that only this script can see."""
    costs = [PAY, 2 * PAY, 2 * PAY]
    cascade = Cascade([panel(1), panel(2), panel(2)], costs, MISTAKE, policy, seed=0, combine=vote, **options)
    total = 0.0
    for _ in range(4000):
        task = (dice.randint(0, 1), dice.random() < 0.2)
        answer = cascade(task)
        total += answer.cost + MISTAKE * (answer.label != task[0])
    return cascade, total / 4000


learned, cost = run("USS-TS")
print(learned.report())
print(f"\ncents per task, mistakes counted: {cost:.2f} learned", end="")
for arm, workers in enumerate((1, 3, 5)):
    print(f", {run('Fixed', arm=arm)[1]:.2f} always {workers}", end="")
print()
