"""What it costs to remove a model of a router: the next 200 requests, on chains drawn anew.

Chains of three and more models are drawn from recorded answers, at six prices of the last model. A router plays 2000
requests, then the model that it has settled on is removed. The next 200 requests, money plus errors, are told over
those of a router that has played 2000 requests without it; beside them those of a router that starts again. Then why:
in how many runs the verdict on the others was there at once, missing (fewer than ten comparisons of the model settled
on with the one that the other router has settled on) or another one, and what of the excess is comparisons. The last
lines are for any model of the chain, each equally likely to be removed.

    python -m benchmarks.removal [--seed N] [--chains N] [--runs N]
"""

import argparse
import itertools

import numpy as np

from benchmarks.looks import GSM8K, LAST, MMLU, TOKENS, loaded
from weakfeedback.datasets.answers import MMLU_PRO
from weakfeedback.routing import PayToCompare

BEFORE, AFTER = 2000, 200
FEW = 10  # comparisons below which a verdict is missing


def chains(seed, count):
    """Yield the truth, the outputs and the relative prices of chains of three to five models of each benchmark."""
    rng = np.random.default_rng(seed)
    for file, known, tokens, group in (
        ("gsm8k", GSM8K, TOKENS, ""),
        ("mmlu-pro", MMLU, MMLU_PRO, "category"),
    ):
        fits = [one for size in (3, 4, 5) for one in itertools.combinations(known, size)]
        for k in rng.permutation(len(fits))[:count]:
            yield loaded(file, fits[k], known, tokens, group)[:3]


def played(policy, models, outputs, errors, rounds, rng):
    """Money plus errors of these rounds, and the part of comparisons; an answer costs the mean error of its model."""
    prices, total, beside = policy.c.copy(), 0.0, 0.0
    rows = rng.integers(len(outputs), size=rounds)
    while rows.size:
        alone = policy.quiet(rows.size)
        total += alone * (prices + errors[models])[policy.settled()]
        policy.rest(alone)
        for row in rows[alone : alone + 1]:
            call = policy.select(None)
            policy.start(call, None)
            called = np.flatnonzero(call)
            policy.update(call, outputs[row][models][called], None)
            total += prices[called].sum() + errors[models][called[-1]]
            beside += prices[called[:-1]].sum()
        rows = rows[alone + 1 :]
    return np.array([total, beside])


def verdict_of(policy, never):
    """Whether the verdict of a router on its models was there, against one that has learned it."""
    one, other = sorted((policy.settled(), never.settled()))
    return "there" if one == other else "missing" if policy.N[one, other] < FEW else "another"


def ratios(outputs, errors, prices, runs, seed, told=None, settled=True):
    """What was paid after the removal, and after a new start, over a router that never had the model.

    ``told`` takes of every run the verdict, the excess, and the part of it that was comparisons. The settled model is
    removed, or each of the chain in turn.
    """
    sums, every = np.zeros((3, 2)), np.arange(prices.size)
    for run in range(runs):
        rng, policy = np.random.default_rng([seed, run]), PayToCompare(prices)
        played(policy, every, outputs, errors, BEFORE, rng)
        for gone in [policy.settled()] if settled else every:
            kept = np.delete(every, gone)
            never = PayToCompare(prices[kept])
            played(never, kept, outputs, errors, BEFORE, rng)
            now = int(rng.integers(2**62))
            stays = policy.with_models(prices[kept], kept)
            verdict = verdict_of(stays, never)
            paid = np.array(
                [
                    played(one, kept, outputs, errors, AFTER, np.random.default_rng(now))
                    for one in (stays, PayToCompare(prices[kept]), never)
                ]
            )
            sums += paid
            if told is not None:
                told.append((verdict, *((paid[0] - paid[2]) / paid[2, 0])))
    return sums[:2, 0] / sums[2, 0]


def main(arguments=None):
    """Print the median, the mean, the share of cells within 2 %, and the worst."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--chains", type=int, default=6, help="of each benchmark")
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args(arguments)
    for settled, words in ((True, ""), (False, "any model is removed, ")):
        found, told = [], []
        for n, (truth, outputs, prices) in enumerate(chains(given.seed, given.chains)):
            errors = (outputs != truth[:, None]).mean(axis=0)
            found += [ratios(outputs, errors, last * prices, given.runs, n, told, settled) for last in LAST]
        tell(words, found, told)


def tell(words, found, told):
    """Print the cells, and why they cost what they do."""
    for name, cells in zip(("what was known stays", "a new start"), np.transpose(found)):
        print(
            f"{words}{name}: median {np.median(cells):.3f}, mean {cells.mean():.3f}, {(cells <= 1.02).mean():.0%} of "
            f"{cells.size} cells at most 1.02, worst {cells.max():.3f}"
        )
    for name in ("there", "missing", "another"):
        runs = np.array([one[1:] for one in told if one[0] == name]).reshape(-1, 2)
        more, beside = runs.sum(axis=0) / len(told)
        print(
            f"verdict {name}: {len(runs) / len(told):.0%} of the runs, {100 * more:+.1f} points of the mean excess, "
            f"{100 * beside:.1f} of them comparisons"
        )


if __name__ == "__main__":
    main()
