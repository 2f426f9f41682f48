"""Conversations of a router: money plus errors over those of always the dear model, and what belief in it costs.

The prefix of a conversation grows, cached input costs a tenth, and a switch of the model loses the cache. Four parts:

``table``: turns are hard (40 %) or easy, and often stay so; the cheap model differs from the dear one, which is right,
in 35 % of the hard turns and 2 % of the easy ones. An error costs what makes always-cheap and always-dear equal, or
more.
``anew``: the same with everything drawn: prefix, price ratio, length, how long a kind stays, kinds and their shares.
``hostile``: the worlds of ``anew``, in which the dear model is not right where they differ: the cheap one is, or a coin
tells. ``recorded``: turns are recorded answers of GSM8K and MMLU-Pro, with their true labels; a conversation stays with
its category or task; chains of two and three models drawn anew, at six prices of the last.

A router with the default, which believes the last model, stands beside one that believes nobody.

    python -m benchmarks.conversations [table] [anew] [hostile] [recorded] [--seed N] [--worlds N] [--talks N]
"""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.looks import LAST, families
from weakfeedback import Router

NEW, OUTPUT, OUTPUT_PRICE, CACHED = 200, 300, 4.0, 0.1
TURNS, HARD = 8.0, 0.4
DIFFERS = {"hard": 0.35, "easy": 0.02}
CELLS = [(1000, 10.0), (10_000, 3.75), (50_000, 3.75)]  # tokens of the prefix, price ratio
STAYS = (0.9, 0.5, 1.0)
BELIEFS: dict[str, dict[str, Any]] = {"default": {}, "nobody": {"trust": "nobody"}}


class Turn(NamedTuple):
    """A request: what is known of it, what the models answer, and how often each is wrong."""

    kind: str
    outputs: Sequence[Any]
    wrong: Sequence[float]


class World(NamedTuple):
    """Conversations, the tokens of their prefix, and the price of a token on each model."""

    talks: list[list[Turn]]
    prefix: float
    prices: Sequence[float]

    def price(self, model, turn, cached):
        """What a turn costs on a model."""
        known = self.prefix + turn * (NEW + OUTPUT)
        return (known * (CACHED if cached else 1.0) + NEW + OUTPUT * OUTPUT_PRICE) * self.prices[model]

    def always(self, model):
        """Money and errors of one model alone."""
        money = sum(self.price(model, n, n > 0) for talk in self.talks for n in range(len(talk)))
        return money, sum(turn.wrong[model] for talk in self.talks for turn in talk)

    def means(self):
        """What a turn costs on each model, on average."""
        turns = sum(map(len, self.talks))
        return [self.always(k)[0] / turns for k in range(len(self.prices))]


def kinds_of(shares, stay, turns, count, rng):
    """Yield the kinds of the turns of each conversation, as numbers."""
    for _ in range(count):
        kind, kinds = rng.choice(len(shares), p=shares), []
        for _ in range(1 + int(rng.geometric(1 / turns))):
            kinds.append(int(kind))
            kind = kind if rng.random() < stay else rng.choice(len(shares), p=shares)
        yield kinds


def made_up(
    prefix, ratio, stay, count, rng, turns=TURNS, shares=(HARD, 1 - HARD), differs=DIFFERS, right=1.0
):
    """Two models that differ as often as the kind of a turn says; the dear one is ``right`` in that share of these."""
    names, rates = list(differs), list(differs.values())
    talks = [
        [
            Turn(
                names[k], [bool(rng.random() < rates[k]), False], [rates[k] * right, rates[k] * (1.0 - right)]
            )
            for k in kinds
        ]
        for kinds in kinds_of(shares, stay, turns, count, rng)
    ]
    return World(talks, prefix, (1.0, ratio))


def indifference(world):
    """What an error costs if always-cheap and always-dear are equal where the dear model is right."""
    differing = sum(sum(turn.wrong) for talk in world.talks for turn in talk)
    return (world.always(1)[0] - world.always(0)[0]) / differing


def knowing(router, differs=DIFFERS):
    """Let a router know how often two models differ in each kind of turn, and settle on the dear one."""
    for kind in differs:
        router.decide(context={"kind": kind})
    for number in range(len(differs)):
        router.cancel(number + 1)
    policy, many = router.policy, 1e6
    policy.N[0, 1], policy.D[0, 1] = many, many * max(differs.values())
    for group, share in enumerate(differs.values()):
        policy.N1[0, 1, group], policy.D1[0, 1, group] = many, many * share
    policy.N1[0, 0, 0], policy.D1[0, 0, 0] = len(differs) * many, many * sum(differs.values())
    policy.L[0] = [-1e4, 0.0]
    policy.weigh_all()
    return router


def played(world, error, *, talk=True, known=False, **options):
    """Money plus errors, over those of always the last model, with all comparisons paid.

    ``known``: the router knows how often the models differ; otherwise it learns that. ``talk``: it is told of
    conversations, and decides request by request otherwise.
    """
    models = range(len(world.prices))
    router = Router(len(world.prices), world.means(), error, context=["kind"], **options)
    router = knowing(router) if known else router
    money, errors = 0.0, 0.0
    for number, turns in enumerate(world.talks):
        last = None
        for n, turn in enumerate(turns):
            more: dict[str, Any] = {}
            if talk:
                lost = [world.price(k, n, False) - world.price(k, n, True) for k in models]
                more = {"conversation": number, "switching": lost}
            decision = router.decide(context={"kind": turn.kind}, **more)
            if len(decision.call) > 1:
                router.feedback(decision.id, [turn.outputs[k] for k in decision.call])
            money += sum(world.price(k, n, n > 0 and last == k) for k in decision.call)
            errors += turn.wrong[decision.answer]
            last = decision.answer
    alone, wrong = world.always(-1)
    return (money + error * errors) / (alone + error * wrong)


def cheap_alone(world, error):
    """Money plus errors of the first model alone, over those of the last."""
    (money, wrong), (dear, right) = world.always(0), world.always(-1)
    return (money + error * wrong) / (dear + error * right)


# -- the parts


def table(seed, talks):
    """Print the table of conversations: mean of three seeds (worst)."""
    ways: list[tuple[str, float, dict[str, Any]]] = [
        ("request by request, known", 1.0, {"known": True, "talk": False, "trust": "nobody"}),
        ("conversations, known", 1.0, {"known": True}),
        *((f"learned, {price:g}", price, {}) for price in (1.0, 1.25, 1.5)),
        *((f"nobody, {price:g}", price, BELIEFS["nobody"]) for price in (1.0, 1.25, 1.5)),
    ]
    for prefix, ratio in CELLS:
        for stay in STAYS:
            worlds = [
                made_up(prefix, ratio, stay, talks, np.random.default_rng([seed, run])) for run in range(3)
            ]
            row = []
            for name, dearer, options in ways:
                found = [played(world, dearer * indifference(world), **options) for world in worlds]
                row.append(f"{name} {np.mean(found):.3f} ({max(found):.3f})")
            print(f"{prefix} tokens, {ratio:g} : 1, stays {stay:g}: {'; '.join(row)}", flush=True)


def drawn(rng, talks, right=1.0):
    """A world with everything drawn, and what an error costs there, from .7 to 2 of indifference."""
    kinds = int(rng.integers(2, 6))
    shares = rng.dirichlet(np.full(kinds, 2.0))
    differs = {f"kind {k}": float(rate) for k, rate in enumerate(rng.beta(0.6, 3.0, kinds))}
    prefix = float(np.exp(rng.uniform(np.log(300), np.log(100_000))))
    ratio, stay = (
        float(np.exp(rng.uniform(np.log(2), np.log(30)))),
        float(rng.choice([0.5, 0.7, 0.9, 0.97, 1.0])),
    )
    turns = float(rng.choice([2.0, 4.0, 8.0, 16.0]))
    world = made_up(prefix, ratio, stay, int(talks * TURNS / turns), rng, turns, shares, differs, right)
    return world, float(np.exp(rng.uniform(np.log(0.7), np.log(2.0)))) * indifference(world), stay


def anew(seed, worlds, talks, right=1.0):
    """Print worlds drawn anew, and their summary; return the shares of always the dear model, of each belief."""
    found = []
    for number in range(worlds):
        world, error, stay = drawn(np.random.default_rng([seed, number]), talks, right)
        row = [cheap_alone(world, error), *(played(world, error, **options) for options in BELIEFS.values())]
        found.append(row)
        print(
            f"world {number}, prefix {world.prefix:.0f}, {world.prices[-1]:.1f} : 1, stays {stay:g}, dear right "
            f"{right:g}: cheap alone {row[0]:.3f}, default {row[1]:.3f}, nobody {row[2]:.3f}",
            flush=True,
        )
    said(f"dear right {right:g}", found)
    return found


def said(name, rows):
    """Print what a set of worlds comes to."""
    cheap, default, nobody = np.transpose(rows)
    loss = default / nobody
    best = np.minimum(cheap, 1.0)
    print(
        f"{name}, {len(rows)} worlds: of always the dear model default {mean(default)} ({default.min():.3f} to "
        f"{default.max():.3f}), nobody {mean(nobody)} ({nobody.min():.3f} to {nobody.max():.3f}); default over nobody "
        f"{mean(loss)} ({loss.min():.3f} to {loss.max():.3f}), {(loss > 1.01).sum()} above 1.01; "
        f"over the better of both models alone: default {mean(default / best)} ({(default / best).max():.3f}), nobody "
        f"{mean(nobody / best)} ({(nobody / best).max():.3f})",
        flush=True,
    )


def mean(values):
    """The geometric mean, in words."""
    return f"{np.exp(np.log(values).mean()):.3f}"


def recorded(seed, talks):
    """Print recorded answers as conversations, at six prices of the last model."""
    found = {}
    for family, name, truth, outputs, prices, groups in families(seed):
        rng = np.random.default_rng([seed, len(found)])
        groups = np.asarray(groups)
        labels, shares = np.unique(groups, return_counts=True)
        rows = [np.flatnonzero(groups == label) for label in labels]
        told = [
            [int(rng.choice(rows[k])) for k in kinds]
            for kinds in kinds_of(shares / shares.sum(), 0.9, TURNS, talks, rng)
        ]
        made = [
            [
                Turn(str(groups[at]), outputs[at].tolist(), (outputs[at] != truth[at]).astype(float))
                for at in talk
            ]
            for talk in told
        ]
        world = World(made, float(rng.choice([1000, 10_000, 50_000])), prices)
        for last in LAST:
            error = world.means()[-1] / last
            row = [cheap_alone(world, error), *(played(world, error, **one) for one in BELIEFS.values())]
            found.setdefault(family, []).append(row)
            print(
                f"{family}, {name}, {last:g}, prefix {world.prefix:.0f}: cheap alone {row[0]:.3f}, default "
                f"{row[1]:.3f}, nobody {row[2]:.3f}",
                flush=True,
            )
    for family, rows in found.items():
        said(family, rows)
    said("recorded", [row for rows in found.values() for row in rows])


def main(arguments=None):
    """Print the parts that are named, or all."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.conversations", description=__doc__.splitlines()[0]
    )
    parts = ["table", "anew", "hostile", "recorded"]
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(parts))
    parser.add_argument("--seed", type=int, default=2028)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--talks", type=int, default=800)
    given = parser.parse_args(arguments)
    for part in given.parts or parts:
        if part == "table":
            table(given.seed, given.talks)
        elif part == "anew":
            anew(given.seed, given.worlds, given.talks)
        elif part == "hostile":
            for right in (0.5, 0.0):
                anew(given.seed + 1, given.worlds // 2, given.talks, right)
        elif part == "recorded":
            recorded(given.seed, given.talks)
        else:
            parser.error(f"a part is one of {', '.join(parts)}, not {part}")


if __name__ == "__main__":
    main()
