"""One learner for a team: any program decides, any other tells what was seen; killed and started again, it goes on."""

import random
import tempfile
from pathlib import Path

from weakfeedback import FeedbackConflict, UnknownDecision
from weakfeedback.client import Client, local_service

MODELS = {"rules": 0.72, "small": 0.93, "expert": 0.99}  # how often each is right; the service is not told
PRICES = {"stage_costs": [0.001, 0.02, 1.5], "error_cost": 10, "currency": "EUR"}
dice = random.Random(5)


def answers(called):
    """What the models say; in real life this comes back over a queue, minutes later."""
    hard = dice.random()
    return ["right" if hard < MODELS[name] else f"wrong {dice.randrange(9)}" for name in called]


folder = tempfile.TemporaryDirectory()
store = Path(folder.name) / "service.db"
with local_service(store) as service:  # elsewhere: weakfeedback serve, and Client("http://127.0.0.1:8470")
    service.create("triage", kind="cascade", stages=list(MODELS), seed=0, **PRICES)
    clients = [Client(service.address) for _ in range(2)]
    web, worker = (client.learner("triage") for client in clients)
    waiting = []
    for _ in range(400):
        decision = web.decide()  # one program asks
        waiting.append((decision.id, answers(decision.call)))
        if len(waiting) > 30:  # and another tells, late and in any order
            worker.feedback(*waiting.pop(dice.randrange(len(waiting))))
    print(f"{web.report()['rounds']} answers learned, {web.report()['pending']} decisions are open")

    id, outputs = waiting.pop()
    print("first time:", worker.feedback(id, outputs))
    print("once more: ", worker.feedback(id, outputs))
    try:
        worker.feedback(id, ["something else"] * len(outputs))
    except FeedbackConflict as error:
        print("changed:   ", str(error).partition(" at ")[0])
    try:
        worker.feedback(10_000, outputs)
    except UnknownDecision as error:
        print("unknown:   ", error)
    for client in clients:
        client.close()
    service.process.kill()  # kill -9: everything that was acknowledged is on disk

with local_service(store) as service:
    triage = service.learner("triage")
    print(f"after the kill: {triage.report()['rounds']} answers learned, nothing is lost")
    for id, outputs in waiting:  # feedback from before is still welcome
        triage.feedback(id, outputs)
    report = triage.report()
    print(f"stops at {report['stages'][report['settled']]['name']}; {report['saved']['against']}: ", end="")
    print(f"{report['saved']['share']:.0%} saved")
folder.cleanup()
