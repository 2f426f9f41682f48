"""Hooks: told of every decision and feedback, after it is made; what they raise harms nothing."""

import asyncio
import logging

import pytest

from weakfeedback import Allocator, Cascade, Router


def heard_by(live):
    told = []
    live.on_decision(told.append)
    live.on_feedback(told.append)
    return told


def test_a_router_tells_of_calls_coroutines_batches_and_feedback():
    router = Router([lambda x: x > 2, lambda x: x > 3], prices=[1, 20], error_cost=100)
    told = heard_by(router)
    router(1)
    asyncio.run(router.acall(2))
    router.predict([3, 4, 5])
    decision = router.decide()
    router.feedback(decision.id, [1] * len(decision.call))
    kinds = [event["kind"] for event in told]
    assert kinds.count("decision") == 6
    assert kinds.count("feedback") == router.comparisons
    assert told[0] == {"kind": "decision", "id": 1, "call": [0, 1], "answer": 1}
    assert told[1]["differ"] == []


def test_other_live_objects_tell_too():
    cascade = Cascade([lambda x: x, lambda x: x], [1, 2], error_cost=10, seed=0)
    told = heard_by(cascade)
    cascade(1)
    assert [event["kind"] for event in told] == ["decision", "feedback"]
    adaptive = Cascade(2, [1, 2], error_cost=10, policy="USS-A", seed=0)
    told = heard_by(adaptive)
    step = adaptive.begin()
    while step.answer is None:
        step = adaptive.tell(step.id, "a")
    assert [event["kind"] for event in told] == ["decision", "feedback"]
    allocator = Allocator(["a", "b"], 1.0, seed=0)
    told = heard_by(allocator)
    decision = allocator.decide()
    allocator.feedback(decision.id, {})
    assert [event["kind"] for event in told] == ["decision", "feedback"]


def test_an_exception_is_logged_and_the_round_and_other_hooks_go_on(caplog):
    router = Router([lambda x: x, lambda x: x], prices=[1, 20], error_cost=100)

    @router.on_decision
    def fail(event):
        raise OSError("no tracker there")

    told = heard_by(router)
    with caplog.at_level(logging.ERROR, "weakfeedback.live"):
        assert router(1).label == 1
    assert [event["kind"] for event in told] == ["decision", "feedback"]
    assert "a hook failed at decision 1" in caplog.text
    assert (router.rounds, router.comparisons, router.pending) == (1, 1, [])


def test_a_hook_may_ask_the_object_and_its_event_is_its_own():
    router = Router(2, prices=[1, 20], error_cost=100)
    seen = []

    @router.on_decision
    def ask(event):
        seen.append(router.report().rounds)
        event.clear()

    told = heard_by(router)
    router.decide()
    assert (seen, told[0]["id"]) == ([1], 1)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ValueError, match="callable"):
        Router(2, prices=[1, 20], error_cost=100).on_feedback("mlflow")
