"""A router as a provider of LiteLLM, with the real package where it is installed; its models are mocked by LiteLLM."""

import asyncio

import pytest

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no request for prices when it is imported
    pytest.importorskip("litellm")

import litellm

from weakfeedback import Router
from weakfeedback.adapters.litellm import plug_in

pytestmark = pytest.mark.filterwarnings("ignore")  # the package's own

SMALL, LARGE = "openai/gpt-4o-mini", "openai/gpt-4o"
ASKED = [{"role": "user", "content": "good?"}]


@pytest.fixture
def models(monkeypatch):
    """LiteLLM's own mock of a model, by its name; an exception is raised."""
    said, calls = {SMALL: "yes", LARGE: " yes"}, []
    plain, awaited = litellm.completion, litellm.acompletion

    def answer(model, named):
        calls.append((model, named))
        found = said[model]
        if isinstance(found, Exception):
            raise found
        return found

    def completion(model, *given, **named):
        if model in said:
            named["mock_response"] = answer(model, named)
        return plain(model, *given, **named)

    async def acompletion(model, *given, **named):
        if model in said:
            named["mock_response"] = answer(model, named)
        return await awaited(model, *given, **named)

    monkeypatch.setattr(litellm, "completion", completion)
    monkeypatch.setattr(litellm, "acompletion", acompletion)
    monkeypatch.setattr(litellm, "custom_provider_map", [])
    return said, calls


def ask(awaited, **more):
    arguments = {"model": "weakfeedback/router", "messages": ASKED, **more}
    found = asyncio.run(litellm.acompletion(**arguments)) if awaited else litellm.completion(**arguments)
    return found.choices[0].message.content.strip()


@pytest.mark.parametrize("awaited", [False, True])
def test_models_that_agree_are_learned_and_parameters_passed_on(models, awaited):
    router = Router(2, prices=[1, 20], error_cost=100)
    plug_in(router, [SMALL, LARGE])
    for _ in range(40):
        assert ask(awaited, temperature=0.3) == "yes"
    assert router.settled() == 0
    assert router.rounds == 40
    assert 0 < router.comparisons < 40
    assert router.pending == []
    assert all(named["temperature"] == 0.3 for _, named in models[1])


@pytest.mark.parametrize("awaited", [False, True])
def test_features_are_in_the_metadata_of_the_request(models, awaited):
    router = Router(2, prices=[1, 20], error_cost=100, context=["task"])
    plug_in(router, [SMALL, LARGE])
    ask(awaited, metadata={"task": "classify", "other": 7})
    ask(awaited)
    assert sorted(one.group for one in router.report().groups) == ["(none)", "classify"]


@pytest.mark.parametrize("awaited", [False, True])
def test_a_conversation_is_the_session_of_the_metadata_or_what_a_callable_says(models, awaited):
    for own, more in (
        (None, lambda n: {"metadata": {"session_id": n // 3}}),
        (lambda request: request["metadata"]["chat"], lambda n: {"metadata": {"chat": f"u{n // 3}"}}),
    ):
        router = Router(2, prices=[1, 20], error_cost=100)
        plug_in(router, [SMALL, LARGE], conversation=own)
        for n in range(12):
            ask(awaited, **more(n))
        assert (router.core.counts.talks, router.rounds) == (4, 12)
        assert router.comparisons <= 4
    plug_in(router, [SMALL, LARGE])
    ask(awaited)
    assert router.core.counts.talks == 4


def test_a_model_that_fails_loses_its_comparison_or_the_round(models):
    said, _ = models
    router = Router(2, prices=[1, 20], error_cost=100)
    plug_in(router, [SMALL, LARGE])
    said[SMALL] = RuntimeError("away")
    assert ask(False) == "yes"
    assert (router.comparisons, router.pending) == (0, [])
    said[LARGE] = RuntimeError("away, too")
    with pytest.raises(Exception, match="away, too"):
        ask(False)
    assert (router.rounds, router.pending) == (0, [])  # both were cancelled


def test_a_provider_is_replaced_and_wrong_arguments_are_refused(models):
    router = Router(2, prices=[1, 20], error_cost=100)
    plug_in(router, [SMALL, LARGE])
    again = plug_in(router, [SMALL, LARGE])
    assert [one["custom_handler"] for one in litellm.custom_provider_map] == [again]
    with pytest.raises(ValueError, match="models must be 2 names of models"):
        plug_in(router, [SMALL])
    with pytest.raises(ValueError, match="router must be a Router"):
        plug_in(7, [SMALL, LARGE])
