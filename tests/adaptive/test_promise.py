"""What Promise promises, whatever nature does; the pitfalls of an implementation, one test each; invariances."""

import copy
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adaptive.test_promise_twin import table
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.adaptive import AdaptiveProblem, Promise, UssA, instances
from weakfeedback.adaptive.offers import OFFERS, would_be
from weakfeedback.adaptive.policies.promise import AFTER, BEFORE, OPEN, PASSING
from weakfeedback.adaptive.problem import NotedProblem
from weakfeedback.checks import check_policy
from weakfeedback.datasets import load_answers
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.replication import Compiled, Interpreted, streams

COSTS = [1.0, 20.0]


class Story:
    """Rounds of a policy with two or more stages against a nature that sees everything but the coin to come."""

    def __init__(self, policy, seed=0):
        self.policy, self.rng = policy, np.random.default_rng(seed)
        self.t = self.differ = self.out = 0

    def decide(self, outputs, scores=None, group=0):
        """Play a round up to the feedback."""
        K = len(outputs)
        seen, sure, arm = np.full(K, -1, dtype=np.int64), np.full(K, np.nan), -1
        self.policy.turn_to(group, -1, 1.0)
        while True:
            k = self.policy.next_stage(arm, seen, sure, self.rng)
            if k < 0:
                break
            seen[k], sure[k], arm = outputs[k], np.nan if scores is None else scores[k], k
        self.t += 1
        out = arm != self.policy.R
        self.out += out
        self.differ += out and outputs[arm] != outputs[self.policy.R]
        return group, self.policy.first, self.policy.chance, arm, seen, sure

    def learn(self, decided):
        group, first, chance, arm, seen, sure = decided
        self.policy.turn_to(group, first, chance)
        self.policy.update(arm, seen, sure, np.zeros(0), self.rng)
        return arm

    def play(self, outputs, scores=None, group=0):
        return self.learn(self.decide(outputs, scores, group))

    def money_is_bounded(self):
        """A5, with the bound as it is accumulated."""
        assert self.policy.spent <= self.policy.allowed + 1e-9

    def tokens_are_safe(self):
        """What A1 rests on, and that the estimate is never above the bound."""
        policy = self.policy
        assert (policy.tokens >= -1e-9).all()
        assert (policy.tokens - policy.held >= -1e-9).all()
        assert (policy.estimate <= policy.earned + 1e-9).all()
        for b in range(policy.tokens.size):
            assert policy.estimate[b] <= policy.at_most(b) + 1e-9


def easy(policy, rounds=300, seed=1):
    """A story whose first rounds always agree, so that cheap answers go out."""
    story = Story(policy, seed)
    for _ in range(rounds):
        story.play([1] * policy.K, [0.5] * policy.K)
    return story


# -- the theorems, surely: for any nature


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.8, 0.95, 0.98]),
    st.booleans(),
    st.lists(st.tuples(st.integers(10, 120), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
)
def test_any_nature(seed, agree, sure, phases):
    """Nature attacks in phases, more so while it is ahead of the estimate; feedback comes late, some is lost."""
    policy = Promise(COSTS, agree=agree, sure=sure)
    story, nature, waiting = Story(policy, seed), np.random.default_rng(seed), []
    for length, share, lies in [(70, 0.0, 0.0), *phases]:
        for _ in range(length):
            ahead = story.differ >= policy.estimate[0]
            differs = nature.random() < (share if ahead else 0.5 * share)
            score = nature.random() if nature.random() < lies else 1.0 - differs
            before = policy.at_most(0)
            decided = story.decide([int(differs), 0], [score, 1.0])
            if sure and decided[3] == 0:  # A3: a cheap answer goes out only below the line
                assert before <= policy.earned[0] + 1e-9
            waiting.append(decided)
            while len(waiting) > 5 * (seed % 2):
                one = waiting.pop(0)
                under_way = one[3] == 1 and OPEN < one[2] < 1.0
                if under_way and nature.random() < 0.1:
                    policy.turn_to(*one[:3])
                    policy.lost()
                else:
                    story.learn(one)
            story.tokens_are_safe()
            story.money_is_bounded()
    assert policy.blind[0] == 0


SEQUENCES = {
    "turns": lambda t, T, u: t >= T // 2,
    "flips": lambda t, T, u: t // 250 % 2 == 1,
    "score turns round": lambda t, T, u: np.where(t < T // 3, u < 0.2, u > 0.8),
    "bursts": lambda t, T, u: t % 100 >= 90,
    "surest tenth": lambda t, T, u: 0.0 * u + (u > 0.9) * (np.arange(T) % 2 == 0),
    "always": lambda t, T, u: t >= 0,
}


def attack(name, T=2000, seed=0):
    """An attack sequence as a table that is served in its own order; the score is u."""
    t, u = np.arange(T), np.random.default_rng(seed).random(T)
    differs = np.asarray(SEQUENCES[name](t, T, u)).astype(int)
    outputs = np.column_stack([differs, np.zeros(T, dtype=int)])
    return AdaptiveProblem(outputs[:, 1], outputs, np.column_stack([u, np.ones(T)]), COSTS, order="given")


def certificates(problem, policy, runs, seed):
    """By run the largest share that differs, the last share, and whether more differ than U at some time."""
    marks = np.arange(20, problem._outputs.shape[0] + 1, 20)
    player = Compiled(problem, policy)
    rows = []
    for run in range(runs):
        world_rng, rng = streams(problem, policy, seed, run)
        one, world = copy.deepcopy(policy), problem.world()
        counts, crossed, ever = np.zeros(7, dtype=np.int64), False, 0.0
        for mark in marks:
            marked = np.zeros((1, 7), dtype=np.int64)
            _, state = player.play(one, world, world_rng, rng, np.array([mark]), counts, marked)
            vars(one).update(state)
            crossed |= counts[5] > one.at_most(0) + 1e-9
            ever = max(ever, counts[5] / mark)
            assert one.estimate[0] <= one.earned[0] + 1e-9
            assert one.spent <= 20.0 * (1.05 * mark + 50) + 1e-9
        rows.append((ever, counts[5] / marks[-1], crossed))
    return np.array(rows)


@pytest.mark.slow
@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize("name", SEQUENCES)
def test_attacks(name, sure):
    """A1 to A3 on 200 runs: a false alarm once in 700 for the mean; for 5 % of 200 above 20 once in 1000."""
    found = certificates(attack(name), Promise(COSTS, agree=0.95, sure=sure), 200, seed=4)
    last, error = found[:, 1].mean(), found[:, 1].std() / math.sqrt(200)
    assert last <= 0.05 + 3.0 * error
    assert found[:, 2].sum() <= 20
    if sure:
        assert (found[:, 0] > 0.05).sum() <= 20


def test_the_mean_share_is_kept_against_answers_that_begin_to_differ():
    """A1 on 30 runs, below eps plus three standard errors; a false alarm once in 700."""
    problem = attack("turns", 1000)
    results = simulate(problem, {"P": Promise(COSTS, agree=0.9)}, horizon=1000, replications=30, seed=2)
    shares = results.values("P", "differs")[:, -1] / 1000
    assert shares.mean() <= 0.1 + 3.0 * shares.std() / math.sqrt(30)
    assert shares.mean() > 0.002  # some went out
    assert (results.values("P", "spent")[:, -1] <= 20.0 * (1.05 * 1000 + 50)).all()


def test_without_the_weights_the_share_is_broken():
    """The negative control: a policy that counts a caught difference once lets far more than eps go out."""

    class Light(Promise):
        def weight(self, pi):
            return min((1.0 - pi) / pi, 0.05)

        def chance_of(self, b, r):
            return self.shadow_chance(self.n[b])

        def is_inside(self, b, r, rng):
            return True

    story = easy(Light(COSTS, agree=0.95), 100)
    for _ in range(500):
        story.play([0, 1], [0.5, 1.0])
    assert story.differ / story.t > 0.1


@pytest.mark.parametrize("background", [False, True])
def test_the_bound_holds_at_all_times(background):
    """A2 and A4 on the process alone: 400 paths of 400 coins; at most 5 %, so 35 of 400 by chance once in 1000.

    U' of A4 bounds the sum of the true rates (1 - pi) D.
    """
    policy = Promise(COSTS, background=background)
    rng, crossed, pac = np.random.default_rng(8), 0, 0
    few = policy.q_min / (1.0 - policy.q_min)
    for _ in range(400):
        A, L, over = np.zeros(9), 0.0, False
        weak, rate, above = np.zeros(9), 0.0, False
        rates = np.array([0.9, 0.8, 0.6, 0.45, 0.3, 0.2, 0.12, 0.07, 0.04]) * few
        for t in range(400):
            pi = 0.03 if t % 3 else 0.4
            D = 1.0 if t % 2 else 0.3  # fractions too
            Q = rng.random() < pi
            L += D if background or not Q else 0.0
            rate += (1.0 - pi) * D
            if Q:
                A += [policy.toll(j, pi) * D for j in range(9)]
                weak += [
                    -D * math.log(1.0 - x * (1.0 - pi) / pi) if x * (1.0 - pi) / pi < 1.0 else math.inf
                    for x in rates
                ]
            over |= np.exp(np.minimum(policy.rates * L - A, 700)).mean() > 20.0
            above |= np.exp(np.minimum(rates * rate - weak, 700)).mean() > 20.0
        crossed += over
        pac += above
    assert crossed <= 35
    assert pac <= 35


@pytest.mark.parametrize("options", [{}, {"agree": 0.8}, {"budget": 0.05}, {"error_cost": 0.5}], ids=str)
def test_excess_errors_are_at_most_what_differs(options):
    problem = table(3)
    results = simulate(problem, {"P": Promise(problem.costs, **options)}, horizon=800, replications=5, seed=1)
    reference = problem._wrong[:, -1].mean() * 800
    excess = results.values("P", "errors")[:, -1] - reference
    assert (excess <= results.values("P", "differs")[:, -1] + 4.0 * math.sqrt(800)).all()
    ordered = AdaptiveProblem(
        np.random.default_rng(1).integers(0, 4, 400),
        problem._outputs,
        problem._scores,
        problem.costs,
        order="given",
    )
    one = simulate(ordered, {"P": Promise(problem.costs, **options)}, horizon=400, replications=5, seed=1)
    excess = one.values("P", "errors")[:, -1] - ordered._wrong[:, -1].sum()
    assert (excess <= one.values("P", "differs")[:, -1]).all()


# -- the loop: any policy may name the next stage


class Skipper:
    """Begins at the last stage, now and then calls the first one after it, and notes what it is shown."""

    delay_safe = True

    def __init__(self):
        self.seen = np.zeros((50, 7))
        self.t = 0

    def next_stage(self, k, outputs, scores, rng):
        if k < 0:
            return 2
        return 0 if k == 2 and rng.random() < 0.5 else -1

    def update(self, arm, outputs, scores, chances, rng):
        if self.t < 50:
            self.seen[self.t, 0] = arm
            for k in range(outputs.size):
                self.seen[self.t, 1 + k] = outputs[k]
                self.seen[self.t, 4 + k] = 0.0 if math.isnan(scores[k]) else scores[k]
        self.t += 1


def test_only_stages_that_were_called_cost_money():
    problem = table(4)
    results = simulate(problem, {"S": Skipper()}, horizon=50, replications=1, seed=1)
    assert results.compiled["S"]
    spent = results.values("S", "spent")[0, -1]
    calls = [results.values("S", f"calls_{k}")[0, -1] for k in range(3)]
    assert calls[1] == 0
    assert calls[2] == 50
    assert 10 < calls[0] < 40
    assert spent == pytest.approx(calls[0] * problem.costs[0] + 50 * problem.costs[2])
    assert results.values("S", "stops_0")[0, -1] == calls[0]  # the last stage called answers
    one, world = Skipper(), problem.world()
    counts, marked = np.zeros(10, dtype=np.int64), np.zeros((1, 10), dtype=np.int64)
    Interpreted(problem).play(one, world, *streams(problem, one, 1, 0), np.array([50]), counts, marked)
    assert (one.seen[:, 2] == -1).all()  # the second one was never called
    assert {tuple(row) for row in one.seen[:, [0, 1]].tolist() if row[0] == 2} == {(2.0, -1.0)}
    check_policy(lambda p: Skipper(), problem, rounds=60)


@pytest.mark.parametrize("answer", [3, -2, 1.5])
def test_stages_that_do_not_exist_are_refused(answer):
    class Wrong(Skipper):
        def next_stage(self, k, outputs, scores, rng):
            return answer

    with pytest.raises(ValueError, match="a stage from 0 to 2, or -1 to stop"):
        simulate(table(4), {"W": Wrong()}, horizon=5, replications=1, compiled=False)


@pytest.mark.parametrize("answer", [-1, 0])
def test_no_stage_and_one_twice_are_refused(answer):
    class Wrong(Skipper):
        def next_stage(self, k, outputs, scores, rng):
            return answer

    with pytest.raises(ValueError, match="each at most once, and at least one"):
        simulate(table(4), {"W": Wrong()}, horizon=5, replications=1, compiled=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{}, {"sure": True}, {"budget": 9.0}, {"groups": "each", "agree": 0.8}], ids=str
)
def test_conformance(options):
    check_policy(lambda p: Promise(p.costs, **options), table(5, groups=3), rounds=150)


def test_differs_is_measured_against_the_reference():
    problem = table(6)
    policies = {"A": UssA(problem.costs / 100)}
    with pytest.warns(UserWarning, match="never called"):
        policies["P"] = Promise(problem.costs, reference=1, agree=0.8)
    results = simulate(problem, policies, horizon=400, replications=2, seed=1)
    outputs = problem._outputs
    for run in range(2):
        stops = [results.values("A", f"stops_{k}")[run, -1] for k in range(3)]
        assert 0 <= results.values("A", "differs")[run, -1] <= stops[0] + stops[1]
        assert results.values("P", "calls_2")[run, -1] == 0
        assert results.values("P", "differs")[run, -1] <= results.values("P", "stops_0")[run, -1]
    assert (outputs[:, 0] != outputs[:, 1]).any()


# -- pitfalls


test_wrong_options_get_one_line = refusals(
    lambda options: Promise(COSTS, **options),
    ({"agree": 1.0}, "agree must be below 1, got 1.*shadow=True"),
    ({"agree": 0.5}, "above 0.5 and below 1"),
    ({"agree": 0.0}, "above 0.5 and below 1"),
    ({"agree": math.nan}, "agree must be"),
    ({"budget": 0.0}, "budget must be"),
    ({"budget": 1.0, "agree": 0.9}, "budget must stand alone"),
    ({"error_cost": -1.0}, "error_cost must be"),
    ({"budget": 1.0, "sure": True}, "sure needs agree"),
    ({"reference": 2}, "reference must be"),
    ({"groups": "all"}, "groups must be None or 'each'"),
    ({"sure": 1}, "sure must be True or False"),
    ({"memory": 3}, "memory must be"),
    ({"expected": 0}, "expected must be"),
    ({"bucket": 0}, "bucket must be"),
)


def test_a_reference_for_nothing_is_refused():
    with pytest.raises(ValueError, match="above 0 for the reference"):
        Promise([0.0, 0.0])
    policy = Promise([0.0, 20.0], agree=0.9)
    with pytest.raises(ValueError, match="above 0 for the reference"):
        policy.take_costs([1.0, 0.0])
    assert (policy.R, policy.c.tolist()) == (1, [0.0, 20.0])


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ([20.0, 20.0], "cheapest stage"),
        ([30.0, 20.0], "cheapest stage"),
        ([20.0], "only stage"),
        ([1, 19.9, 20], "1"),
    ],
)
def test_models_that_save_nothing_are_never_called(costs, words):
    with pytest.warns(UserWarning, match=words):
        policy = Promise(costs)
    story = Story(policy)
    for _ in range(200):
        story.play([1] * len(costs))
    assert policy.calls[[k for k in range(len(costs)) if costs[k] > 10]].sum() == 0


@pytest.mark.parametrize(("expected", "compares"), [(50, False), (99, False), (1000, True), (None, True)])
def test_little_traffic_learns_nothing(expected, compares):
    story = easy(Promise(COSTS, expected=expected), 60)
    assert (story.policy.calls[0] > 0) == compares
    if not compares:
        assert story.policy.spent == 60 * 20.0


def test_the_first_comparisons_cost_at_most_a_twentieth_of_what_is_expected():
    policy = Promise([10.0, 20.0], expected=200)
    easy(policy, 150)
    assert policy.learned <= 0.05 * 20.0 * 200


def test_a_reference_that_is_called_late_or_lost_reserves_its_tokens():
    """Parallel requests, delay, time-outs: the coin is weighed with what no comparison under way may take."""
    story = easy(Promise(COSTS, agree=0.9), 150)
    policy = story.policy
    open_rounds = [story.decide([1, 2], [0.5, 1.0]) for _ in range(400)]
    under_way = [one for one in open_rounds if OPEN < one[2] < 1.0 and one[3] == 1]
    weights = sum((1.0 - one[2]) / one[2] for one in under_way)
    assert len(under_way) > 2
    assert policy.held[0] == pytest.approx(weights)
    assert weights <= policy.tokens[0] + 1e-9
    bound, tokens = policy.at_most(0), policy.tokens[0]
    for one in under_way:  # none comes back
        policy.turn_to(*one[:3])
        policy.lost()
    assert policy.tokens[0] == pytest.approx(tokens - weights)
    assert policy.at_most(0) == pytest.approx(bound)  # they stood in the bound from the toss on
    assert policy.open[0] == 0
    assert policy.held[0] == 0.0


def test_late_news_frees_the_reservation():
    story = easy(Promise(COSTS, agree=0.9), 150)
    policy = story.policy
    rounds = [story.decide([1, 1], [0.5, 1.0]) for _ in range(100)]
    assert policy.held[0] > 0.0
    bound = policy.at_most(0)
    for one in rounds:
        story.learn(one)
    assert policy.held[0] == 0.0
    assert policy.at_most(0) < bound


def test_an_answer_without_a_coin_takes_a_token_and_counts_in_the_bound():
    """The reference fails, and the cheap answer goes out all the same."""
    policy = easy(Promise(COSTS), 300).policy
    policy.turn_to(0, -1, 1.0)
    tokens, bound = policy.tokens[0], policy.at_most(0)
    assert policy.can_go_blind()
    policy.go_blind()
    assert policy.tokens[0] == pytest.approx(tokens - 1.0)
    assert policy.at_most(0) == pytest.approx(bound + 1.0)
    policy.tokens[0] = 0.5
    assert not policy.can_go_blind()


def test_background_answers_wait_for_a_whole_token():
    story = easy(Promise(COSTS, agree=0.95, background=True), 300)
    policy = story.policy
    policy.tokens[0] = 0.4
    before = story.out
    for _ in range(10):
        story.play([1, 1], [0.5, 1.0])
        policy.tokens[0] = min(policy.tokens[0], 0.9)
    assert story.out == before
    policy.tokens[0] = 20.0
    seen = [story.decide([1, 1], [0.5, 1.0])[2] for _ in range(5)]
    assert all(chance == 1.0 or 1.0 / chance <= 20.0 + 1e-9 for chance in seen)
    with pytest.raises(ValueError, match="live use"):
        simulate(table(1, stages=2), {"P": policy}, horizon=5, replications=1)


def test_an_undecidable_comparison_differs():
    """Negative labels are answers that equal none; two unknown labels are not the same."""
    for outputs, D in (
        ([-2, -2], 1.0),
        ([-3, 1], 1.0),
        ([PASSING, PASSING + 1], 1.0),
        ([PASSING, PASSING], 0.0),
    ):
        story = Story(Promise(COSTS))
        story.play(outputs)
        assert story.policy.D[0, 0] == D
        assert story.policy.label_count == 0


def test_slots_of_labels_and_groups_are_kept_for_good():
    policy = Promise(COSTS)
    story = Story(policy)
    for k in range(40):
        story.play([40 - k, 40 - k], group=100 - k)
    assert policy.label_ids.tolist() == list(range(40, 28, -1))
    assert policy.group_ids[:40].tolist() == list(range(100, 60, -1))
    for k in range(60):
        story.play([k, k], group=200 + k)
    assert policy.label_ids.tolist() == list(range(40, 28, -1))
    assert policy.group_count == 63


def test_many_groups_with_a_promise_each_share_the_last_bucket():
    policy = Promise(COSTS, groups="each", agree=0.9)
    story = Story(policy)
    for k in range(200):
        story.play([1, 1], [0.5, 1.0], group=k % 100)
    assert policy.n.sum() == 200
    assert policy.n[0] == 2
    assert policy.n[63] == 2 * 37
    assert policy.earned.sum() == pytest.approx(20.0)


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_odd_scores(odd):
    problem = table(7, stages=2)
    story = Story(Promise(COSTS, agree=0.8), 3)
    for k in range(600):
        r = k % 400
        scores = problem._scores[r].copy()
        if k % 3 == 0:
            scores[0] = odd
        story.play(problem._outputs[r], scores)
    assert story.out > 50
    assert story.differ <= 0.2 * 600
    assert np.isfinite(story.policy.theta).all()
    if math.isnan(odd):
        assert story.policy.theta[0, 0, 3] != 0.0  # an indicator of its own


def test_scores_that_vanish_switch_to_the_group():
    problem = table(8, stages=2, groups=3)
    story = Story(Promise(COSTS, agree=0.8, memory=100), 3)
    for k in range(700):
        scores = problem._scores[k % 400] if k < 200 else [math.nan, math.nan]
        story.play(problem._outputs[k % 400], scores, int(problem._groups[k % 400]))
    assert story.policy.ranked[0] == 0
    assert story.policy.theta[1, 0, 0] != -2.0


def test_constant_scores_are_one_tie():
    story = Story(Promise(COSTS, agree=0.9), 3)
    nature = np.random.default_rng(1)
    for _ in range(1500):
        story.play([int(nature.random() < 0.15), 0], [0.5, 1.0])
    assert story.out > 100
    assert (
        story.policy.limit[0] == story.policy.risk(0, 0, 0.5, True, story.policy.slot_of_label(0), 0)
        or story.policy.label_count == 2
    )
    assert story.differ <= 0.1 * 1500 + 3 * math.sqrt(150 / 0.1)


def test_prices_may_change():
    story = easy(Promise(COSTS), 300)
    policy = story.policy
    assert policy.model[0] == 0
    allowed = policy.allowed
    policy.take_costs([19.9, 20.0])  # nothing to save any more
    assert policy.allowed == allowed
    calls = policy.calls[0]
    for _ in range(50):
        story.play([1, 1], [0.5, 1.0])
        story.money_is_bounded()
    assert policy.calls[0] == calls
    policy.take_costs([1.0, 40.0])
    story.play([1, 1], [0.5, 1.0])
    assert policy.allowed == pytest.approx(allowed + 50 * 21.0 + 42.0)
    with pytest.raises(ValueError, match="costs must be 2 numbers"):
        policy.take_costs([1.0])


def test_the_reference_may_change():
    story = easy(Promise([1.0, 15.0, 20.0]), 300)
    policy = story.policy
    tokens, A = policy.tokens.copy(), policy.A.copy()
    policy.take_reference(1)
    assert policy.comparisons.sum() == 0
    assert policy.model[0] == -1
    assert (policy.tokens == tokens).all()
    assert (policy.A == A).all()
    assert story.play([1, 1, 1], [0.5, 0.5, 0.5]) == 1


def test_the_limit_may_change():
    policy = easy(Promise(COSTS, agree=0.9), 100).policy
    earned = policy.earned[0]
    policy.take_limits(agree=0.99)
    story = Story(policy)
    for _ in range(100):
        story.play([1, 1], [0.5, 1.0])
    assert policy.earned[0] == pytest.approx(earned + 1.0)
    policy.take_limits(budget=5.0)
    assert policy.eps == 0.0


def test_a_budget_is_kept():
    problem = table(9)
    results = simulate(
        problem, {"P": Promise(problem.costs, budget=8.0)}, horizon=3000, replications=5, seed=1
    )
    spent = results.values("P", "spent")[:, -1]
    assert (spent <= 8.0 * 3000 + 50 * 20.0).all()
    assert (spent > 7.0 * 3000).all()


def test_shadow_mode_always_answers_with_the_reference():
    problem = table(10, rows=900)
    policy = Promise(problem.costs, agree=0.9, shadow=True)
    story = Story(policy, 2)
    for r in range(800):
        assert story.play(problem._outputs[r], problem._scores[r]) == 2
    assert story.differ == 0
    real = Story(Promise(problem.costs, agree=0.9), 2)
    for r in range(800):
        real.play(problem._outputs[r], problem._scores[r])
    assert policy.would_answer == pytest.approx(real.out, rel=0.35)
    assert policy.would_differ <= 0.1 * 800
    assert policy.would_spend < 0.95 * 800 * 20.0
    assert policy.A.sum() == 0.0


# -- invariances: what may not matter does not


def stages_of(problem, policy, rounds=400, seed=3, outputs=None, scores=None, groups=None):
    story = Story(copy.deepcopy(policy), seed)
    outputs = problem._outputs if outputs is None else outputs
    scores = problem._scores if scores is None else scores
    return [story.play(outputs[r % 400], scores[r % 400]) for r in range(rounds)]


def test_monotone_maps_of_scores_names_of_labels_and_truth_do_not_matter():
    problem = table(11, labels=20)
    policy = Promise(problem.costs, agree=0.85)
    usual = stages_of(problem, policy)
    assert len(set(usual)) > 1
    bent = np.column_stack(
        [np.exp(3 * problem._scores[:, 0]), problem._scores[:, 1] ** 3 - 5.0, problem._scores[:, 2]]
    )
    assert stages_of(problem, policy, scores=bent) == usual
    names = np.random.default_rng(1).permutation(1000)
    assert stages_of(problem, policy, outputs=names[problem._outputs]) == usual


def test_answers_that_were_not_compared_do_not_matter():
    problem = table(12)
    policy = Promise(problem.costs, agree=0.85)
    story, chaos = Story(copy.deepcopy(policy), 5), np.random.default_rng(1)
    seen = []
    for r in range(400):
        decided = story.decide(problem._outputs[r], problem._scores[r])
        story.learn(decided)
        seen.append(decided)
    other = Story(copy.deepcopy(policy), 5)
    for r in range(400):
        hidden = seen[r][4] == -1
        outputs = np.where(hidden, chaos.integers(0, 9, size=3), problem._outputs[r])
        assert other.play(outputs, problem._scores[r]) == seen[r][3]
    assert sum(one[3] < 2 for one in seen) > 20


@pytest.mark.parametrize("stop", [40, 90, 300])
def test_a_policy_made_again_from_its_fields_goes_on(stop):
    problem = table(13)
    one = Story(Promise(problem.costs, agree=0.85), 5)
    for r in range(stop):
        one.play(problem._outputs[r], problem._scores[r])
    again = Story(object.__new__(Promise), 5)
    vars(again.policy).update(copy.deepcopy(vars(one.policy)))
    again.rng = copy.deepcopy(one.rng)
    for r in range(stop, stop + 100):
        row = problem._outputs[r % 400], problem._scores[r % 400]
        assert one.play(*row) == again.play(*row)


def test_orders_of_rows():
    problem = table(14)
    rows = problem._outputs, problem._outputs, problem._scores, problem.costs
    given = AdaptiveProblem(rows[0][:, 2], *rows[1:], order="given").world()
    assert [given.draw(None) for _ in range(401)] == [*range(400), 0]
    shuffled = AdaptiveProblem(rows[0][:, 2], *rows[1:], order="shuffled").world()
    shuffled.begin(np.random.default_rng(1))
    served = [int(shuffled.draw(None)) for _ in range(400)]
    assert served != list(range(400))
    assert sorted(served) == list(range(400))


def test_groups_are_part_of_a_problem():
    problem = table(15, groups=3)
    same = AdaptiveProblem(problem._outputs[:, 2], problem._outputs, problem._scores, problem.costs)
    assert problem.groups == (0, 1, 2)
    assert same.groups == ()
    assert problem.digest() != same.digest()
    assert (
        list(itertools.islice((int(problem.world().group(r)) for r in range(400)), 5))
        == problem._groups[:5].tolist()
    )


@pytest.mark.parametrize("scored", [True, False])
def test_another_promise_costs_what_a_fit_for_it_would_choose(scored):
    """Against the policy's own choice with the whole share to spend; a stricter promise costs more and differs less."""
    story = Story(Promise(COSTS, agree=0.95))
    assert would_be(story.policy, OFFERS) == []  # nothing was compared yet
    for _ in range(1500):
        hard = story.rng.random()
        answers = [int(story.rng.random() < 0.3 * hard), 0]
        story.learn(story.decide(answers, [1.0 - hard, 1.0] if scored else None))
    policy = story.policy
    forms = [AFTER] if scored else [AFTER, BEFORE]
    found = would_be(policy, OFFERS)
    assert [agree for agree, _, _ in found] == list(OFFERS)
    for agree, same, money in found:
        policy.eps = 1.0 - agree
        best = 0.0
        for form in forms:
            best = policy.weigh(0, 0, form, *policy.risks(form, 0, 0), 1.0 - agree, best)
        assert money == pytest.approx(1.0 - best / COSTS[1])
        assert 1.0 - same <= 1.0 - agree + 1e-9
    assert all(a[1] <= b[1] + 1e-9 and a[2] <= b[2] + 1e-9 for a, b in itertools.pairwise(found))
    assert found[0][2] < 0.9


# -- on recorded answers

STATED = {  # money of agree=.95 after 10,000 requests, as the method was measured before it was written here
    "rafdb": 0.69,
    "ferplus": 0.69,
    "shop": 0.47,
    "audiomnist": 0.17,
    "yelp": 0.46,
    "command": 0.35,
    "gsm8k-llama": 0.50,
    "gsm8k-gpt": 0.23,
    "gsm8k-claude": 0.74,
    "mmlu-pro-llama": 1.01,
    "mmlu-pro-gemini": 0.81,
    "routellm-gsm8k": 1.00,
}


@pytest.mark.slow
@pytest.mark.parametrize(("agree", "most"), [(0.95, 0.065), (0.98, 0.03)])
def test_recorded_answers(agree, most):
    """60 runs of 10,000 requests on each set, those of the docs; at most 3 % of them may end above the promise."""
    T, rounds, shares = 10_000, np.arange(100, 10_001, 100), []
    for name, stated in STATED.items():
        problem = instances.load(name)
        found = simulate(problem, {"P": Promise(problem.costs, agree=agree)}, T, 60, seed=11, marks=rounds)
        spent, differs = (found.values("P", one) for one in ("spent", "differs"))
        price = problem.costs[-1]
        assert (spent <= price * (1.05 * rounds + 50) + 1e-9).all()
        if agree == 0.95:
            assert spent[:, -1].mean() / (T * price) == pytest.approx(stated, abs=0.03), name
        shares.append(differs[:, -1] / T)
    shares = np.concatenate(shares)
    assert (shares > 1 - agree + 1e-9).mean() <= 0.03
    assert shares.max() <= most


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yelp", "shop"])
def test_after_a_swap_the_worst_thousand_requests_stay_near_the_promise(name):
    """A quarter of the cheap answers becomes wrong, scores unchanged; 8 runs, whose mean must be at most 11 %."""
    T, recorded, costs = 10_000, load_answers(name), np.array(instances.describe(name).costs)
    codes = np.unique(recorded.outputs, return_inverse=True)[1].reshape(recorded.outputs.shape)
    worst = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = rng.integers(len(codes), size=T)
        outputs, swapped = codes[rows].copy(), rng.random((T, costs.size)) < 0.25
        swapped[: T // 2], swapped[:, -1] = False, False
        outputs[swapped] = (np.broadcast_to(outputs[:, -1:], outputs.shape)[swapped] + 1) % (codes.max() + 1)
        problem = NotedProblem(outputs[:, -1], outputs, recorded.scores[rows], costs, order="given")
        policy, world = Promise(costs), problem.world()
        width = len(loop_for(problem, policy).counters(problem))
        counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
        Compiled(problem, policy).play(
            copy.deepcopy(policy), world, *streams(problem, policy, seed, 0), np.array([T]), counts, table
        )
        total = np.cumsum(outputs[np.arange(T), world.answered] != outputs[:, -1])
        worst.append((total[1000:] - total[:-1000])[T // 2 - 1000 :].max() / 1000)
    assert np.mean(worst) <= 0.11
