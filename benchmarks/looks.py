"""Second-looks against Pay-to-compare on chains drawn anew from recorded answers: money plus errors, and its time.

Of the models of GSM8K, of MMLU-Pro and of a stream of both, a seed draws 14 chains of two or three models in the order
of price; at six prices of the last model these are 84 cells. Groups are the category of MMLU-Pro, the length of a
question of GSM8K in quartiles, and the task of the stream; useless ones are 4, 16 and 64 random groups. Every cell is
over Pay-to-compare on the same rows.

    python -m benchmarks.looks [--seed N] [--runs N]
"""

import argparse
import itertools
import time

import numpy as np

from weakfeedback import simulate
from weakfeedback.datasets.answers import MMLU_PRO, Chain
from weakfeedback.routing import PayToCompare, RoutingProblem, SecondLooks

LAST = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # price of the last model, in errors
MARKS = (1_000, 5_000)
USELESS = (4, 16, 64)
TOKENS = (139.0, 145.0)  # of a call of GSM8K
# dollars for a million tokens of input and output
GSM8K = {
    "meta-llama-3.1-8b-instruct": (0.18, 0.18),
    "gemma-2-9b-it": (0.2, 0.2),
    "gpt-4o-mini-2024-07-18": (0.15, 0.6),
    "claude-3-haiku-20240307": (0.25, 1.25),
    "meta-llama-3.1-70b-instruct": (0.88, 0.88),
    "llama-3.1-405b-inst": (3.5, 3.5),
    "gpt-4o-2024-08-06": (2.5, 10.0),
    "claude-3-5-sonnet-20241022": (3.0, 15.0),
}
MMLU = {
    "gemini-1.5-flash-002": (0.075, 0.3),
    "meta-llama-3_1-8b-instruct": (0.18, 0.18),
    "mistral-7b-instruct-v0.2": (0.2, 0.2),
    "mixtral-8x7b-instruct-v0.1": (0.6, 0.6),
    "meta-llama-3_1-70b-instruct": (0.88, 0.88),
    "qwen1.5-72b-chat": (0.9, 0.9),
    "gemini-1.5-pro-002": (1.25, 5.0),
}


def drawn(known, count, rng):
    """Chains of two or three of these models, in the order of price; the last costs twice the first at least."""
    fits = [
        chain
        for size in (2, 3)
        for chain in itertools.combinations(known, size)
        if sum(known[chain[-1]]) >= 2 * sum(known[chain[0]])
    ]
    return [fits[k] for k in sorted(rng.permutation(len(fits))[:count])]


def loaded(file, models, known, tokens, group=""):
    """The answers of a chain, its relative prices, and a group of every row."""
    chain = Chain(
        file, "", models, tuple(known[one] for one in models), group, tokens=(tokens,) * len(models)
    )
    found = chain.load()
    groups = found.groups
    if groups is None:
        import pandas as pd

        from weakfeedback.datasets.answers import FOLDER

        length = pd.read_parquet(FOLDER / f"{file}.parquet")["input_tokens"].to_numpy()
        groups = np.searchsorted(np.quantile(length, [0.25, 0.5, 0.75]), length)
    return found.truth, found.outputs, np.array(found.prices) / found.prices[-1], groups


def families(seed):
    """Yield (family, name, truth, outputs, prices, groups): five chains of each benchmark, and four of their stream."""
    rng = np.random.default_rng(seed)
    for models in drawn(GSM8K, 5, rng):
        yield "GSM8K", " ".join(models), *loaded("gsm8k", models, GSM8K, TOKENS)
    for models in drawn(MMLU, 5, rng):
        yield "MMLU-Pro", " ".join(models), *loaded("mmlu-pro", models, MMLU, MMLU_PRO, "category")
    pairs = [[one for one in drawn(known, 99, rng) if len(one) == 2] for known in (GSM8K, MMLU)]
    for _ in range(4):  # a service with a small and a large model for each of two tasks
        maths, other = (known[int(rng.integers(len(known)))] for known in pairs)
        one = loaded("gsm8k", maths, GSM8K, TOKENS)
        two = loaded("mmlu-pro", other, MMLU, MMLU_PRO, "category")
        rows = rng.permutation(len(two[0]))[: len(one[0])]
        yield (
            "both",
            " ".join((*maths, *other)),
            np.concatenate((one[0], two[0][rows])),
            np.concatenate((one[1], two[1][rows])),
            (one[2] + two[2]) / 2,
            np.repeat([0, 1], len(rows)),
        )


def totals(problem, policies, runs, seed):
    """Money plus errors of every policy at every mark, and its mean cost and errors a round at the last one."""
    results = simulate(problem, policies, MARKS[-1], replications=runs, seed=seed, marks=np.array(MARKS))
    best, found = float(problem.total_costs.min()), {}
    for label in policies:
        last = results.frame[(results.frame["policy"] == label) & (results.frame["round"] == MARKS[-1])]
        found[label] = (
            results.values(label).mean(axis=0) + best * np.array(MARKS),
            last["cost"].mean() / MARKS[-1],
            last["errors"].mean() / MARKS[-1],
        )
    return found


def cell(truth, outputs, prices, groups, seed, runs):
    """Money plus errors over Pay-to-compare by mark, for each kind of groups; and points above a random mix."""
    rng = np.random.default_rng([seed, 1])
    problem = RoutingProblem.from_predictions(truth, outputs, prices, groups)
    policies = {
        "router": PayToCompare(prices),
        "none": SecondLooks(prices),
        "groups": SecondLooks(prices, features=1),
    }
    known = totals(problem, policies, runs, seed)
    for size in USELESS:
        other = RoutingProblem.from_predictions(truth, outputs, prices, rng.integers(0, size, len(truth)))
        found = totals(other, {"useless": SecondLooks(prices, features=1)}, runs, seed)
        known[f"useless {size}"] = found["useless"]
    ratios = {label: found[0] / known["router"][0] for label, found in known.items() if label != "router"}
    money, errors = known["groups"][1:]
    wrong = (outputs != truth[:, None]).mean(axis=0)
    share = (money - prices[0]) / (prices[-1] - prices[0])
    mixed = wrong[0] + min(max(share, 0.0), 1.0) * (wrong[-1] - wrong[0])
    points = 100 * (mixed - errors) if 0.05 < share < 0.95 and len(prices) == 2 else None
    return ratios, points


def said(ratios):
    """Geometric mean, best and worst."""
    found = np.array(ratios)
    mean = np.exp(np.log(found).mean())
    return f"{mean:.3f} ({found.min():.3f}, {found.max():.3f}, {(found > 1.01).sum()} above 1.01)"


def speed():
    """Microseconds of a compiled round: two models and one feature, five models and six."""
    for models, features in ((2, 1), (5, 6)):
        rng = np.random.default_rng(7)
        truth = rng.integers(0, 2, 4000)
        outputs = np.where(
            rng.random((4000, models)) < np.linspace(0.3, 0.05, models), 1 - truth[:, None], truth[:, None]
        )
        prices = np.linspace(0.05, 0.4, models)
        problem = RoutingProblem.from_predictions(
            truth, outputs, prices, rng.integers(0, 8, (4000, features))
        )
        policy = {"looks": SecondLooks(prices, features=features)}
        simulate(problem, policy, 1_000, replications=1, seed=0)
        start = time.process_time()
        simulate(problem, policy, 200_000, replications=1, seed=0)
        print(
            f"{models} models, {features} features: {(time.process_time() - start) / 0.2:.2f} microseconds a round"
        )


def main():
    """Print a table of all cells, and their means by family."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.looks", description=__doc__)
    parser.add_argument("--seed", type=int, default=2027, help="of the chains and orders")
    parser.add_argument("--runs", type=int, default=16, help="orders of every cell")
    chosen = parser.parse_args()
    kept, above = [], []
    for family, name, truth, outputs, prices, groups in families(chosen.seed):
        for last in LAST:
            ratios, points = cell(truth, outputs, prices * last, groups, chosen.seed, chosen.runs)
            kept.append((family, ratios))
            above += [] if points is None else [(family, points)]
            row = " ".join(f"{label} {found[0]:.3f} {found[1]:.3f}" for label, found in ratios.items())
            mix = "" if points is None else f" {points:+.1f} points"
            print(f"{family}, {name}, {last:g}: {row}{mix}", flush=True)
    for family in ("GSM8K", "MMLU-Pro", "both", "all"):
        rows = [ratios for one, ratios in kept if family in (one, "all")]
        for label in rows[0]:
            for m, mark in enumerate(MARKS):
                print(f"{family}, {label}, {mark} rounds: {said([ratios[label][m] for ratios in rows])}")
        points = [found for one, found in above if family in (one, "all")]
        if points:
            print(
                f"{family}: {np.mean(points):+.1f} points above a random mix ({min(points):+.1f} to {max(points):+.1f})"
            )
    speed()


if __name__ == "__main__":
    main()
