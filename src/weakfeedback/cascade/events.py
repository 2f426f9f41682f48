"""Cascades by events: skip rounds in which only the usual arm is played, without changing the distribution.

A policy can be played this way if the probabilities with which it accepts its arms are known; ``LAWS`` has them by
class. Stopping at the first arm shows no pair, so nothing changes until another arm is played: a geometric number of
rounds. Stopping at a later arm m shows the pairs before it, and the probabilities drift. They are then bounded over the
next n rounds. The geometric draw uses the bound, and its proposal is accepted with the ratio of the true probability to
the bound (thinning). What the skipped rounds showed is one multinomial draw of the world. Nothing is approximated.
"""

import math

import numpy as np

from weakfeedback.cascade.policies.baselines import FixedArm
from weakfeedback.cascade.policies.uss_ts import UssTs
from weakfeedback.cascade.world import TableWorld

STEP = 8  # factor by which a stretch is shortened or lengthened
PROPOSALS = 2.0  # maximum mean number of proposals in a stretch


def play_events(policy, world, world_rng, rng, marks, pulls, table):
    """Play up to the round ``marks[-1]``, counting pulls per arm and copying the counts at each mark; return 0.

    Draws: ``world.begin``; then for every stretch one ``rng.random()``, where a round is proposed a second one, and
    where it is not the usual one a third. The world draws a multinomial for the rounds skipped at a later arm
    than the first (a data set: nothing), and its row of the round proposed.
    """
    world.begin(world_rng)
    supply = TableSupply(world) if isinstance(world, TableWorld) else LawSupply(world)
    book = Book(marks, pulls, table)
    law = law_of(policy)
    horizon = int(marks[-1])
    stretch = horizon
    while book.played < horizon:
        left = horizon - book.played
        usual = int(np.argmax(chances(law.acceptance())))
        stretch, bound = _stretch(law, usual, left, STEP * stretch)
        proposed = _geometric(bound, rng)
        quiet = int(min(proposed - 1, stretch))
        if quiet > 0:
            book.add(usual, quiet)
            if usual == 0:
                supply.pass_by(quiet)
            else:
                law.learn(usual, supply.many(quiet, world_rng), quiet)
        if proposed > stretch:
            continue
        arm = _proposed_arm(law, usual, bound, rng)
        policy.update_pairs(arm, supply.one(world_rng), rng)
        book.add(arm, 1)
    return 0


def chances(acceptance):
    """Return the probability that each arm is played: the first that is accepted, else the last.

    >>> chances(np.array([0.5, 0.5])).tolist()
    [0.5, 0.25, 0.25]
    """
    refused = np.concatenate(([1.0], np.cumprod(1.0 - acceptance)))
    return refused * np.append(acceptance, 1.0)


def _other(law, usual, rounds=0):
    """Return the probability that an arm other than the usual one is played; with ``rounds``, an upper bound."""
    acceptance = law.acceptance(usual, rounds)
    stays = float(np.log1p(-acceptance[:usual]).sum()) if (acceptance[:usual] < 1.0).all() else -math.inf
    if usual < acceptance.size:
        refused = law.refusal(usual)  # more precise than one minus the acceptance
        stays += math.log1p(-refused) if refused < 1.0 else -math.inf
    return -math.expm1(stays)


def _stretch(law, usual, left, longest):
    """Return a number of rounds in which few other arms are proposed, and the bound on their probability."""
    if usual == 0:
        return left, _other(law, usual)  # which does not change
    rounds = min(left, longest)
    while rounds > 1:
        bound = _other(law, usual, rounds)
        if rounds * bound <= PROPOSALS:
            return rounds, bound
        rounds //= STEP
    return 1, 1.0


def _geometric(probability, rng):
    """Draw the first success among independent trials; infinity if there is none."""
    u = 1.0 - rng.random()
    if probability >= 1.0:
        return 1
    return math.floor(math.log(u) / math.log1p(-probability)) + 1 if probability > 0.0 else math.inf


def _proposed_arm(law, usual, bound, rng):
    """Draw the arm of a proposed round: another with its true probability over the bound, else the usual one."""
    if bound * rng.random() >= _other(law, usual):
        return usual
    others = chances(law.acceptance())
    others[usual] = 0.0
    cumulative = np.cumsum(others)
    return min(int(np.searchsorted(cumulative, cumulative[-1] * rng.random(), side="right")), others.size - 1)


class BetaAcceptance:
    """Acceptance probabilities of USS-TS, and its update for many rounds at once."""

    def __init__(self, policy):
        self.policy = policy

    def acceptance(self, arm=0, rounds=0):
        """Return the probabilities with which arms 0, ..., K-2 are accepted: products of P(p_ij < C_j - C_i).

        With ``rounds``, upper bounds of what they can be after that many rounds that stop at ``arm`` and show the
        pairs before it: all of them may agree.
        """
        return np.array([math.exp(self._log_acceptance(i, arm, rounds)) for i in range(self.policy.K - 1)])

    def refusal(self, i):
        """Return the probability that arm i is not accepted, precise even when tiny."""
        return -math.expm1(self._log_acceptance(i, 0, 0))

    def _log_acceptance(self, i, arm, rounds):
        from scipy.special import betaincc

        policy, total = self.policy, 0.0
        for j in range(i + 1, policy.K):
            gain = policy.C[j] - policy.C[i]
            agreed = policy.F[i, j] + (rounds if j <= arm else 0)
            above = float(betaincc(policy.S[i, j], agreed, min(gain, 1.0)))
            if above >= 1.0:
                return -math.inf
            total += math.log1p(-above)
        return total

    def learn(self, arm, differed, rounds):
        """Learn from many rounds at once: ``differed[i, j]`` of ``rounds`` rounds for the pairs i < j <= arm."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.policy.S[i, j] += differed[i, j]
                self.policy.F[i, j] += rounds - differed[i, j]


class FixedAcceptance:
    """Acceptance probabilities of a fixed arm: 0 or 1, and nothing is learned."""

    def __init__(self, policy):
        self.policy = policy

    def acceptance(self, arm=0, rounds=0):
        """Return the probabilities with which arms 0, ..., K-2 are accepted."""
        return np.array([1.0 - self.refusal(i) for i in range(self.policy.K - 1)])

    def refusal(self, i):
        """Return the probability that arm i is not accepted."""
        return 0.0 if i >= self.policy.arm else 1.0

    def learn(self, arm, differed, rounds):
        """Learn nothing."""


LAWS = {UssTs: BetaAcceptance, FixedArm: FixedAcceptance}


def law_of(policy):
    """Return the acceptance probabilities of a policy whose class is in ``LAWS``, or derived from one of them."""
    return next(LAWS[kind](policy) for kind in type(policy).__mro__ if kind in LAWS)


class Book:
    """Counts pulls, and copies the counts at each mark that is passed."""

    def __init__(self, marks, pulls, table):
        self.marks, self.pulls, self.table = marks, pulls, table
        self.played = 0
        self.m = 0

    def add(self, arm, rounds):
        """Count ``rounds`` rounds at one arm."""
        end = self.played + rounds
        while self.m < self.marks.size and self.marks[self.m] <= end:
            self.table[self.m] = self.pulls
            self.table[self.m, arm] += self.marks[self.m] - self.played
            self.m += 1
        self.pulls[arm] += rounds
        self.played = end


class LawSupply:
    """Disagreements of rows drawn from their law, one by one or many at once."""

    def __init__(self, world):
        self.world = world
        self.differ = _differences(world.rows)
        self.probabilities = np.diff(world.cumulative[:-1], prepend=0.0)
        self.probabilities = np.append(self.probabilities, max(0.0, 1.0 - self.probabilities.sum()))

    def many(self, rounds, rng):
        """Draw the number of rounds, out of ``rounds``, in which each pair disagrees."""
        return np.tensordot(rng.multinomial(rounds, self.probabilities), self.differ.astype(np.int64), axes=1)

    def pass_by(self, rounds):
        """Skip rounds that are not observed: they are independent of all others."""

    def one(self, rng):
        """Return the disagreements of one round."""
        return self.differ[self.world.draw(rng)]


class TableSupply:
    """Disagreements of the rows of a data set, which are served in turn."""

    def __init__(self, world):
        self.differ = _differences(world.rows)[world.order]
        sums = np.cumsum(self.differ, axis=0, dtype=np.int64)
        self.sums = np.concatenate((np.zeros((1, *sums.shape[1:]), dtype=np.int64), sums))
        self.served = 0

    def many(self, rounds, rng):
        """Return in how many of the next rounds each pair disagrees."""
        turns, rest = divmod(self.served + rounds, self.differ.shape[0])
        found = turns * self.sums[-1] + self.sums[rest] - self.sums[self.served]
        self.served = rest
        return found

    def pass_by(self, rounds):
        """Skip rounds that are not observed."""
        self.served = (self.served + rounds) % self.differ.shape[0]

    def one(self, rng):
        """Return the disagreements of the next round."""
        row = self.served
        self.pass_by(1)
        return self.differ[row]


def _differences(rows):
    """Return, by row, which pairs of arms disagree."""
    return rows[:, 1:, None] != rows[:, None, 1:]
