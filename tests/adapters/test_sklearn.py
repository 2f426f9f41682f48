"""A cascade of scikit-learn classifiers as one classifier."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from weakfeedback.adapters.sklearn import CascadeClassifier


def trees(*depths):
    return [DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in depths]


def cascade(stages=None, costs=(1, 3), error_cost=30, **options):
    stages = trees(1, 5) if stages is None else stages
    return CascadeClassifier(stages, list(costs), error_cost, **{"random_state": 0, **options})


@pytest.fixture(scope="module")
def data():
    return load_breast_cancer(return_X_y=True)


# All checks apply; scikit-learn itself skips the one of array-API input unless SCIPY_ARRAY_API is set.
@parametrize_with_checks(
    [
        cascade([GaussianNB(), LogisticRegression()]),
        cascade(list(zip("abc", trees(1, 3, 5))), costs=(1, 2, 3), policy="USS-UCB"),
        cascade([GaussianNB(), LogisticRegression()], costs=(1, 20), error_cost=None, agree=0.95),
        cascade([GaussianNB(), LogisticRegression()], policy="USS-A"),
    ]
)
def test_the_library_accepts_the_classifier(estimator, check):
    check(estimator)


def expected_stop(outputs, costs, error_cost):
    """The rule of the thesis by brute force: the first stage whose later ones are not worth their extra cost."""
    total = np.cumsum(costs) / error_cost
    for i in range(len(costs)):
        later = range(i + 1, len(costs))
        if all(total[j] - total[i] > np.mean(outputs[i] != outputs[j]) for j in later):
            return i
    raise AssertionError


@pytest.mark.parametrize("error_cost", [1, 4, 15, 40, 1000])
def test_stops_where_later_stages_differ_too_seldom_for_their_cost(data, error_cost):
    X, y = data
    costs = [1.0, 1.0, 2.0]
    stages = [tree.fit(X[:300], y[:300]) for tree in trees(1, 2, 6)]
    found = CascadeClassifier(stages, costs, error_cost).fit(X[300:])
    outputs = [stage.predict(X[300:]) for stage in stages]
    assert found.stop_ == expected_stop(outputs, costs, error_cost)
    assert found.predict(X[300:]).tolist() == outputs[found.stop_].tolist()
    for i in range(3):
        for j in range(i + 1, 3):
            assert found.disagreement_[i, j] == pytest.approx(np.mean(outputs[i] != outputs[j]))


def test_dear_errors_buy_more_stages(data):
    stops = [cascade(trees(1, 2, 6), (1, 1, 2), error_cost=e).fit(*data).stop_ for e in (1, 20, 1000)]
    assert stops == sorted(stops)
    assert (stops[0], stops[-1]) == (0, 2)


def test_the_labels_of_the_part_held_out_are_not_used(data):
    X, y = data
    one = cascade(prefit=False).fit(X, y)
    seen = np.zeros(len(y), dtype=bool)

    class Spy(DecisionTreeClassifier):
        def fit(self, X_given, y_given):
            rows = {row.tobytes() for row in X_given}
            seen[:] = [row.tobytes() in rows for row in X]
            return super().fit(X_given, y_given)

    cascade([Spy(max_depth=1, random_state=0), *trees(5)]).fit(X, y)
    assert 0.7 < seen.mean() < 0.8
    # all labels of the rest are made the same: the split stays as it was
    swapped = np.where(seen, y, y[~seen][0])
    assert set(swapped[seen]) == {0, 1}
    # what is compared are the stages' answers, row by row
    fitted = [tree.fit(X[seen], y[seen]) for tree in trees(1, 5)]
    differ = np.mean(fitted[0].predict(X[~seen]) != fitted[1].predict(X[~seen]))
    assert one.disagreement_[0, 1] == pytest.approx(differ)


def test_predict_learns_nothing_and_route_does(data):
    X, y = data
    found = cascade(holdout=0.1).fit(X, y)
    before = pickle.dumps(found)
    one_by_one = [found.predict(row.reshape(1, -1))[0] for row in X[:60]]
    assert found.predict(X[:60][::-1]).tolist() == one_by_one[::-1]
    found.predict_proba(X)
    found.score(X, y)
    assert pickle.dumps(found) == before
    compared = found.report().comparisons[0, 1]
    routed = found.route(X)
    assert routed.shape == y.shape
    assert routed.dtype == found.classes_.dtype
    assert found.report().rounds == len(X)
    assert found.report().comparisons[0, 1] > compared
    assert found.report().spent > 0.0


def test_route_moves_the_stop_when_the_stages_begin_to_differ():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(400, 2))
    cheap = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, X[:, 0] > 0)
    dear = DecisionTreeClassifier(random_state=0).fit(
        np.vstack([X, X + 3.0]), np.r_[X[:, 0] > 0, X[:, 1] > 9.0]
    )
    found = CascadeClassifier([cheap, dear], [1, 10], error_cost=30, random_state=0).fit(X[:5])
    assert found.stop_ == 0
    for _ in range(20):
        found.route(X + 3.0)  # here the stages always differ
    assert found.stop_ == 1
    assert found.report().arm_shares[1] > 0.5


def test_stages_that_are_fitted_are_used_as_they_are(data):
    X, y = data
    ready = [tree.fit(X[:200], y[:200]) for tree in trees(1, 5)]
    for labels in (None, y[200:]):
        found = CascadeClassifier(ready, [1, 3], 30).fit(X[200:], labels)
        assert found.stages_ == ready
        assert found.report().comparisons[0, 1] == len(X) - 200  # nothing is kept for training
    again = cascade(ready, prefit=False).fit(X, y)
    assert [stage in ready for stage in again.stages_] == [False, False]
    mixed = cascade([ready[0], *trees(4)]).fit(X, y)
    assert mixed.stages_[0] is ready[0]
    assert mixed.stages_[1].get_depth() > 1
    with pytest.raises(NotFittedError, match=r"stages\[1\] must be fitted, as prefit=True says"):
        cascade([ready[0], *trees(4)], prefit=True).fit(X, y)
    frozen = cascade([FrozenEstimator(stage) for stage in ready])
    assert clone(frozen).fit(X).predict(X).tolist() == frozen.fit(X).predict(X).tolist()


def test_stages_may_use_some_features_only(data):
    X, y = data
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])])
    few = make_pipeline(ColumnTransformer([("few", "passthrough", ["f0", "f1"])]), GaussianNB())
    whole = make_pipeline(StandardScaler(), LogisticRegression())
    found = cascade([few, whole], error_cost=1000).fit(frame, y)
    assert found.stop_ == 1
    assert found.score(frame, y) > 0.9
    assert found.feature_names_in_.tolist() == list(frame)
    assert len(found.route(frame)) == len(y)
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame[list(frame)[::-1]])


def test_labels_of_any_kind_texts_and_sparse_tables():
    texts = ["good day", "bad day", "good night", "bad night", "good", "bad"] * 10
    labels = np.array(["yes", "no", "yes", "no", "yes", "no"] * 10)
    stages = [make_pipeline(CountVectorizer(), MultinomialNB(alpha=alpha)) for alpha in (100.0, 0.1)]
    found = cascade(stages).fit(texts, labels)
    assert found.predict(texts).tolist() == labels.tolist()
    assert found.route(texts[:7]).tolist() == labels[:7].tolist()
    assert found.classes_.tolist() == ["no", "yes"]
    X, y = make_classification(100, random_state=0)
    table = sparse.csr_array(np.where(X > 0, X, 0.0))
    several = cascade([LogisticRegression(C=0.01), LogisticRegression()]).fit(table, y + 5)
    assert set(several.predict(table)) == {5, 6}
    assert set(several.route(table)) <= {5, 6}


def test_probabilities_are_of_all_classes():
    X, y = make_classification(200, n_informative=4, n_classes=3, random_state=0)
    partly = LogisticRegression().fit(X[y != 1], y[y != 1])
    found = CascadeClassifier([partly, LogisticRegression().fit(X, y)], [0, 1000], error_cost=1).fit(X)
    assert found.stop_ == 0
    assert found.classes_.tolist() == [0, 1, 2]
    probabilities = found.predict_proba(X)
    assert (probabilities[:, 1] == 0.0).all()
    assert probabilities[:, [0, 2]].tolist() == partly.predict_proba(X).tolist()
    from sklearn.svm import LinearSVC

    assert not hasattr(cascade([LinearSVC(), GaussianNB()]), "predict_proba")


def test_parameters_of_stages_have_names_if_the_stages_have(data):
    plain = cascade()
    assert set(plain.get_params()) == {
        "stages",
        "stage_costs",
        "error_cost",
        "policy",
        "agree",
        "budget",
        "prefit",
        "holdout",
        "random_state",
    }
    named = cascade(list(zip(["cheap", "dear"], trees(1, 5))))
    assert named.get_params()["dear__max_depth"] == 5
    named.set_params(dear__max_depth=3, error_cost=9, cheap=GaussianNB())
    assert (named.stages[1][1].max_depth, named.error_cost) == (3, 9)
    assert isinstance(named.stages[0][1], GaussianNB)
    named.set_params(stages=list(zip("ab", trees(1, 2))), b__max_depth=4)
    assert named.get_params()["b__max_depth"] == 4
    with pytest.raises(ValueError, match="Invalid parameter 'dear'"):
        named.set_params(dear__max_depth=2)
    twin = clone(named)
    assert twin.stages[0][1] is not named.stages[0][1]
    assert twin.get_params()["b__max_depth"] == 4
    search = GridSearchCV(named, {"b__max_depth": [1, 6], "error_cost": [1, 100]}, cv=2).fit(*data)
    assert search.best_score_ > 0.85
    assert cross_val_score(cascade(), *data, cv=3).min() > 0.85


def test_pickled_it_goes_on_where_it_stopped(data):
    X, y = data
    found = cascade().fit(X[:300], y[:300])
    found.route(X[:50])
    again = pickle.loads(pickle.dumps(found))
    assert again.stop_ == found.stop_
    assert again.route(X[50:]).tolist() == found.route(X[50:]).tolist()
    assert str(again.report()) == str(found.report())
    assert pickle.loads(pickle.dumps(cascade())).get_params()["error_cost"] == 30


def test_a_promise_is_kept_by_route_with_probabilities_as_scores():
    X, y = make_classification(3000, n_features=8, n_informative=4, flip_y=0.05, random_state=0)
    cheap, dear = GaussianNB().fit(X[:500], y[:500]), trees(8)[0].fit(X[:500], y[:500])
    found = CascadeClassifier([cheap, dear], [1, 20], agree=0.9, random_state=0).fit(X[500:600])
    assert found.report().requests == 100
    routed = found.route(X[600:], batch_size=32)
    report, reference = found.report(), dear.predict(X[600:])
    assert (cheap.predict(X[600:]) != reference).mean() > 0.12
    assert (routed != reference).mean() <= 0.1
    assert report.spent < 0.9 * report.reference_alone
    # its probabilities tell where it differs: a share of its answers as large, at random, would differ more
    assert (routed != reference).mean() < 0.8 * report.cheap * (cheap.predict(X[600:]) != reference).mean()
    assert found.stop_ == 1
    assert found.predict(X[600:]).tolist() == reference.tolist()
    assert found.predict_proba(X[600:]).tolist() == dear.predict_proba(X[600:]).tolist()
    with pytest.raises(AttributeError, match="Promise decides after every answer"):
        _ = found.disagreement_
    again = pickle.loads(pickle.dumps(found))
    assert again.route(X[:50]).tolist() == found.route(X[:50]).tolist()


def test_named_stages_have_their_names_in_the_report(data):
    stages = list(zip(["cheap", "dear"], trees(1, 5)))
    assert cascade(stages).fit(*data).report().to_frame().index.tolist() == ["cheap", "dear"]
    promised = cascade(stages, error_cost=None, agree=0.95).fit(*data)
    assert "as from dear." in str(promised.report())
    assert pickle.loads(pickle.dumps(promised)).report().reference == "dear"


def test_decisions_after_every_answer(data):
    X, y = data
    found = cascade(policy="USS-A", prefit=False, error_cost=100).fit(X, y)
    report = found.report()
    assert (report.judge, report.unscored) == ("last", ())
    assert report.rounds == len(X) - sum(
        len(y[y == label]) - int(0.25 * len(y[y == label])) for label in (0, 1)
    )
    assert len(found.route(X[:40])) == 40
    assert found.stop_ in (0, 1)
    assert found.predict(X).tolist() == found.stages_[found.stop_].predict(X).tolist()


def test_the_same_random_state_gives_the_same(data):
    X, y = data
    one, two, other = (cascade(random_state=seed).fit(X, y) for seed in (3, 3, 4))
    assert one.disagreement_[0, 1] == two.disagreement_[0, 1] != other.disagreement_[0, 1]
    assert one.route(X).tolist() == two.route(X).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": []}, "stages must be a list of classifiers"),
        ({"stages": 3}, "stages must be a list of classifiers"),
        ({"stages": [1, 2]}, r"stages\[0\] must be a classifier with fit and predict, got 1"),
        ({"stages": [GaussianNB, GaussianNB]}, r"stages\[0\] must be a classifier with fit and predict"),
        ({"stages": [("a__b", GaussianNB()), ("c", GaussianNB())]}, "words without '__'"),
        ({"stages": [("a", GaussianNB()), ("a", GaussianNB())]}, "must differ from each other"),
        ({"stages": [("policy", GaussianNB()), ("a", GaussianNB())]}, "and from parameters"),
        ({"stage_costs": [1]}, "stage_costs must be 2 finite numbers >= 0"),
        ({"stage_costs": [1, -1]}, "stage_costs must be 2 finite numbers >= 0"),
        ({"error_cost": 0}, "error_cost must be a finite number > 0, got 0"),
        ({"policy": "nobody"}, "nobody"),
        ({"policy": 3}, "policy must be the name of a policy, got 3"),
        ({"error_cost": None}, "agree"),
        ({"agree": 1.0}, "agree must be below 1"),
        ({"agree": 0.95, "policy": "USS-TS"}, "agree goes with the policy 'Promise'"),
        ({"policy": "q-uss"}, "policy must be one that buys no labels, got 'q-uss'"),
        ({"prefit": "yes"}, "prefit must be 'auto', True or False, got 'yes'"),
        ({"holdout": 0}, "holdout must be a finite number > 0, got 0"),
        ({"holdout": 1.0}, "holdout must be a number between 0 and 1, got 1.0"),
    ],
)
def test_wrong_parameters_are_named_before_anything_is_fitted(data, change, message):
    estimator = cascade().set_params(**change)
    with pytest.raises(ValueError, match=message):
        estimator.fit(*data)
    assert not hasattr(estimator, "stages_")


def test_wrong_use_is_told(data):
    X, y = data
    with pytest.raises(ValueError, match="y must be given"):
        cascade().fit(X)
    with pytest.raises(NotFittedError):
        cascade().predict(X)
    with pytest.raises(NotFittedError):
        cascade().route(X)
    with pytest.raises(NotFittedError):
        cascade().report()
    assert not hasattr(cascade(), "stop_")
    found = cascade().fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but CascadeClassifier is expecting 30"):
        found.predict(X[:, :3])
    with pytest.raises(ValueError, match="Reshape your data"):
        found.route(X[0])
