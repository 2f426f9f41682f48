"""Three policies on the same worlds: mean regret with 95 % intervals, a paired comparison and a figure."""

import sys

from weakfeedback import simulate
from weakfeedback.cascade import HanawalHeuristic, UssTs, UssUcb, instances

problem = instances.load("bc3-2")
policies = {
    "USS-TS": UssTs(problem.costs),
    "USS-UCB": UssUcb(problem.costs),
    "Hanawal et al.": HanawalHeuristic(problem.costs),
}
results = simulate(problem, policies, horizon=10_000, replications=100, seed=0, progress=True)
print(results.final().round(1))
paired = results.compare("USS-TS", "USS-UCB")
print(
    f"USS-TS minus USS-UCB: {paired.mean:.1f} ({paired.low:.1f} to {paired.high:.1f}), p = {paired.p_value:.0e}"
)
if len(sys.argv) > 1:
    import matplotlib

    matplotlib.use("Agg")
    axes = results.plot()
    axes.set_title("Breast-cancer cascade bc3-2: regret of learning without labels", fontsize=10, loc="left")
    axes.figure.savefig(sys.argv[1], dpi=110)
