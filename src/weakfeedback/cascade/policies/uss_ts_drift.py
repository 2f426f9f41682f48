"""USS-TS-drift: USS-TS that forgets and probes, for cascades whose stages or samples change."""

import numpy as np

from weakfeedback.kernels.loops import disagreements
from weakfeedback.validate import brief, cumulative_costs, number


class UssTsDrift:
    """Thompson sampling for a cascade that changes with time and whose errors are never observed.

    Plays the last arm with probability ``probe``, which compares all arms; otherwise decides as USS-TS does:

        I_t = min { i : C_j - C_i > p_ij for all j > i } or K,   p_ij ~ Beta(1 + D_ij, 1 + N_ij - D_ij)

    The counts of a pair are worth at most ``memory`` comparisons: before one is added, D_ij and N_ij are scaled down to
    memory - 1 comparisons. So old comparisons fade as new ones arrive, not with time: a pair that is not compared is
    not forgotten, and ``probe`` makes sure that every pair is compared.

    No regret bound is known. Where nothing changes it has two to four times the regret of `UssTs`, and its regret grows
    linearly, by ``probe`` times the gap of the last arm and by the mistakes of a short memory; so it is never a
    default. After a change `UssTs` may need as many rounds as it has seen before.

    Draws: in ``select``, first one ``u = rng.random()``; if u >= probe, for i = 0, 1, ... until an arm is accepted
    (at most to K-2), one ``rng.beta(1 + D[i, j], 1 + N[i, j] - D[i, j])`` for every j = i+1, ..., K-1 in this order,
    all of them even after one has failed. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    probe : number from 0 to 1
        Probability of a round at the last arm.
    memory : number >= 1
        How many comparisons of a pair count.

    Examples
    --------
    Two tests that never disagree: the second is not worth its cost. Later they always do.

    >>> rng = np.random.default_rng(7)
    >>> policy = UssTsDrift(costs=[0.05, 0.40])
    >>> for t in range(20_000):
    ...     arm = policy.select(rng)
    ...     policy.update(arm, [0, 0 if t < 10_000 else 1][: arm + 1], rng)
    ...     if t == 9_999:
    ...         print(round(policy.D[0, 1], 1), policy.N[0, 1])
    0.0 100.0
    >>> print(round(policy.D[0, 1], 1), policy.N[0, 1], arm)
    100.0 100.0 1
    """

    in_short = "USS-TS for a cascade that changes with time"
    explained = (
        "USS-TS-drift counts only the latest comparisons, and now and then goes to the last stage, to see"
        " whether something has changed."
    )
    forgets = True  # comparisons fade, so their number certifies nothing
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change

    def __init__(self, costs, probe=0.02, memory=100):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        self.probe = number("probe", probe, at_least=0.0)
        if self.probe > 1.0:
            raise ValueError(f"probe must be a number from 0 to 1, got {brief(probe)}")
        self.memory = number("memory", memory, at_least=1.0)
        self.D = np.zeros((self.K, self.K))  # D[i, j] disagreements of arms i < j that still count
        self.N = np.zeros((self.K, self.K))  # N[i, j] comparisons that still count
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)  # buffer for the disagreements of a round

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        if rng.random() < self.probe:
            return self.K - 1
        for i in range(self.K - 1):
            if self.is_best(i, rng):
                return i
        return self.K - 1

    def is_best(self, i, rng):
        """Whether C_j - C_i > p_ij for every later arm j, with p_ij drawn from its posterior."""
        best = True
        for j in range(i + 1, self.K):
            p = rng.beta(1.0 + self.D[i, j], 1.0 + self.N[i, j] - self.D[i, j])
            if self.C[j] - self.C[i] <= p:
                best = False  # no early exit: as in USS-TS, all pairs are drawn
        return best

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        """Forget a little of each pair i < j <= arm, then learn whether it disagreed."""
        kept = self.memory - 1.0
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if self.N[i, j] > kept:
                    self.D[i, j] = self.D[i, j] * kept / self.N[i, j]
                    self.N[i, j] = kept
                if differ[i, j]:
                    self.D[i, j] += 1.0
                self.N[i, j] += 1.0
