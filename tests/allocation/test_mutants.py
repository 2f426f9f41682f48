"""Hand-made mutants of chapter 4: each must be told from its slow twin."""

import math

import numpy as np
import pytest
from tests.allocation.battery import TWINS, VARIANTS, agree, battery, instances, make
from tests.allocation.test_twins import Story, played
from tests.rig.mutants import caught_in_a_loop, mutate, survives

from weakfeedback import allocation as fast
from weakfeedback.allocation import common, play, waiting, world
from weakfeedback.allocation.policies import (
    csb_dt,
    csb_du,
    csb_mk,
    csb_sk,
    csb_st,
    csb_su,
    known_thresholds,
    num_mk,
    num_sk,
)
from weakfeedback.kernels import knapsack

SAME = [
    (csb_sk, "if played < self.l:", "if played <= self.l:"),
    (csb_sk, "played == self.j and not self.found", "played == self.j"),
    (csb_sk, "self.l = self.j + 1", "self.l = self.j"),
    (csb_sk, "self.C == self.W", "self.C > self.W"),
    (csb_sk, "self.Z[i], rng)\n            self.Z[i] = 0.0", "self.Z[i], rng)"),
    (csb_sk, "                self.Z[i] = 0.0\n            self.u", "                pass\n            self.u"),
    (csb_sk, "        self.C = 0\n        self.j", "        self.j"),
    (csb_sk, "        M = self.K - self.j + 1", "        M = self.K - self.j"),
    (csb_sk, "= self.j == self.u\n        for", "= self.l + 1 >= self.u\n        for"),
    (csb_sk, "if allocation[i] <= 0.0:", "if allocation[i] >= 0.0:"),
    (csb_sk, "1.0 - bit + zeros", "1.0 - bit"),
    (csb_sk, "if some_positive(allocation, observed)", "if observed.max() >= 1.0"),
    (csb_sk, "if some_positive(allocation, observed)", "if observed.max() > 0.0"),
    (csb_st, "if played < self.l:", "if played <= self.l:"),
    (csb_st, " / published_share(self.Q)", ""),
    (csb_st, "self.l = self.j + 1", "self.l = self.j"),
    (csb_st, "self.u = self.j", "self.u = self.j - 1"),
    (csb_st, "self.K + 1 - max(1, math.ceil(fewest))", "self.K - max(1, math.ceil(fewest))"),
    (csb_st, "math.ceil(fewest)", "math.floor(fewest)"),
    (csb_st, " * (1.0 - SLACK))  # Q/M", " * (1.0 + SLACK))  # Q/M"),
    (csb_st, "min(float(self.K), ", "min(10.0 * self.K, "),
    (csb_st, "            self.next_candidate()\n\n", "            pass\n\n"),
    (csb_st, "self.C == self.W", "self.C > self.W"),
    (csb_st, "elif played == self.j:", "else:"),
    (csb_st, "self.learn_outside(allocation, observed, rng)", "self.learn_outside(0.0 * allocation, observed, rng)"),
    (csb_st, "        if self.found:", "        if self.found or self.C > 0:"),
    (num_sk, "played >= self.u", "played > self.u"),
    (num_sk, "elif played == self.j:", "else:"),
    (num_sk, "self.F[i] += self.Z[i]", "pass"),
    (num_sk, "observed[i], self.Z[i], rng", "observed[i], 0.0, rng"),
    (num_sk, "            self.Z[i] = 0.0\n        self.u", "        self.u"),
    (num_sk, "self.l = self.j + 1", "self.l = self.j"),
    (num_sk, "self.C == self.W", "self.C == self.W + 1"),
    (num_sk, "                self.Z[i] = 0.0\n            self.l", "                pass\n            self.l"),
    (num_sk, "some_positive(allocation, observed)", "observed.max() >= 1.0"),
    (csb_su, "served > L:", "served >= L:"),
    (csb_su, "max(1, served - 1)", "max(1, L - 1)"),
    (csb_su, "max(1, served - 1)", "served - 1"),
    (csb_su, "if lost and served <= L:", "if lost:"),
    (csb_su, "Z[i] = 0.0", "pass"),
    (csb_su, "Z[i] += 1.0", "Z[i] = 1.0"),
    (csb_su, "1.0 - bit + Z[i]", "1.0 - bit"),
    (csb_su, "                self.theta_hat[i] = self.Q / self.L", "                pass"),
    (csb_su, "allocation[i] <= 0.0 or ", "allocation[i] <= 0.0 and not lost or "),
]  # fmt: skip
DIFFERENT = [
    (csb_mk, "allocation[i] <= self.theta_l[i] + TINY", "allocation[i] <= self.theta_l[i]"),
    (csb_mk, "allocation[i] <= self.theta_l[i] + TINY", "allocation[i] < self.theta_l[i]"),
    (csb_mk, "<= self.gamma + TINY", "<= self.gamma - TINY"),
    (csb_mk, "<= self.gamma + TINY", "<= 2.0 * self.gamma"),
    (csb_mk, "self.Z[i] == self.W", "self.Z[i] > self.W"),
    (csb_mk, "self.probed[i] = amount\n            self.Z[i] = 0", "self.probed[i] = amount"),
    (csb_mk, "self.theta_l[i] = amount\n            self.Z[i] = 0", "self.theta_l[i] = amount"),
    (csb_mk, "self.theta_u[i] = amount\n                self.Z[i] = 0", "self.theta_u[i] = amount"),
    (csb_mk, "elif amount < self.theta_u[i] - TINY:", "else:"),
    (csb_mk, "elif amount < self.theta_u[i] - TINY:", "elif amount < self.theta_u[i]:"),
    (csb_mk, "if amount >= self.theta_u[i] - TINY:", "if amount > self.theta_u[i] + TINY:"),
    (csb_mk, "self.theta_u[i] = self.top", "self.theta_u[i] = self.Q"),
    (csb_mk, "break  # B_i", "continue  # B_i"),
    (csb_mk, "break  # and so", "continue  # and so"),
    (csb_mk, "if used + amount > room", "if amount > room"),
    (csb_mk, "self.theta_hat[i] > room", "self.theta_hat[i] > self.Q"),
    (csb_mk, "(first + last) // 2", "(first + last + 1) // 2"),
    (csb_mk, "amount - self.gamma if", "amount if"),
    (csb_mk, "<= self.theta_u[i] + TINY\n", "< self.theta_u[i] - TINY\n"),
    (csb_mk, "self.Theta_n[k] > self.theta_l[i] + TINY", "self.Theta_n[k] >= self.theta_l[i] - TINY"),
    (csb_mk, "self.many and i == self.n_i", "self.many"),
    (csb_mk, "self.many and i == self.n_i", "i == self.n_i"),
    (csb_mk, "self.phase % self.N != 0", "self.phase % self.N > 1"),
    (csb_mk, "self.found and all_or_nothing(allocation, self.theta_hat)", "self.found"),
    (csb_mk, "self.A[i] = allocation[i] > 0.0", "self.A[i] |= allocation[i] > 0.0"),
    (csb_mk, "* self.scale + 0.5)", "* self.scale)"),
    (csb_mk, "mu[i] / self.theta_hat[i] if", "mu[i] if"),
    (csb_mk, "self.top, self.gamma))", "2.0 * self.Q, self.gamma))"),
    (csb_mk, "            if abs(self.Theta_n[k] - theta) <= TINY:\n                return\n", "            pass\n"),
    (csb_mk, "while k > 0 and self.Theta_n[k - 1] > theta", "while k > 1 and self.Theta_n[k - 1] > theta"),
    (csb_mk, "lost = observed[i] > 0.0", "lost = observed[i] >= 1.0"),
    (csb_mk, "1.0 - bit + zeros", "1.0 - bit"),
    (num_mk, "allocation[i] >= self.theta_hat[i] - TINY", "allocation[i] > self.theta_hat[i]"),
    (num_mk, "allocation[i] >= self.theta_hat[i] - TINY", "allocation[i] >= self.theta_u[i] - TINY"),
    (num_mk, " and allocation[i] > TINY", ""),
    (num_mk, "self.Z[i] == self.W", "self.Z[i] > self.W"),
    (num_mk, "self.probed[i] = amount\n            self.Z[i] = 0", "self.probed[i] = amount"),
    (num_mk, "self.theta_u[i] = amount\n            self.Z[i] = 0", "self.theta_u[i] = amount"),
    (num_mk, "self.theta_l[i] = amount\n                self.Z[i] = 0", "self.theta_l[i] = amount"),
    (num_mk, "elif amount > self.theta_l[i] + TINY:", "elif amount > self.theta_l[i]:"),
    (num_mk, "elif amount > self.theta_l[i] + TINY:", "else:"),
    (num_mk, "if amount <= self.theta_l[i] + TINY:", "if amount < self.theta_l[i]:"),
    (num_mk, "gained = observed[i] > 0.0", "gained = observed[i] >= 1.0"),
    (num_mk, "observed[i], zeros, rng", "observed[i], 0, rng"),
    (num_mk, "self.keep_set(allocation)", "pass"),
    (csb_dt, " / published_share(self.Q)", ""),
    (csb_dt, "math.floor(self.Q * (1.0 + SLACK))", "math.ceil(self.Q)"),
    (csb_dt, "min(self.top / 2.0, ", "min(self.top, "),
    (csb_dt, "2 * (self.K - m)), self.free)", "2 * self.K), self.free)"),
    (csb_dt, "elif self.theta_hat[i] <= left + SLACK * self.Q:", "elif self.theta_hat[i] <= left - SLACK * self.Q:"),
    (csb_dt, "                left -= self.theta_hat[i]\n", ""),
    (csb_dt, "if allocation[i] <= self.theta_l[i] + TINY:", "if allocation[i] <= 0.0:"),
    (csb_dt, "if not self.theta_g[i] and not self.moved[i]:", "if not self.theta_g[i]:"),
    (csb_dt, "            self.moved[i] = False", "            pass"),
    (csb_dt, "observed[i] > 0.0", "observed[i] >= 1.0"),
    (csb_dt, "<= self.gamma + TINY", "<= self.gamma - TINY"),
    (csb_dt, "max(self.theta_l[i], amount)", "amount"),
    (csb_dt, "            self.Z[i] = 0\n            if amount >=", "            if amount >="),
    (csb_dt, "if amount >= self.theta_u[i] - TINY:", "if amount > self.theta_u[i] + TINY:"),
    (csb_dt, "elif amount > self.theta_l[i] + TINY and", "elif amount > self.theta_l[i] and"),
    (csb_dt, " and amount < self.theta_u[i] - TINY", ""),
    (csb_dt, "self.probed[i] = amount\n                self.Z[i] = 0", "self.probed[i] = amount"),
    (csb_dt, "self.Z[i] == self.W", "self.Z[i] > self.W"),
    (csb_dt, "self.theta_u[i] = amount\n                self.Z[i] = 0", "self.theta_u[i] = amount"),
    (csb_dt, "* self.scale + 0.5)", "* self.scale)"),
    (csb_dt, "        self.free += self.h[i]\n", ""),
    (csb_dt, "            self.free += self.h[i] - mid\n", ""),
    (csb_dt, "elif self.h[i] <= self.theta_l[i]:", "else:"),
    (csb_dt, "elif self.h[i] <= self.theta_l[i]:", "elif self.h[i] < self.theta_l[i]:"),
    (csb_dt, "for k in range(self.K - 1, i, -1):", "for k in range(i + 1, self.K):"),
    (csb_dt, "                    self.moved[k] = True\n", ""),
    (csb_dt, "self.phase % self.N != 0", "self.phase % self.N > 1"),
    (csb_dt, "self.found = self.found and self.theta_g[i]", "self.found = self.theta_g[i]"),
    (csb_dt, "self.A[i] = allocation[i] > 0.0", "self.A[i] |= allocation[i] > 0.0"),
    (csb_du, "allocation[i] <= self.L[i] + TINY", "allocation[i] <= self.L[i]"),
    (csb_du, "allocation[i] <= self.L[i] + TINY", "allocation[i] <= 0.0"),
    (csb_du, "self.levels[i, gone] <= self.L[i] + TINY", "self.levels[i, gone] < self.L[i] - TINY"),
    (csb_du, "self.levels[i, gone] <= self.L[i] + TINY", "self.levels[i, gone] <= self.L[i]"),
    (csb_du, "gone < self.used[i] and self.levels", "gone < 1 and gone < self.used[i] and self.levels"),
    (csb_du, "self.counts[i, k] = self.counts[i, k + gone]", "pass"),
    (csb_du, "self.levels[i, k] < amount - TINY", "self.levels[i, k] < amount"),
    (csb_du, "self.levels[i, k] <= amount + TINY", "self.levels[i, k] <= amount + 1e-10"),
    (csb_du, "            self.levels[i, k - 1] = amount\n", ""),
    (csb_du, "self.K + 2.0))", "self.K + 1.0))"),
    (csb_du, "self.used[i] += 1", "self.used[i] += self.used[i] == k"),
    (csb_du, "if self.L[i] > 0.0 else left / untouched", "if self.L[i] > 0.0 else left / self.K"),
    (csb_du, "left += self.theta_hat[i]", "left += self.L[i]"),
    (csb_du, "        return total <= self.Q * (1.0 + SLACK)", "        return total <= self.Q * (1.0 - SLACK)"),
    (csb_du, "not self.can_pay_all() and all_or_nothing", "all_or_nothing"),
    (csb_du, " and weight_of(self.A, self.theta_hat) <= self.Q * (1.0 + SLACK)", ""),
    (csb_du, "self.theta_hat[i] = self.L[i] + self.gamma", "self.theta_hat[i] += self.gamma"),
    (known_thresholds, "self.Q / high * (1.0 + SLACK)", "self.Q / high * (1.0 - SLACK)"),
    (known_thresholds, "math.floor(min(self.K, self.Q / high * (1.0 + SLACK)))", "math.floor(self.Q / high) + 1"),
    (known_thresholds, "served == self.reward", "served"),
    (known_thresholds, "self.theta_hat[i] * (1.0 - SLACK)", "self.theta_hat[i]"),
    (known_thresholds, "allocation[i] >= self.theta_hat[i]", "allocation[i] > self.theta_hat[i]"),
    (known_thresholds, "self.phase % self.N != 0", "self.phase < self.N"),
    (known_thresholds, "            self.phase += 1", "            self.phase += 2"),
    (known_thresholds, "self.F[i] += 1.0 - bit", "self.F[i] += 1.0"),
]  # fmt: skip
NAMES = {
    csb_sk: "CsbSk",
    csb_st: "CsbSt",
    num_sk: "NumSk",
    csb_su: "CsbSu",
    csb_mk: "CsbMk",
    num_mk: "NumMk",
    csb_dt: "CsbDt",
    csb_du: "CsbDu",
    known_thresholds: "KnownThresholds",
}


def short(value):
    """The part of a test's name."""
    return value.strip()[:50] if isinstance(value, str) else value.__name__.rsplit(".", 1)[-1]


@pytest.mark.parametrize(("module", "old", "new"), SAME + DIFFERENT, ids=short)
def test_mutants_of_policies_are_caught(module, old, new):
    name = NAMES[module]
    mutant = getattr(mutate(module, old, new), name)
    assert not survives(lambda: battery(mutant, name))


@pytest.mark.parametrize(
    ("module", "helper", "user", "old", "new"),
    [
        (common, "coin", csb_sk, "    if x >= 1.0:\n        return 1.0\n", ""),
        (common, "coin", csb_mk, "    if x <= 0.0:\n        return 0.0\n", ""),
        (common, "coin", csb_su, "rng.random() < x", "rng.random() >= x"),
        (common, "give_top", known_thresholds, "top_set(mu, M)", "top_set(mu, M - 1)"),
        (common, "some_positive", csb_su, "allocation[i] > 0.0 and ", ""),
        (common, "some_positive", num_sk, "observed[i] > 0.0", "observed[i] >= 1.0"),
        (common, "count_served", csb_st, "allocation[i] > 0.0:", "allocation[i] >= 0.0:"),
        (common, "all_or_nothing", csb_mk, "abs(allocation[i] - theta[i]) > TINY", "allocation[i] > theta[i]"),
        (common, "all_or_nothing", csb_du, "abs(allocation[i] - theta[i]) > TINY", "allocation[i] != theta[i]"),
        (common, "all_or_nothing", csb_du, "allocation[i] != 0.0 and ", ""),
        (common, "weight_of", csb_du, "if chosen[i]:\n            total", "if True:\n            total"),
        (common, "draw_means", csb_du, "rng.beta(S[i], F[i])", "rng.beta(F[i], S[i])"),
        (waiting, "rounds_to_wait", csb_sk, "math.ceil(real)", "math.floor(real)"),
        (waiting, "published_share", csb_dt, "math.floor(", "math.ceil("),
        (knapsack, "pack_again", known_thresholds,
         "capacity * (1.0 + CAPACITY_SLACK), np", "capacity - CAPACITY_SLACK, np"),
        (knapsack, "pack_again", csb_mk, "BETTER = 1.0 + 1e-12", "BETTER = 1.05"),
        (knapsack, "pack_again", csb_du, "return value + left * ratio[j]", "return value"),
        (knapsack, "pack_again", csb_mk, "if w[i] <= w[j] and v[i] >= v[j]:", "if v[i] >= v[j]:"),
        (knapsack, "pack_again", csb_mk, "bound - abs(gain) > enough", "bound - 2.0 * abs(gain) > enough"),
        (knapsack, "pack_again", csb_du, "weights[i] <= room and gain > 0.0", "gain > 0.0"),
        (knapsack, "pack_again", known_thresholds,
         "elif gain > 0.0:\n            value += v[k]", "else:\n            value += v[k]"),
    ],
    ids=short,
)  # fmt: skip
def test_mutants_of_helpers_are_caught(module, helper, user, old, new, monkeypatch):
    monkeypatch.setattr(user, helper, getattr(mutate(module, old, new), helper))
    name = NAMES[user]
    assert not survives(lambda: battery(getattr(user, name), name))


def same_world(mine, twin, seed):
    """The draws, and what is allowed and served, amount by amount."""
    rngs, outcomes = (np.random.default_rng(seed), np.random.default_rng(seed)), np.empty(mine.mu.size)
    for _ in range(30):
        mine.draw(outcomes, rngs[0])
        assert outcomes.tolist() == twin.draw(rngs[1])
    half = [mine.Q / 2 / mine.mu.size] * mine.mu.size
    full = [mine.Q, *[0.0] * (mine.mu.size - 1)]
    spoilt = [[amount, *half[1:]] for amount in (-1e-300, math.nan, mine.Q * (1 + 5e-10), 2.0 * mine.Q)]
    for allocation in [half, [*half, 0.0], half[1:], full, *spoilt]:
        assert mine.allows(np.array(allocation)) == twin.accepts(allocation), allocation
    for i, theta in enumerate(twin.thresholds):
        for amount in (theta, theta * (1 - 5e-10), theta * (1 - 2e-9), 0.0):
            allocation = [0.0] * i + [amount]
            assert mine.serves(i, amount) == twin.served(allocation)[i]


def runs_as_the_twin(play_module, world_module):
    """The loop and the world, interpreted, against the story that the twin tells."""
    for seed in (2, 4, 3, 5, 0):  # as in the battery, small ones first
        for name, k in (("CsbSk", 1), ("CsbSu", 0), ("CsbDu", 0), ("NumMk", 0), ("KnownThresholds", 2)):
            options = VARIANTS[name][k]
            (instance,) = instances(name, options, [seed])
            problem = instance.problem()
            real = problem.world()
            mine = world_module.AllocationWorld(
                real.mu, real.theta, real.Q, real.reward, real.uniform, real.value
            )
            same_world(mine, instance.world(), seed)
            policy = make(getattr(fast, name), name, options, instance)
            twin = make(TWINS[name], name, options, instance)
            story = Story(twin, instance, 0)
            assert played(policy, problem, seed, play_module.play, mine).tolist() == story.counts().tolist()
            agree(policy, twin)


def test_the_loop_and_the_world_run_as_the_twin():
    runs_as_the_twin(play, world)


test_mutants_of_the_loop_and_the_world_are_caught = caught_in_a_loop(
    runs_as_the_twin,
    play,
    world,
    (world, "1.0 if u < self.mu[i]", "1.0 if 1.0 - u < self.mu[i]"),
    (world, "min(1.0, max(0.0, ", "max(0.0, (1.0 * "),
    (world, "max(0.0, self.mu[i]", "max(-1.0, self.mu[i]"),
    (world, "2.0 * SPREAD * u", "SPREAD * u"),
    (world, "theta * (1.0 - REACH)", "theta"),
    (world, "total <= Q * (1.0 + REACH)", "total <= Q"),
    (world, "if not allocation[i] >= 0.0:", "if not allocation[i] >= -1e-12:"),
    (world, "if allocation.size != arms:", "if allocation.size < arms:"),
    (world, "value >= self.value - REACH", "value >= self.value + REACH"),
    (world, "                known[i] = estimate[i]\n", ""),
    (world, "estimate[i] if chosen[i] else 0.0", "estimate[i]"),
    (world, "pack_lightest(self.mu, estimate, self.Q)", "pack_lightest(self.mu, self.theta, self.Q)"),
    (play, "if served[i] == reward else 0.0", "if served[i] != reward else 0.0"),
    (play, "counts[SERVED + i] += served", "counts[SERVED + K - 1 - i] += served"),
    (play, "counts[SEARCHING] += 1 - counts[FOUND]", "counts[SEARCHING] += 1"),
    (play, 'getattr(policy, "found", counts[EQUIVALENT] > 0)', "counts[EQUIVALENT] > 0"),
    (play, 'getattr(policy, "found", counts[EQUIVALENT] > 0)', 'getattr(policy, "found", True)'),
    (play, "EQUIVALENT] > 0)\n        if t ==", "EQUIVALENT] > 0)\n        if t + 1 =="),
    (play, "counts[EQUIVALENT] = world.settled(known)", "counts[EQUIVALENT] |= world.settled(known)"),
)  # fmt: skip
