"""Simulation: the same numbers whatever runs them, honest errors, paired worlds."""

import io
import multiprocessing
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from tests.rig.processes import wait_until

from weakfeedback import InterpretedWarning, Results, simulate
from weakfeedback.cascade import CascadeProblem, FixedArm, HanawalHeuristic, RandomArm, UssTs, UssUcb
from weakfeedback.cascade import play as cascade_play
from weakfeedback.engine.simulate import mark_rounds

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
TABLE = CascadeProblem.from_predictions(
    truth=[0, 1, 2, 0, 1, 2, 0],
    predictions=[[0, 0], [1, 1], [0, 2], [0, 0], [0, 1], [2, 2], [1, 0]],
    costs=[0.1, 0.2],
)


def policies(problem):
    return {
        "USS-TS": UssTs(problem.costs),
        "USS-UCB": UssUcb(problem.costs),
        "Hanawal": HanawalHeuristic(problem.costs),
        "last": FixedArm(problem.costs, problem.arms - 1),
        "random": RandomArm(problem.costs),
    }


@pytest.mark.parametrize("problem", [PROBLEM, TABLE], ids=["law", "data set"])
def test_compiled_equals_interpreted(problem):
    options = {"horizon": 300, "replications": 4, "seed": 3, "marks": np.arange(1, 301)}
    fast = simulate(problem, policies(problem), **options)
    slow = simulate(problem, policies(problem), compiled=False, **options)
    assert fast.frame.equals(slow.frame)
    assert all(how is True for how in fast.compiled.values())
    assert set(slow.compiled.values()) == {False}
    assert slow.reasons == dict.fromkeys(slow.compiled, "compiled=False was asked for")
    assert fast.reasons == {}


@pytest.fixture(scope="module")
def standard():
    return simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=9, seed=5).frame


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_threads_do_not_matter(standard, workers):
    with ThreadPoolExecutor(workers) as executor:
        results = simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=9, seed=5, executor=executor)
    assert results.frame.equals(standard)


def test_processes_do_not_matter(standard):
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        results = simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=9, seed=5, executor=executor)
    assert results.frame.equals(standard)


@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_chunks_do_not_matter(standard, size, monkeypatch):
    import dataclasses

    monkeypatch.setattr(cascade_play, "LOOP", dataclasses.replace(cascade_play.LOOP, chunk_rounds=400 * size))
    results = simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=9, seed=5)
    assert results.frame.equals(standard)


def test_more_replications_continue_the_same_ones(standard):
    fewer = simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=4, seed=5).frame
    assert fewer.equals(standard[standard["replication"] < 4].reset_index(drop=True))


def test_another_seed_is_another_world(standard):
    other = simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=9, seed=6).frame
    assert not other.equals(standard)


class Watcher:
    """Plays the last arm and adds up what it sees."""

    delay_safe = True

    def __init__(self, arms, weight):
        self.K = arms
        self.weight = weight
        self.total = 0

    def select(self, rng):
        return self.K - 1 if self.weight + rng.random() > -1.0 else 0

    def update(self, arm, outputs, rng):
        for k in range(arm + 1):
            self.total += outputs[k] * self.weight


@pytest.mark.parametrize("problem", [PROBLEM, TABLE], ids=["law", "data set"])
def test_all_policies_meet_the_same_world(problem):
    """What the world draws does not depend on what policies do or draw."""
    from weakfeedback.engine.replication import Compiled, Interpreted
    from weakfeedback.engine.seeds import generator

    totals = []
    for weight in (1, 1):
        for player in (Compiled(problem, Watcher(problem.arms, weight)), Interpreted(problem)):
            counts = np.zeros(problem.arms, dtype=np.int64)
            table = np.zeros((1, problem.arms), dtype=np.int64)
            rngs = generator(0, 7, 0), generator(0, len(totals), 1)
            watcher = Watcher(problem.arms, weight)
            _, state = player.play(watcher, problem.world(), *rngs, np.array([200]), counts, table)
            totals.append(state["total"])
    assert len(set(totals)) == 1


def test_the_prototype_is_never_changed():
    policy = UssTs(PROBLEM.costs)
    simulate(PROBLEM, {"a": policy}, horizon=100, replications=2)
    simulate(PROBLEM, {"a": policy}, horizon=100, replications=2, compiled=False)
    assert (policy.S == 1).all()
    assert (policy.F == 1).all()


class Uncompilable(FixedArm):
    def select(self, rng):
        return min([self.K - 1, *[0 for _ in {}.values()]])


def test_what_cannot_be_compiled_runs_with_one_warning():
    with pytest.warns(
        InterpretedWarning, match=r"'mine' \(Uncompilable\) runs in the interpreter.*select\(\)"
    ) as seen:
        results = simulate(PROBLEM, {"mine": Uncompilable(PROBLEM.costs, 0)}, horizon=20, replications=2)
    assert len(seen) == 1
    assert "\n" not in str(seen[0].message)
    assert results.compiled == {"mine": False}
    assert "select()" in results.reasons["mine"]
    assert results.final().loc["mine", "mean"] == pytest.approx(20 * PROBLEM.gaps[2])


class Wrong(FixedArm):
    def __init__(self, costs, wrong):
        super().__init__(costs, 0)
        self.wrong = wrong

    def select(self, rng):
        return self.wrong


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("wrong", [PROBLEM.arms, -1])
def test_an_arm_that_does_not_exist_is_an_error(wrong, compiled):
    with pytest.raises(
        ValueError, match=r"'wrong' decided .* round 1 of replication 0: it must be an arm from 0 to 2"
    ):
        simulate(
            PROBLEM, {"wrong": Wrong(PROBLEM.costs, wrong)}, horizon=10, replications=1, compiled=compiled
        )


class TurnsNan(FixedArm):
    def __init__(self, costs, arm):
        super().__init__(costs, arm)
        self.x = 1.0
        self.zero = np.zeros(1)

    def update(self, arm, outputs, rng):
        self.x = self.zero[0] * np.inf


@pytest.mark.parametrize("compiled", [True, False])
def test_a_field_that_becomes_nan_is_an_error(compiled):
    with pytest.raises((ValueError, FloatingPointError)) as caught:
        simulate(PROBLEM, {"nan": TurnsNan(PROBLEM.costs, 0)}, horizon=10, replications=1, compiled=compiled)
    if compiled:
        assert str(caught.value) == "the field 'x' of 'nan' became NaN in replication 0"


class SharesMemory(FixedArm):
    def __init__(self, costs, arm):
        super().__init__(costs, arm)
        self.table = np.zeros((2, 2))
        self.row = self.table[0]


class Peeking:
    """Looks behind the end of what it was shown, by index and through the array's owner."""

    delay_safe = True

    def __init__(self, arms):
        self.K = arms
        self.worst = 0

    def select(self, rng):
        return 0

    def update(self, arm, outputs, rng):
        self.worst = max(self.worst, outputs[self.K - 1])


class PeekingThroughBase(Peeking):
    def update(self, arm, outputs, rng):
        self.worst = max(self.worst, outputs.base[self.K - 1])


def test_nothing_hidden_lies_behind_what_is_shown(monkeypatch):
    """Unchecked compiled code reads past the end, the interpreter through ``.base``: neither finds an output."""
    monkeypatch.setattr("weakfeedback.engine.compiler._numba.functions.checks_bounds", lambda: False)
    from weakfeedback.engine.replication import Compiled, Interpreted
    from weakfeedback.engine.seeds import generator

    for policy, player in (
        (Peeking(3), Compiled(PROBLEM, Peeking(3))),
        (PeekingThroughBase(3), Interpreted(PROBLEM)),
    ):
        counts, table = np.zeros(3, dtype=np.int64), np.zeros((1, 3), dtype=np.int64)
        rngs = generator(0, 0, 0), generator(0, 0, 1)
        _, state = player.play(policy, PROBLEM.world(), *rngs, np.array([200]), counts, table)
        assert state["worst"] == 0  # a single visible 1 of the third arm would have shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": 0}, "horizon must be an integer >= 1, got 0"),
        ({"horizon": 10.5}, "horizon must be an integer >= 1, got 10.5"),
        ({"replications": -1}, "replications must be an integer >= 1, got -1"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
        ({"marks": [5, 3]}, "marks must be a number or increasing rounds from 1 to 10"),
        ({"marks": [0, 3]}, "marks must be a number or increasing rounds from 1 to 10"),
        ({"marks": [2, 11]}, "marks must be a number or increasing rounds from 1 to 10"),
        ({"marks": 0}, "marks must be an integer >= 1, got 0"),
        ({"policies": {}}, "policies must be a mapping of labels to policies"),
        ({"policies": {"a": UssTs([0.1, 0.2])}}, "UssTs was made for 2 arms, the problem has 3"),
        (
            {"policies": {"a": SharesMemory(PROBLEM.costs, 0)}},
            "fields 'table' and 'row' of SharesMemory share memory",
        ),
    ],
)
def test_wrong_arguments(options, words):
    arguments = {"policies": policies(PROBLEM), "horizon": 10, "replications": 1, **options}
    with pytest.raises(ValueError, match=words):
        simulate(PROBLEM, **arguments)


def test_marks():
    assert mark_rounds(4, 10).tolist() == [3, 5, 8, 10]
    assert mark_rounds(200, 3).tolist() == [1, 2, 3]
    assert mark_rounds([2, 4], 10).tolist() == [2, 4, 10]
    assert mark_rounds(200, 10_000).size == 200


def test_counts_at_marks_add_up():
    frame = simulate(PROBLEM, policies(PROBLEM), horizon=100, replications=2, marks=[1, 7, 50]).frame
    assert frame["round"].unique().tolist() == [1, 7, 50, 100]
    pulls = frame[["pulls_0", "pulls_1", "pulls_2"]]
    assert (pulls.sum(axis=1) == frame["round"]).all()
    assert np.allclose(pulls.to_numpy() @ PROBLEM.gaps, frame["regret"])
    assert np.allclose(pulls.to_numpy() @ PROBLEM.costs, frame["cost"])


def test_progress_is_quiet_when_not_a_terminal(capfd):
    simulate(PROBLEM, policies(PROBLEM), horizon=50, replications=2, progress=True)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


@pytest.mark.parametrize(
    ("progress", "after", "shown"),
    [(None, 0.0, True), (None, 1000.0, False), (True, 1000.0, True), (False, 0.0, False)],
)
def test_a_terminal_sees_progress_by_itself_if_it_takes_time(monkeypatch, progress, after, shown):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    class Slow(RandomArm):
        def select(self, rng):
            time.sleep(0.001)
            return super().select(rng)

    monkeypatch.setattr("weakfeedback.engine.simulate.QUIET", after)
    monkeypatch.setattr("sys.stderr", Terminal())
    threads = threading.active_count()
    simulate(PROBLEM, {"slow": Slow(PROBLEM.costs)}, 100, 2, compiled=False, progress=progress)
    assert ("slow" in sys.stderr.getvalue()) == shown
    # what draws the bar may take a moment to end
    wait_until(lambda: threading.active_count() <= threads)


def test_results_summaries_by_hand():
    results = simulate(
        PROBLEM, {"a": UssTs(PROBLEM.costs), "b": RandomArm(PROBLEM.costs)}, horizon=50, replications=5
    )
    last = results.frame[results.frame["round"] == 50].pivot(
        index="replication", columns="policy", values="regret"
    )
    a, b = last["a"].to_numpy(), last["b"].to_numpy()
    half = 2.7764451051977987 * a.std(ddof=1) / np.sqrt(5)  # the .975 quantile of Student's t with 4 degrees
    final = results.final()
    assert final.loc["a"].tolist() == pytest.approx([a.mean(), a.mean() - half, a.mean() + half, 5])
    curve = results.curve()
    assert curve[(curve["policy"] == "a") & (curve["round"] == 50)]["high"].item() == pytest.approx(
        a.mean() + half
    )
    comparison = results.compare("a", "b")
    assert comparison.mean == comparison["mean"] == pytest.approx((a - b).mean())
    assert results.compare("b", "a").mean == -comparison.mean
    assert results.compare("a", "a").p_value == 1.0
    from scipy.stats import ttest_rel

    assert comparison.p_value == pytest.approx(ttest_rel(a, b).pvalue)
    with pytest.raises(ValueError, match="policy must be one of a, b, got 'c'"):
        results.compare("a", "c")
    with pytest.raises(ValueError, match="measure must be one of regret, cost"):
        results.final("speed")


def test_compiled_is_a_bool_and_reasons_survive_a_file(tmp_path):
    results = simulate(PROBLEM, policies(PROBLEM), horizon=40, replications=2, compiled=False)
    first, *others = results.compiled
    reasons = dict.fromkeys(others, "its field is a dict")
    bools = {first: True, **dict.fromkeys(others, False)}
    for made in (
        Results(results.frame, {first: True, **reasons}, results.about),  # the reason may stand there
        Results(results.frame, bools, results.about, reasons),
    ):
        made.save(tmp_path / "r.parquet")
        for found in (made, Results.load(tmp_path / "r.parquet")):
            assert found.compiled == bools
            assert all(type(value) is bool for value in found.compiled.values())
            assert found.reasons == reasons


def test_results_survive_a_file(tmp_path, standard):
    results = simulate(PROBLEM, policies(PROBLEM), horizon=400, replications=9, seed=5)
    results.save(tmp_path / "r.parquet")
    loaded = Results.load(tmp_path / "r.parquet")
    assert loaded.frame.equals(standard)
    assert loaded.compiled == results.compiled
    assert loaded.reasons == results.reasons
    assert loaded.about == results.about
    (tmp_path / "junk").write_bytes(b"no parquet")
    for name in ("junk", "absent"):
        with pytest.raises(ValueError, match=rf"cannot load results from .*{name}"):
            Results.load(tmp_path / name)


def test_results_show_what_they_are_in_a_console_and_in_a_notebook():
    problem = CascadeProblem.bsc([0.3, 0.1], [0.1, 0.2])
    results = simulate(problem, {"<b>": UssTs(problem.costs)}, horizon=50, replications=1)
    assert repr(results).endswith(": 1 policy, 1 replication, 50 rounds>")
    page = results._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
