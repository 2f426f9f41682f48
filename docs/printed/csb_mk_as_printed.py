"""What CSB-MK does as printed: its regret grows linearly.

Three faults of the printed algorithm can be put back into the repaired one. Each of the first two alone is enough to
break it:

* *forgets*: the equation that updates theta_hat sets it to 0 for a known arm that gets nothing in a round, and
  afterwards "theta_hat if H_i happens" is 0 for ever. In the end the knapsack finds arms that weigh nothing.
* *exact*: an arm is known when theta_u - theta_l <= gamma. If theta_l was set to theta_u - gamma (which happens when a
  threshold found before is confirmed), the difference is larger than gamma in doubles, and the search never ends.
* *carries*: zeros counted at one amount still count when another amount is tried, so an amount is accepted after fewer
  than W rounds, which delta does not cover. On these two instances it does no harm.

In addition, the event B_i charges the arm that is searched among known thresholds with the middle of its interval, not
with what it gets, so the budget can be exceeded. The loop refuses such a round, so this fault is always repaired.
W_delta is always rounded up: a count never equals a number that is not whole.

Run ``python docs/printed/csb_mk_as_printed.py``.
"""

import argparse
import math

import numpy as np

from weakfeedback import simulate
from weakfeedback.allocation import CsbMk
from weakfeedback.allocation.common import SLACK, TINY
from weakfeedback.allocation.instances import load
from weakfeedback.kernels.loops import rank_down

FAULTS = ("forgets", "exact", "carries")


class PrintedCsbMk(CsbMk):
    """CSB-MK with some of its printed faults put back."""

    def __init__(self, *arguments, faults=FAULTS, **options):
        CsbMk.__init__(self, *arguments, **options)
        self.forgets = "forgets" in faults
        self.exact = "exact" in faults
        self.carries = "carries" in faults

    def explore(self, mu):
        """Event H needs theta_u, but theta_hat is given, whatever it has become."""
        allocation = np.zeros(self.K)
        room = self.Q * (1.0 + SLACK)
        used = 0.0
        ratio = np.empty(self.K)
        for i in range(self.K):
            ratio[i] = mu[i] / self.theta_u[i] if self.theta_g[i] else -1.0
            if not self.theta_g[i] and used + self.probe(i) <= room:
                allocation[i] = self.probe(i)
                used += allocation[i]
            elif not self.theta_g[i]:
                used = math.inf
        used = 0.0
        for i in range(self.K):
            used += allocation[i]
        order = rank_down(ratio)
        for k in range(self.K):
            i = order[k]
            if not self.theta_g[i] or used + self.theta_u[i] > room:
                break
            allocation[i] = self.theta_hat[i]
            used += self.theta_u[i]
        return allocation

    def update(self, allocation, observed, rng):
        """As repaired, but theta_hat of a known arm that got nothing is 0 from now on."""
        searching = not self.found
        self.keep_set(allocation)
        for i in range(self.K):
            lost = observed[i] > 0.0
            if allocation[i] <= self.theta_l[i] + TINY:
                self.learn(i, observed[i], 0, rng)
                if self.forgets and searching and self.theta_g[i]:
                    self.theta_hat[i] = 0.0
            elif not self.theta_g[i]:
                zeros = self.narrow(i, allocation[i], lost)
                if lost:
                    self.learn(i, observed[i], zeros, rng)
        self.advance()

    def narrow(self, i, amount, lost):
        """As repaired, but zeros at another amount may still count."""
        if abs(amount - self.probed[i]) > TINY:
            self.probed[i] = amount
            if not self.carries:
                self.Z[i] = 0
        zeros = self.Z[i]
        if lost:
            self.theta_l[i] = amount
            self.Z[i] = 0
        else:
            self.Z[i] += 1
            if self.Z[i] == self.W:
                self.theta_u[i] = amount
                self.Z[i] = 0
        self.settle(i)
        return zeros

    def settle(self, i):
        """As repaired, but optionally without the tolerance."""
        self.theta_hat[i] = self.theta_u[i]
        tolerance = 0.0 if self.exact else TINY
        if self.theta_u[i] - self.theta_l[i] <= self.gamma + tolerance:
            self.theta_g[i] = True


def compare(instance, horizon, replications):
    """Return the mean regret after one, two and four quarters of the horizon, by faults."""
    problem = load(instance)
    # delta as in the thesis's experiments with T = 10 000, whatever the horizon here: the search is the same
    common = (problem.arms, problem.budget, 0.1, 1e-4, 0.01)
    distinct = problem.distinct(0.01)
    policies = {"mended": CsbMk(*common, distinct=distinct)}
    for fault in FAULTS:
        policies[f"only {fault}"] = PrintedCsbMk(*common, distinct=distinct, faults=(fault,))
    policies["as printed"] = PrintedCsbMk(*common, distinct=distinct)
    marks = np.array([horizon // 4, horizon // 2, horizon])
    return simulate(problem, policies, horizon=horizon, replications=replications, marks=marks)


def main(arguments=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--horizon", type=int, default=40_000)
    parser.add_argument("--replications", type=int, default=20)
    options = parser.parse_args(arguments)
    for instance in ("III", "IV"):
        results = compare(instance, options.horizon, options.replications)
        print(f"Instance {instance}: mean regret after a quarter, half and all of {options.horizon} rounds")
        for policy in results.policies:
            quarter, half, whole = results.values(policy).mean(axis=0)
            found = results.values(policy, "really_equivalent")[:, -1].mean()
            print(f"  {policy:14s} {quarter:9.0f} {half:9.0f} {whole:9.0f}   really equivalent {found:4.0%}")
        print()


if __name__ == "__main__":
    main()
