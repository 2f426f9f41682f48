"""The proxy of ``weakfeedback serve --demo``: it learns by itself, and anybody can ask it."""

import asyncio
import json

from tests.rig.harness import opener, quick

from weakfeedback.serve.auth import Auth
from weakfeedback.serve.proxy import demo
from weakfeedback.serve.proxy.fake import truth
from weakfeedback.serve.service import Service


async def test_the_demo_keeps_its_promise_and_settles_on_the_model_that_is_worth_its_price(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(demo, "PERIOD", 0.004)
    quick_models = {name: (skill, 0.0, price) for name, (skill, _, price) in demo.MODELS.items()}
    monkeypatch.setattr(demo, "MODELS", quick_models)

    service = Service(opener(tmp_path / "s.db"), quick(durability="process"))
    await service.start()
    try:
        made = await demo.add_demo(service, Auth())
        assert made["models"] == [demo.NAME, "thrifty"]
        learner = service.learners[demo.NAME]
        for _ in range(1000):
            await asyncio.sleep(0.02)
            if learner.live.rounds >= 200:
                break
        assert "/v1/chat/completions" in [route.path for route in made["routes"]]
        reports = [await service.report(name) for name in made["models"]]
        await made["close"]()
        report, priced = reports
    finally:
        await service.stop()
    assert report["rounds"] >= 200
    assert (report["promise"]["state"], report["promise"]["reference"]) == ("kept", "large")
    assert report["details"]["cheap"] > 0.2
    assert report["saved"]["amount"] > 0
    assert (priced["policy"], priced["settled"]) == ("Pay-to-compare", 1)


def test_one_can_ask_it():
    fake = demo.fake_models()
    right = [
        fake.answer("medium-70b", f"What is {k} * 3?")[0] == f"The answer is {3 * k}." for k in range(1000)
    ]
    assert 0.95 < sum(right) / 1000 < 0.985  # as its skill says: 0.97, 2.9 standard errors on the nearer side
    assert truth("What is 12 - 20?") == "-8"
    assert json.dumps(demo.TABLE)  # plain data, as a file has it
