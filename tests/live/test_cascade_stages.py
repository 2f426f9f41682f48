"""Stages of every kind, batches, asynchronous calls, time limits and failures."""

import asyncio
import functools
import threading
import time

import numpy as np
import pytest
from tests.live import inside
from tests.rig.processes import PATIENCE
from tests.rig.threads import too_late

from weakfeedback.live import Cascade, Costed, PendingDecision, majority


def low(x):
    return x > 2


def high(x):
    return x > 5


def fixed(arm, stages, **arguments):
    costs = [1, 4, 25][: len(stages)]
    return Cascade(stages, costs, error_cost=100, policy="Fixed", arm=arm, seed=0, **arguments)


def learned(cascade):
    return (
        cascade.state()["core"]["fields"],
        cascade.state()["core"]["ledger"]["rounds"],
        inside.counts(cascade).compared.tolist(),
    )


# -- kinds of stages


def test_fitted_classifiers_take_one_sample_or_many():
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    stump = DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, names)
    model = LogisticRegression(max_iter=1000).fit(X, names)
    for given in (X[100], X[100].tolist(), X[100:101]):
        answer = fixed(1, [stump, model])(given)
        assert answer.outputs == (stump.predict(X[100:101])[0], model.predict(X[100:101])[0])
    cascade = fixed(1, [stump, model])
    assert cascade.predict(X).tolist() == model.predict(X).tolist()
    expected = np.mean(stump.predict(X) != model.predict(X))
    assert expected > 0
    assert cascade.report().disagreement[0, 1] == expected


def test_data_frames_keep_their_columns():
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1, 0, 1, 0]}, index=list("wxyz"))
    tree = DecisionTreeClassifier(random_state=0).fit(frame, [0, 0, 1, 1])
    # a warning about lost columns would be an error here
    cascade = fixed(0, [tree, lambda row: row["a"] > 1])
    assert cascade.predict(frame).tolist() == [0, 0, 1, 1]
    assert cascade(frame.iloc[2]).label == 1
    assert cascade(frame.iloc[[2]]).label == 1
    with pytest.raises(ValueError, match="one sample"):
        cascade(frame)
    assert fixed(1, [tree, lambda row: row["a"] > 1]).predict(frame).tolist() == [False, False, True, True]


def test_texts_are_one_sample_each():
    class Spam:
        def predict(self, texts):
            return ["spam" if "win" in text else "ham" for text in texts]

    cascade = fixed(0, [Spam()])
    assert cascade("win a prize").label == "spam"
    assert cascade.predict(["hello", "you win"]).tolist() == ["ham", "spam"]


def test_a_stage_sees_earlier_outputs_if_it_asks_for_them():
    seen = []

    def second(x, earlier):
        seen.append(earlier)
        return earlier[0] + 1

    def third(x, *, earlier=None):
        seen.append(earlier)
        return sum(earlier)

    stages = [lambda x: Costed(x, 2.0), second, functools.partial(third)]
    cascade = fixed(2, stages)
    assert cascade(5).outputs == (5, 6, 11)
    assert seen == [(5,), (5, 6)]
    assert cascade.predict([1, 2]).tolist() == [3, 5]
    assert seen[2:] == [(1,), (2,), (1, 2), (2, 3)]


def test_built_in_functions_without_a_signature_are_stages():
    assert fixed(0, [max])([1, 3, 2]).label == 3


def test_combined_answers_are_compared_and_returned():
    votes = {"x": ["a", "b", "b"], "y": ["a", "b", "a"]}
    stages = [lambda x, k=k: votes[x][k] for k in range(3)]
    cascade = fixed(2, stages, combine=majority)
    answer = cascade("x")
    # Answers a, b (a tie goes to the later), b.
    assert (answer.label, answer.outputs) == ("b", ("a", "b", "b"))
    assert cascade("y").label == "a"  # answers a, b, a
    matrix = cascade.report().disagreement
    assert (matrix[0, 1], matrix[0, 2], matrix[1, 2]) == (1, 0.5, 0.5)


def test_majority_takes_labels_that_cannot_be_hashed():
    assert majority([[1], [2], [1]]) == [1]
    assert majority(["a", "b", "b", "a", "c"]) == "a"  # tied with b, but said later


# -- batches


class Counting:
    """A classifier that notes the rows it was given."""

    def __init__(self, rule):
        self.rule = rule
        self.batches = []

    def predict(self, X):
        self.batches.append([int(x) for x in np.asarray(X).ravel()])
        return [self.rule(int(x)) for x in np.asarray(X).ravel()]


def test_a_batch_calls_each_stage_once_and_on_the_rows_that_go_that_far():
    stages = [Counting(low), Counting(high), Counting(high)]
    cascade = Cascade(stages, [1, 1, 1], error_cost=9, policy="Random", seed=3)
    answers = cascade.answers(np.arange(40).reshape(-1, 1), batch_size=40)
    arms = [answer.arm for answer in answers]
    assert set(arms) == {0, 1, 2}
    for k, stage in enumerate(stages):
        assert stage.batches == [[row for row in range(40) if arms[row] >= k]]
    assert [answer.label for answer in answers] == [stages[arm].rule(row) for row, arm in enumerate(arms)]
    assert (cascade.rounds, cascade.pending) == (40, [])


def test_batches_of_one_are_single_calls():
    X = list(np.random.default_rng(0).integers(0, 9, size=200))
    one_by_one = Cascade([low, high], [1, 30], error_cost=100, seed=5)
    batched = Cascade([low, high], [1, 30], error_cost=100, seed=5)
    expected = [one_by_one(x) for x in X]
    assert batched.answers(X, batch_size=1) == expected
    assert learned(batched) == learned(one_by_one)
    assert len({answer.arm for answer in expected}) == 2


def test_a_batch_is_decisions_first_and_feedback_in_order():
    X = list(np.random.default_rng(0).integers(0, 9, size=90))
    batched = Cascade([low, high], [1, 30], error_cost=100, seed=5)
    by_hand = Cascade([low, high], [1, 30], error_cost=100, seed=5)
    labels = batched.predict(X, batch_size=30)
    expected = []
    for start in range(0, 90, 30):
        decisions = [by_hand.decide() for _ in range(30)]
        for decision, x in zip(decisions, X[start : start + 30]):
            outputs = [low(x), high(x)][: decision.arm + 1]
            by_hand.feedback(decision.id, outputs)
            expected.append(outputs[-1])
    assert labels.tolist() == expected
    assert batched.state()["core"] == by_hand.state()["core"]


@pytest.mark.parametrize("kind", ["callable", "classifier", "combine"])
def test_a_batch_that_fails_teaches_nothing_and_leaves_nothing_open(kind):
    def rule(x):
        if x == 25:
            raise RuntimeError("no answer for 25")
        return high(x)

    def picky(outputs):
        return rule(25) if len(outputs) == 2 and kind == "combine" else outputs[-1]

    second = {"callable": rule, "classifier": Counting(rule), "combine": high}[kind]
    cascade = fixed(1, [low, second], combine=picky)
    with pytest.raises(RuntimeError, match="no answer for 25"):
        cascade.predict(list(range(40)), batch_size=10)
    done = 0 if kind == "combine" else 20  # two whole batches before the one with 25
    assert (cascade.rounds, cascade.pending) == (done, [])
    assert cascade.report().comparisons[0, 1] == done
    # Ten first calls; then the second calls of rows 20 to 24 one by one, none of a classifier, or all ten.
    wasted = {"callable": 10 + 5 * 4, "classifier": 10, "combine": 10 + 10 * 4}[kind]
    assert cascade.report().wasted == wasted


def test_a_batch_for_which_there_is_no_room_changes_nothing():
    cascade = Cascade([low, high], [1, 30], error_cost=100, seed=5)
    for _ in range(9_990):
        cascade.decide()
    before = cascade.state()["core"]
    with pytest.raises(PendingDecision, match="9990 decisions wait"):
        cascade.predict(list(range(11)))
    assert cascade.state()["core"] == before  # the generator too
    assert len(cascade.predict(list(range(10)))) == 10


def test_what_is_no_batch():
    cascade = fixed(0, [low])
    for X in ("abc", 3, None, np.float64(1.0), np.array(1.0), {"a": 1}):
        with pytest.raises(ValueError, match="X must be"):
            cascade.predict(X)
    for size in (0, 10_001, 1.5):
        with pytest.raises(ValueError, match="batch_size"):
            cascade.predict([1], batch_size=size)
    assert cascade.predict([]).tolist() == []
    assert cascade.predict(x for x in (1, 9)).tolist() == [False, True]
    assert fixed(0, [lambda x: x]).predict(["a", 1, None]).tolist() == ["a", 1, None]


def test_a_classifier_that_gives_too_few_labels_is_caught():
    class Short:
        def predict(self, X):
            return [1]

    cascade = fixed(0, [Short()])
    with pytest.raises(ValueError, match=r"stages\[0\].predict must give 3 labels, gave 1"):
        cascade.predict([1, 2, 3])
    assert (cascade.rounds, cascade.pending) == (0, [])


# -- failures and time


@pytest.mark.parametrize(
    "error", [RuntimeError("down"), KeyboardInterrupt(), StopIteration(), TimeoutError("own")]
)
@pytest.mark.parametrize("timeout", [None, 30])
def test_a_stage_that_raises_cancels_the_decision_and_teaches_nothing(error, timeout):
    def failing(x):
        raise error

    cascade = fixed(1, [lambda x: Costed(1, 0.25), failing], timeout=timeout)
    before = learned(cascade)
    with pytest.raises(type(error)) as caught:
        cascade(1)
    assert caught.value is error
    assert learned(cascade) == before
    assert cascade.pending == []
    assert (cascade.report().spent, cascade.report().wasted) == (0, 0.25)


def test_an_output_that_is_no_label_is_a_failure_of_the_round():
    cascade = fixed(1, [lambda x: 1.0, lambda x: float("nan")])
    with pytest.raises(ValueError, match="stage 1 must be a label, got nan"):
        cascade(1)
    assert (cascade.rounds, cascade.pending) == (0, [])


def test_a_stage_that_takes_too_long_cancels_the_decision():
    release = threading.Event()
    cascade = fixed(1, [low, lambda x: release.wait(PATIENCE)], timeout=0.05)
    started = time.monotonic()
    assert "stages[1] took longer than 0.05 s" in too_late(lambda: cascade(1), but="stages[0]")
    with pytest.raises(TimeoutError):
        cascade.predict([1, 2])
    said = too_late(lambda: asyncio.run(cascade.acall(1)), but="stages[0]")
    assert "stages[1] took longer than 0.05 s" in said
    assert time.monotonic() - started < PATIENCE / 2
    assert (cascade.rounds, cascade.pending) == (0, [])
    release.set()  # the calls left behind end now, and must not count
    assert fixed(1, [low, high], timeout=PATIENCE)(7).outputs == (True, True)
    assert (cascade.rounds, cascade.pending) == (0, [])


# -- asynchronous stages


async def slow_high(x, earlier=()):
    await asyncio.sleep(0)
    return Costed(high(x), 10 + len(earlier))


class AsyncCallable:
    async def __call__(self, x):
        return high(x)


def test_asynchronous_and_other_stages_together():
    cascade = fixed(2, [low, slow_high, AsyncCallable()])
    answer = asyncio.run(cascade.acall(4))
    assert (answer.outputs, answer.cost) == ((True, False, False), 1 + 11 + 25)
    assert asyncio.run(fixed(1, [low, lambda x: slow_high(x)]).acall(4)).label is False


async def test_many_asynchronous_calls_at_once():
    cascade = Cascade([low, slow_high], [1, 30], error_cost=100, policy="Random", seed=1)

    answers = await asyncio.gather(*(cascade.acall(x) for x in range(50)))
    assert [answer.label for answer in answers] == [[low, high][a.arm](x) for x, a in enumerate(answers)]
    assert (cascade.rounds, cascade.pending) == (50, [])


def test_asynchronous_stages_are_refused_where_they_cannot_be_awaited():
    for stage in (slow_high, AsyncCallable(), functools.partial(slow_high, earlier=())):
        cascade = fixed(0, [low, stage])
        for misuse in (lambda: cascade(1), lambda: cascade.predict([1])):  # noqa: B023
            with pytest.raises(ValueError, match=r"stages\[1\] is asynchronous"):
                misuse()
    hidden = fixed(0, [lambda x: slow_high(x)])
    with pytest.raises(ValueError, match=r"stages\[0\] is asynchronous"):
        hidden(1)
    assert hidden.pending == []


@pytest.mark.parametrize("how", ["raises", "late", "own", "cancelled", "stop"])
def test_an_asynchronous_stage_that_fails_cancels_the_decision(how):
    async def failing(x):
        if how == "raises":
            raise RuntimeError("down")
        if how == "own":
            raise TimeoutError("the server's")
        await asyncio.sleep(60)

    def stopping(x):
        raise StopIteration

    limits = {"late": 0.05, "own": 60}
    cascade = fixed(1, [low, stopping if how == "stop" else failing], timeout=limits.get(how))

    async def main():
        task = asyncio.ensure_future(cascade.acall(1))
        if how == "cancelled":
            while not cascade.pending:
                await asyncio.sleep(0)
            task.cancel()
        return await task

    expected = {"late": TimeoutError, "own": TimeoutError, "cancelled": asyncio.CancelledError}
    message = {"late": "took longer", "own": "the server's"}.get(how)
    with pytest.raises(expected.get(how, RuntimeError), match=message):
        asyncio.run(main())
    assert (cascade.rounds, cascade.pending) == (0, [])


def test_a_model_that_was_not_fitted_is_refused_at_once():
    from sklearn.dummy import DummyClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = DummyClassifier().fit([[0.0], [1.0]], [0, 1])
    for raw in (DummyClassifier(), make_pipeline(StandardScaler(), DummyClassifier())):
        with pytest.raises(ValueError, match=r"stages\[1\] must be fitted, got .*: call its fit first"):
            Cascade([fitted, raw], [1, 2], error_cost=10)
    assert Cascade([fitted, fitted], [1, 2], error_cost=10, seed=0)([0.5]).label in (0, 1)
