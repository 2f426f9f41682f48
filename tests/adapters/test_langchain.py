"""A router in front of LangChain's runnables, with the real package where it is installed."""

import asyncio

import pytest

pytest.importorskip("langchain_core")

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda

from weakfeedback import Router
from weakfeedback.adapters.langchain import runnable


def counting(answer, calls):
    def say(given):
        calls.append(given)
        if isinstance(answer, Exception):
            raise answer
        return answer(given) if callable(answer) else answer

    return RunnableLambda(say)


def made(first, last, **options):
    calls = ([], [])
    router = Router(2, prices=[1, 20], error_cost=100, **options)
    return router, [counting(first, calls[0]), counting(last, calls[1])], calls


@pytest.mark.parametrize("awaited", [False, True])
def test_models_that_agree_are_learned_and_the_cheap_one_answers(awaited):
    router, models, calls = made(AIMessage("Paris "), AIMessage("Paris"))
    model = runnable(router, models)
    for n in range(60):
        found = asyncio.run(model.ainvoke(n)) if awaited else model.invoke(n)
        assert found.content.strip() == "Paris"
    assert router.settled() == 0
    assert router.rounds == 60
    assert router.comparisons == len(calls[1]) < 60
    assert router.pending == []


def test_it_stands_in_a_chain_of_real_chat_models():
    answers = iter(["positive"] * 200)
    small, large = (GenericFakeChatModel(messages=answers) for _ in range(2))
    router = Router(2, prices=[1, 20], error_cost=100, context=["task"])
    model = runnable(router, [small, large], context=lambda messages: {"task": len(messages.to_messages())})
    chain = ChatPromptTemplate.from_messages([("user", "{review}")]) | model | StrOutputParser()
    assert chain.invoke({"review": "good"}) == "positive"
    assert chain.batch([{"review": "a"}, {"review": "b"}]) == ["positive", "positive"]
    assert [one.group for one in router.report().groups] == ["1"]
    assert router.comparisons == 3


@pytest.mark.parametrize("awaited", [False, True])
def test_a_model_that_fails_loses_its_comparison_or_the_round(awaited):
    router, models, _ = made(RuntimeError("away"), "b")
    model = runnable(router, models)
    assert (asyncio.run(model.ainvoke(1)) if awaited else model.invoke(1)) == "b"
    assert (router.comparisons, router.pending) == (0, [])
    router, models, _ = made("a", RuntimeError("away"))
    model = runnable(router, models)
    with pytest.raises(RuntimeError, match="away"):
        asyncio.run(model.ainvoke(1)) if awaited else model.invoke(1)
    assert (router.rounds, router.pending) == (0, [])


def test_the_label_says_what_is_compared():
    router, models, _ = made({"answer": 1, "why": "x"}, {"answer": 1, "why": "y"})
    model = runnable(router, models, label=lambda found: found["answer"])
    for n in range(20):
        model.invoke(n)
    assert router.report().disagreement[0, 1] == 0.0


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize("named", ["thread_id", "session_id", None])
def test_a_conversation_stays_with_its_model(awaited, named):
    """By the thread of the config, or by what a callable says; requests without one are decided alone."""
    router, models, calls = made("a", "a")
    own = None if named else lambda given: given["talk"]
    model = runnable(router, models, conversation=own)
    for n in range(30):
        talk = f"c{n // 3}"
        config = {"configurable": {named: talk}} if named else None
        given = {"talk": talk, "n": n}
        asyncio.run(model.ainvoke(given, config)) if awaited else model.invoke(given, config)
    assert router.core.counts.talks == 10
    assert 0 < router.comparisons <= 10  # only first turns are compared, and what answered one answers on
    dear = {one["n"] for one in calls[1]}
    assert all((n in dear) == (n - n % 3 in dear) for n in range(30))
    assert {one["n"] for one in calls[0]} == set(range(30)) - {n for n in dear if n % 3}
    if named:
        asyncio.run(model.ainvoke({}, {})) if awaited else model.invoke({}, {})
        assert router.core.counts.talks == 10


def test_answers_that_cannot_be_compared_leave_nothing_open():
    router, models, _ = made("a", "b")
    with pytest.raises(TypeError):
        runnable(router, models, label=lambda found: found + 1).invoke(1)
    assert (router.comparisons, router.pending) == (0, [])


def test_wrong_arguments_are_refused():
    router, models, _ = made("a", "b")
    with pytest.raises(ValueError, match="router must be a Router"):
        runnable(7, models)
    with pytest.raises(ValueError, match="models must be 2 runnables"):
        runnable(router, models[:1])
    with pytest.raises(ValueError, match="models must be 2 runnables"):
        runnable(router, [len, len])
