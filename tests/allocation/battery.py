"""What fast and slow policies of chapter 4 are put through together: random instances and hostile feedback."""

from typing import Any

import numpy as np
from tests.reference import allocation as slow
from tests.reference import allocation_search as search
from tests.reference import csb_dt
from tests.reference.allocation_problem import SlowWorld, slow_rounds

from weakfeedback import allocation as fast

KNOWN = {"epsilon": 0.3, "delta": 0.2}
SEARCH = {**KNOWN, "gamma": 0.06}
MK: list[dict[str, Any]] = [
    {**SEARCH, "wait": 4},
    {**SEARCH, "epsilon": 0.7, "distinct": 1},
    {**SEARCH, "wait": 2, "distinct": 2, "gamma": 0.013},
    {**SEARCH, "wait": 3, "distinct": 1, "decimals": 1, "every": 3},
    {**SEARCH, "wait": 1, "search_max": 0.6, "decimals": 2, "every": 4},
    {**SEARCH, "epsilon": 0.02, "search_max": 0.6},
]
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "CsbSk": [KNOWN, {**KNOWN, "wait": 2}],
    "CsbSt": [
        KNOWN,
        {**KNOWN, "wait": 2},
        {**KNOWN, "wait": 3, "candidates": 0.75},
        {**KNOWN, "candidates": 1 / 3},
        {**KNOWN, "candidates": 0.1},
    ],
    "NumSk": [KNOWN, {**KNOWN, "wait": 1}, {**KNOWN, "wait": 3}],
    "CsbSu": [{}],
    "CsbMk": MK,
    "NumMk": MK,
    "CsbDt": [
        {**SEARCH, "wait": 2},
        {**SEARCH, "epsilon": 0.7},
        {**SEARCH, "wait": 3, "decimals": 1, "every": 3},
        {**SEARCH, "wait": 1, "search_max": 0.6, "every": 4},
        {**SEARCH, "epsilon": 0.02, "search_max": 0.6},
        {**SEARCH, "wait": 1, "search_max": 0.5, "gamma": 0.125},  # widths that are gamma to the bit
    ],
    "CsbDu": [
        {"gamma": 0.05},
        {"gamma": 0.4, "every": 3},
        {"gamma": 0.013, "every": 20},
        {"gamma": 0.9},  # few levels: the list of zeros is full
    ],
    "KnownThresholds": [{"every": 1}, {"every": 4}, {"same": True}],
}
TWINS = {
    name: next(
        getattr(place, f"Slow{name}") for place in (csb_dt, search, slow) if hasattr(place, f"Slow{name}")
    )
    for name in VARIANTS
}
SAME = ("CsbSk", "CsbSt", "NumSk", "CsbSu")  # made for one threshold
PLAIN = (
    "l",
    "u",
    "j",
    "C",
    "L",
    "Z",
    "W",
    "S",
    "F",
    "theta_hat",
    "found",
    "theta_l",
    "theta_u",
    "theta_g",
    "h",
    "free",
)


class Instance:
    """A random problem of 1 to 10 arms; every other one has decimal numbers, and so ties of values.

    Number 2 fills its budget only within the tolerance; number 4 has a threshold of 0.
    """

    def __init__(self, seed, same, setting, rewards):
        rng = np.random.default_rng(seed)
        K = (10, 5, 3, 8, 4, 7, 2, 1)[seed % 8]
        digits = 1 if seed % 2 else 12
        self.means = rng.uniform(0.15, 1.0, size=K).round(digits)
        self.means[rng.integers(K)] = (0.0, 1.0, 0.97, 0.03)[seed % 4]
        self.budget = round(rng.uniform(0.9, 0.4 * K + 0.9), digits)
        low, high = 0.05, min(0.95, self.budget)
        self.thresholds = np.full(K, round(rng.uniform(low, high), digits))
        if not same:  # few different ones if the numbers are decimal
            self.thresholds = np.minimum(rng.uniform(low, high, size=K).round(digits), self.budget)
            self.thresholds[0] = 0.0 if seed == 4 else self.thresholds[0]
        if seed == 2:  # in doubles .4 + .4 + .4 > 1.2 and 1.2 / 3 < .4
            self.thresholds, self.budget = np.full(K, 0.4), 1.2
        self.setting, self.rewards, self.seed = setting, rewards, seed

    def world(self):
        return SlowWorld(
            self.means.tolist(), self.thresholds.tolist(), self.budget, self.setting, self.rewards
        )

    def problem(self):
        return fast.AllocationProblem(
            self.means, self.thresholds, self.budget, self.setting, rewards=self.rewards
        )


def instances(name, options, seeds):
    """Random problems that the policy is made for, with both laws."""
    same = name in SAME or options.get("same", False)
    for seed in seeds:
        settings = {"K": ("loss", "reward"), "N": ("reward",), "C": ("loss",)}[name[0]]
        yield Instance(
            seed, same, settings[seed // 4 % len(settings)], ("bernoulli", "uniform")[seed // 2 % 2]
        )


def make(kind, name, options, instance):
    """A policy, fast or slow, for an instance."""
    wanted = {key: value for key, value in options.items() if key != "same"}
    K = instance.means.size
    if "distinct" in wanted:
        wanted["distinct"] = min(K, wanted["distinct"])
    if "search_max" in wanted:
        wanted["search_max"] = min(instance.budget, wanted["search_max"])
    # of CSB-ST, which may be any: as a part of the budget, and so a candidate itself
    if "candidates" in wanted:
        wanted["search_max"] = wanted.pop("candidates") * instance.budget
    if name == "KnownThresholds":
        wanted |= {"thresholds": instance.thresholds.tolist(), "setting": instance.setting}
    return kind(K, instance.budget, **wanted)


def values_of(field):
    return list(field.values()) if isinstance(field, dict) else np.asarray(field).tolist()


def agree(one, twin):
    """Every field of a fast policy that its twin has too, bit for bit."""
    for name in PLAIN:
        theirs = getattr(twin, name, None)
        if theirs is not None and not (name == "Z" and hasattr(one, "levels")):
            assert values_of(getattr(one, name)) == values_of(theirs), name
    if hasattr(one, "A"):
        assert ({int(i) + 1 for i in np.flatnonzero(one.A)}, one.phase) == (twin.A, twin.phase)
    if hasattr(one, "n_i"):
        assert (one.n_i + 1, one.Theta_n[: one.known].tolist()) == (twin.n_i, twin.Theta_n)
    if hasattr(one, "levels"):
        for i, Z in twin.Z.items():
            used = one.used[i - 1]
            assert one.levels[i - 1, :used].tolist() == sorted(Z)
            assert one.counts[i - 1, :used].tolist() == [Z[level] for level in sorted(Z)]


def lockstep(one, twin, instance, horizon, late=lambda t: 0):
    """Both side by side: the same allocations, the same fields and as many draws in every round."""
    agree(one, twin)

    def watch(t, rounds, rngs):
        assert rounds[0].allocation == rounds[1].allocation, f"round {t}"
        assert rngs[0].bit_generator.state == rngs[1].bit_generator.state, f"round {t}"
        agree(one, twin)

    slow_rounds(instance.world(), [Arrays(one), twin], instance.seed, 0, horizon, late, watch)


class Arrays:
    """A fast policy that is given arrays, as by the loop, and must not change them."""

    def __init__(self, policy):
        self.policy = policy

    def select(self, rng):
        return self.policy.select(rng)

    def update(self, allocation, observed, rng):
        given = np.array(allocation), np.array(observed)
        for array in given:
            array.setflags(write=False)
        self.policy.update(*given, rng)


def hostile(one, twin, instance, horizon):
    """Both are told of allocations that no run would give: at, just beside and far from every bound."""
    rng = np.random.default_rng(instance.seed)
    rngs = [np.random.default_rng(5), np.random.default_rng(5)]
    K, Q = instance.means.size, instance.budget
    for _ in range(horizon):
        if isinstance(twin, (slow.SlowSame, slow.SlowCsbSu)):
            M = int(rng.integers(1, K + 1))
            allocation = np.zeros(K)
            allocation[rng.permutation(K)[:M]] = Q / M
        else:
            allocation = np.array([special(one, i, Q, rng) for i in range(K)])
        quiet = rng.random() < 0.6
        observed = rng.choice([0.0, 0.0, 1.0, 0.4], size=K) * (0.0 if quiet else 1.0)
        one.update(allocation, observed, rngs[0])
        twin.update(allocation.tolist(), observed.tolist(), rngs[1])
        agree(one, twin)
        assert one.select(rngs[0]).tolist() == twin.select(rngs[1])
        assert rngs[0].bit_generator.state == rngs[1].bit_generator.state


def pick(values, rng):
    """What ``rng.choice`` picks, without what it does for arrays."""
    return values[int(rng.integers(len(values)))]


def special(one, i, Q, rng):
    """An amount at or beside something that the policy compares with."""
    found = getattr(one, "found", False)
    near = [0.0, one.theta_hat[i], one.theta_hat[i] if found else pick([0.1, 0.2, 0.3, 0.4, 0.5], rng) * Q]
    near += [
        getattr(one, field)[i] for field in ("theta_l", "theta_u", "probed", "h", "L") if hasattr(one, field)
    ]
    if hasattr(one, "probe"):
        near += [one.probe(i)] * 3
    beside = pick([0.0, 0.0, 0.0, 4e-13, -4e-13, 3e-12, -3e-12, 3e-10, -3e-10, 3e-9, -3e-9], rng)
    return max(0.0, float(pick(near, rng)) + beside)


def late(t):
    """Feedback up to four rounds late, out of order."""
    return (3 * t * t + t) % 5


SEEDS = (2, 4, 1, 5, 3, 0, 6, 7)  # small problems first: most mutants are caught with them


def battery(kind, name, seeds=SEEDS):
    """Everything above, for one kind of policy against the twin of that name; stops at the first difference."""
    for seed in seeds:
        for k, options in enumerate(VARIANTS[name]):
            for instance in instances(name, options, [seed]):
                pairs = [
                    (make(kind, name, options, instance), make(TWINS[name], name, options, instance))
                    for _ in range(2)
                ]
                hostile(*pairs[0], instance, horizon=60)
                lockstep(*pairs[1], instance, 120, late if (seed + k) % 2 else lambda t: 0)
