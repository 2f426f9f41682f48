"""What users try twice: the same line after a restart, pairs in another order, a stage told again, prices again."""

import numpy as np
import pytest

from weakfeedback import Cascade, ContextualCascade, FeedbackConflict, Router, Scored, StateError, simulate
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.contextual import QuadraticFeatures


def test_the_same_line_opens_a_contextual_cascade_again(tmp_path):
    path = tmp_path / "c.db"
    for _ in range(2):
        with ContextualCascade.open(
            path, 2, [1, 4], 100, features=QuadraticFeatures(2.0), seed=0
        ) as contextual:
            contextual.decide([0.1, 0.2])
    with ContextualCascade.open(path, 2) as contextual:
        assert len(contextual.pending) == 2


def test_another_bound_of_the_features_is_refused(tmp_path):
    path = tmp_path / "c.db"
    with ContextualCascade.open(path, 2, [1, 4], 100, features=QuadraticFeatures(2.0), seed=0) as contextual:
        contextual.decide([0.1, 0.2])
    with pytest.raises(ValueError, match="features must have the bound 2"):
        ContextualCascade.open(path, 2, [1, 4], 100, features=QuadraticFeatures(3.0))


def test_an_earlier_stage_of_a_finished_round_told_again():
    cascade = Cascade(3, [1, 1, 1], 100, policy="USS-A", seed=0)
    id = cascade.begin().id
    told = [Scored("a", 0.1), Scored("b", 0.1), Scored("c", 0.4)]
    steps = [cascade.tell(id, output, stage=k) for k, output in enumerate(told)]
    assert steps[-1].answer.label == "c"
    assert cascade.tell(id, told[0], stage=0).stage == 1
    with pytest.raises(FeedbackConflict, match="stage 0 of decision 1 was told already"):
        cascade.tell(id, told[2], stage=0)


@pytest.mark.parametrize("model", [lambda _: float("nan"), lambda _: np.float64("nan")])
def test_nan_of_a_cheap_model_does_not_cost_the_answer(model):
    router = Router([model, lambda x: x], [1, 2], 100)
    answer = router(3)
    assert (answer.label, set(answer.failed)) == (3, {0})
    assert [one.label for one in router.answers([1, 2, 3])] == [1, 2, 3]
    assert router.comparisons == 0
    assert router.pending == []


def test_pairs_are_the_same_in_any_order_and_from_numpy():
    cascade = Cascade(3, [1, 1, 1], 100, seed=0)
    ids = [d.id for d in (cascade.decide() for _ in range(200)) if d.arm == 2][:2]
    assert cascade.feedback_pairs(ids[0], [(0, 1), (0, 2)]) == "accepted"
    assert cascade.feedback_pairs(ids[0], [(0, 2), (0, 1)]) == "duplicate"
    assert cascade.feedback_pairs(ids[1], np.array([[0, 2]])) == "accepted"
    with pytest.raises(FeedbackConflict):
        cascade.feedback_pairs(ids[1], [(0, 1)])


@pytest.mark.parametrize(("policy", "options"), [("Fixed", {"arm": 1}), ("Random", {})])
def test_policies_that_learn_nothing_take_other_prices(policy, options, tmp_path):
    path = tmp_path / "c.db"
    Cascade.open(path, 3, [1, 2, 3], 100, policy=policy, **options).close()
    with Cascade.open(path, 3, [1, 2, 4], 100) as cascade:
        assert cascade.report().to_dict()["stage_costs"] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(("prices", "words"), [(5, "prices must be"), ("abc", "prices must be")])
def test_wrong_prices_of_a_router_that_is_there(prices, words, tmp_path):
    Router.open(tmp_path / "r.db", 3, [1, 2, 3], 9).close()
    with pytest.raises(ValueError, match=words):
        Router.open(tmp_path / "r.db", 3, prices)


def test_options_may_be_given_as_arrays(tmp_path):
    given = {"policy": "Thresholds", "thresholds": [0.5, 0.6]}
    Cascade.open(tmp_path / "t.db", 3, [1, 1, 1], 100, **given).close()
    Cascade.open(
        tmp_path / "t.db", 3, [1, 1, 1], 100, policy="Thresholds", thresholds=np.array([0.5, 0.6])
    ).close()


def test_a_state_without_its_prices_is_refused():
    state = Cascade(3, [1, 1, 1], 100, seed=0).state()
    assert Cascade.from_state(state).rounds == 0
    with pytest.raises(StateError, match="stage_costs of the state is of the wrong type: 5"):
        Cascade.from_state({**state, "stage_costs": 5})


def test_a_simulation_draws_its_seed_once():
    problem = CascadeProblem.bsc([0.4, 0.2], [0.1, 0.2])
    runs = [
        simulate(problem, {"a": UssTs(problem.costs)}, 20, 2, seed=None, compiled=False) for _ in range(2)
    ]
    assert runs[0].about["seed"] != runs[1].about["seed"]
    again = simulate(problem, {"a": UssTs(problem.costs)}, 20, 2, seed=runs[0].about["seed"], compiled=False)
    assert again.frame.equals(runs[0].frame)
