"""Rounds made up for the adaptive policies, and the comparison of a policy with its twin, decision by decision."""

import numpy as np
import pytest

from weakfeedback.adaptive import AdaptiveProblem


def random_table(seed, stages=3, labels=3, rows=200):
    """Truth, outputs, scores (with ties) and chances of a cascade whose later stages are mostly better."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, labels, size=rows)
    hard = rng.random(rows)
    share = np.clip(hard[:, None] * np.linspace(0.9, 0.2, stages), 0.0, 1.0)
    slip = rng.integers(1, labels, size=(rows, stages)) if labels > 1 else np.zeros((rows, stages), dtype=int)
    outputs = np.where(rng.random((rows, stages)) < share, (truth[:, None] + slip) % labels, truth[:, None])
    scores = np.round(np.clip(1.0 - share + 0.1 * rng.standard_normal((rows, stages)), 0.02, 0.98), 2)
    chances = rng.dirichlet(np.ones(labels), size=rows) if labels > 1 else np.ones((rows, 1))
    return truth, outputs, scores, chances


def random_problem(seed, stages=3, labels=3, with_chances=False):
    """A problem of such a table."""
    truth, outputs, scores, chances = random_table(seed, stages, labels)
    costs = np.random.default_rng(seed).uniform(0.01, 0.12, size=stages)
    return AdaptiveProblem(truth, outputs, scores, costs, chances if with_chances else None)


def follow(fast, twin, problem, seed, rounds, close=2e-4):
    """Play both on the same rows with equal draws; all decisions, and now and then all regressions, must agree."""
    world, rows = problem.world(), np.random.default_rng(seed)
    mine, theirs = np.random.default_rng(seed + 1), np.random.default_rng(seed + 1)
    K = problem.arms
    for t in range(rounds):
        row = world.draw(rows)
        arm = 0
        while arm < K - 1:
            seen = world.outputs[row, : arm + 1], world.scores[row, : arm + 1]
            wants = fast.go_on(arm, *seen, mine)
            assert wants == twin.go_on(arm, *seen, theirs), (t, arm)
            if not wants:
                break
            arm += 1
        chances = world.chances[row] if arm == K - 1 else np.zeros(0)
        seen = world.outputs[row, : arm + 1], world.scores[row, : arm + 1], chances
        fast.update(arm, *seen, mine)
        twin.update(arm, *seen, theirs)
        if t % 7 == 3 or t == rounds - 1:
            same_regressions(fast, twin, close)
    assert mine.bit_generator.state == theirs.bit_generator.state


def same_regressions(fast, twin, close):
    """Parameters and inverse Hessians."""
    for k in range(1, fast.K):
        assert fast.rise[k - 1] == pytest.approx(twin.rise[k].theta, abs=close), ("rise", k)
        assert fast.Qrise[k - 1] == pytest.approx(np.linalg.inv(twin.rise[k].H), rel=close, abs=close)
        assert fast.n[k - 1] == twin.went_on[k]
    for k in getattr(twin, "fall", {}):
        assert fast.fall[k - 1] == pytest.approx(twin.fall[k].theta, abs=close), ("fall", k)
        assert fast.Qfall[k - 1] == pytest.approx(np.linalg.inv(twin.fall[k].H), rel=close, abs=close)
    for k in getattr(twin, "beta", {}):
        assert fast.belief[k - 1] == pytest.approx(twin.beta[k].theta, abs=close), ("belief", k)
