"""A world of conversations: the prefix grows, cached input costs a tenth, and a switch of the model loses the cache.

Turns are hard (40 %) or easy, and often stay so; the cheap model differs from the dear one, which is right, in 35 % of
the hard turns and 2 % of the easy ones. An error costs what makes always-cheap and always-dear equal. Money and errors
are shares of those of always the dear model.
"""

import numpy as np

from weakfeedback import Router

NEW, OUTPUT, OUTPUT_PRICE, CACHED, TURNS, HARD = 200, 300, 4.0, 0.1, 8, 0.4
DIFFERS = {"hard": 0.35, "easy": 0.02}
CELLS = [(1000, 10.0), (10_000, 3.75), (50_000, 3.75)]  # tokens of the prefix, price ratio


def price(model, ratio, prefix, turn, cached):
    """What a turn costs on a model, per token of the cheap one's input."""
    known = prefix + turn * (NEW + OUTPUT)
    tokens = known * (CACHED if cached else 1.0) + NEW + OUTPUT * OUTPUT_PRICE
    return tokens * (ratio if model else 1.0)


def conversations(stay, count, rng):
    """Yield the kinds of the turns of each conversation."""
    for _ in range(count):
        hard, kinds = rng.random() < HARD, []
        for _ in range(1 + int(rng.geometric(1 / TURNS))):
            kinds.append("hard" if hard else "easy")
            hard = hard if rng.random() < stay else rng.random() < HARD
        yield kinds


def knowing(router):
    """Let a router know how often the models differ in each kind of turn, and settle on the dear one."""
    for kind in DIFFERS:
        router.decide(context={"kind": kind})
    router.cancel(1)
    router.cancel(2)
    policy, many = router.policy, 1e6
    policy.N[0, 1], policy.D[0, 1] = many, many * DIFFERS["hard"]
    for group, share in enumerate(DIFFERS.values()):
        policy.N1[0, 1, group], policy.D1[0, 1, group] = many, many * share
    policy.N1[0, 0, 0], policy.D1[0, 0, 0] = 2 * many, many * sum(DIFFERS.values())
    policy.L[0] = [-1e4, 0.0]
    policy.weigh_all()
    return router


def played(prefix, ratio, stay, way, count=1500, seed=0, known=True, dearer=1.0, trust=None):
    """Money and errors of a way to route, over those of always the dear model, with all comparisons paid.

    ``known``: the router knows how often the models differ; otherwise it learns that. ``dearer``: an error costs so
    many times what makes always-cheap and always-dear equal. ``trust``: as of the policy.
    """
    world = list(conversations(stay, count, np.random.default_rng(seed)))
    turns = sum(map(len, world))
    always = [
        sum(price(k, ratio, prefix, n, n > 0) for kinds in world for n in range(len(kinds))) for k in (0, 1)
    ]
    differing = sum(DIFFERS[kind] for kinds in world for kind in kinds)
    error = dearer * (always[1] - always[0]) / differing
    if way == "cheap":
        return (always[0] + error * differing) / always[1]
    router = Router(
        2, prices=[one / turns for one in always], error_cost=error, context=["kind"], trust=trust
    )
    router = knowing(router) if known else router
    rng, money, errors = np.random.default_rng(seed + 1), 0.0, 0.0
    for number, kinds in enumerate(world):
        last = None
        for n, kind in enumerate(kinds):
            more = {}
            if way == "talk":
                lost = [price(k, ratio, prefix, n, False) - price(k, ratio, prefix, n, True) for k in (0, 1)]
                more = {"conversation": number, "switching": lost}
            decision = router.decide(context={"kind": kind}, **more)
            differs = rng.random() < DIFFERS[kind]
            if len(decision.call) > 1:
                router.feedback(decision.id, [differs, False])
            money += sum(price(k, ratio, prefix, n, n > 0 and last == k) for k in decision.call)
            errors += DIFFERS[kind] if decision.answer == 0 else 0.0
            last = decision.answer
    return (money + error * errors) / always[1]
