"""Promises: scores that are no plain number, models that fail, and changes that contradict what was chosen."""

import math

import numpy as np
import pytest

from weakfeedback import Cascade, Router, Scored


def test_a_score_may_be_infinite_and_nan_is_none():
    """Logarithms of chances are, and a stage that gives one has not failed."""
    assert Scored("a", math.inf).score > Scored("a", np.float32(3.0)).score > Scored("a", -math.inf).score
    for score in (math.nan, np.float32("nan")):
        live = Cascade([lambda x: Scored(x, score), lambda x: x], [1, 20], agree=0.9, seed=0, memory=64)  # noqa: B023
        for x in range(8):
            assert live(x).scores == (None, None)
        assert live.report().models[0]["compared"] == 8
    for wrong in ("x", None, True, [1.0]):
        with pytest.raises(ValueError, match="score must be a finite number"):
            Scored("a", wrong)


@pytest.mark.parametrize("kind", [Cascade, Router])
def test_a_model_that_fails_is_told_once_in_the_log(kind, caplog):
    def broken(x):
        raise KeyError("no such thing")

    live = kind(
        [broken, broken, lambda x: x], [1, 2, 20], agree=0.95, names=["small", "medium", "large"], seed=0
    )
    for x in range(30):
        assert live(x).label == x
    live.answers(range(30))
    told = [one.getMessage() for one in caplog.records if one.name == "weakfeedback.live"]
    noun = "stage" if kind is Cascade else "model"
    assert sorted(told) == [
        f"{name} failed, another {noun} answers; this is said once: KeyError: 'no such thing'"
        for name in ("medium", "small")
    ]


@pytest.mark.parametrize("kind", [Cascade, Router])
def test_what_is_sure_is_a_share_and_no_budget_takes_its_place(kind):
    """Whatever is promised later, the state can be read."""
    live = kind(2, [1, 20], agree=0.95, sure=True, seed=0)
    before = live.state()
    with pytest.raises(ValueError, match="sure needs agree, the share that is to be sure; a budget cannot"):
        live.promise(budget=6.0)
    assert live.state() == before
    live.promise(error_cost=50.0)
    live.promise(agree=0.9)
    assert kind.from_state(live.state()).report().settings == live.report().settings
