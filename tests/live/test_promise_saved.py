"""A promise that is saved can be loaded, and goes on as it would have."""

import pytest

from weakfeedback import Cascade, Costed, Router, Scored


def test_a_reference_that_costs_less_than_stated_can_be_loaded_again():
    cascade = Cascade(2, [1, 20], agree=0.95, seed=0)
    for n in range(200):  # a new group now and then: one comparison by lot stands for many requests
        step = cascade.begin(group=f"g{n // 40}")
        while step.stage is not None:
            sure = Scored("a", 0.9 if n % 3 else 0.1)
            step = cascade.tell(step.id, sure if step.stage == 0 else Costed("a", 0.5))
        if any(share.alone < 0.0 for _, share in cascade.core.counts.promise.groups):
            break
    assert min(share.alone for _, share in cascade.core.counts.promise.groups) < 0.0
    again = Cascade.from_state(cascade.state())
    assert again.state() == cascade.state()
    assert str(again.report()) == str(cascade.report())


def test_an_open_round_whose_first_stage_has_failed_goes_on_the_same():
    asked = 0  # of another cheap stage after the first one has failed
    for seed in range(4):
        cascade = Cascade(3, [2, 1, 20], agree=0.6, seed=seed, memory=64)
        for _ in range(150):
            step = cascade.begin()
            while step.stage is not None:
                step = cascade.tell(step.id, "a")
        for _ in range(30):
            step = cascade.begin()
            output = "a" if step.stage == 2 else RuntimeError("down")
            while step.stage is not None:
                copy, id = Cascade.from_state(cascade.state()), step.id
                assert copy.state() == cascade.state()
                step = cascade.tell(id, output)
                assert copy.tell(id, output).stage == step.stage
                assert copy.state() == cascade.state()
                output, asked = "b", asked + (step.stage == 0)
    assert asked > 0


def test_a_router_whose_coin_was_certain_goes_on_the_same():
    router = Router(3, [1, 2, 20], agree=0.9, sure=True, seed=0, memory=64)
    for _ in range(100):
        decision = router.decide()
        copy = Router.from_state(router.state())
        if len(decision.call) > 1:
            for one in (router, copy):
                one.feedback(decision.id, ["a"] * len(decision.call))
        assert copy.state() == router.state()


@pytest.mark.parametrize("made", [Cascade, Router])
def test_huge_prices_are_refused_where_they_are_given(made):
    argument = "stage_costs" if made is Cascade else "prices"
    told = rf"^{argument} must be at most 1e\+300 with a promise, got \[1.0, 1.5e\+308\]$"
    with pytest.raises(ValueError, match=told):
        made(2, [1, 1.5e308], agree=0.9)
    live = made(2, [1, 20], agree=0.9)
    with pytest.raises(ValueError, match=told):
        live.recost([1, 1.5e308])
    if made is Router:
        with pytest.raises(ValueError, match=told):
            live.decide(prices=[1, 1.5e308])
        with pytest.raises(ValueError, match=told):
            live.replace_model(1, price=1.5e308)
    live = made(2, [1, 1e300], agree=0.9)
    live.recost([1, 20])
    assert made.from_state(live.state()).state() == live.state()


def test_sums_of_huge_costs_stay_finite(tmp_path):
    with Cascade.open(tmp_path / "j.db", 2, [1, 20], agree=0.9, seed=0, self_check=True) as cascade:
        for _ in range(60):
            step = cascade.begin()
            while step.stage is not None:
                step = cascade.tell(step.id, "a")
            if cascade.checks_again(step.id):
                cascade.check_again(step.id, Costed("a", 1e308), 1.0)
        assert cascade.core.counts.promise.second.calls > 1
        dear = Costed("a", 1.5e308)  # of a comparison by lot, which stands for others
        while cascade.core.counts.spent < 1e308:
            step = cascade.begin()
            while step.stage is not None:
                step = cascade.tell(step.id, dear if cascade.policy.open.any() else "a")
        state, report = cascade.state(), str(cascade.report())
        assert Cascade.from_state(state).state() == state
    with Cascade.open(tmp_path / "j.db", 2) as cascade:
        assert str(cascade.report()) == report
