"""Claims of chapter 4 on network utility maximisation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from weakfeedback.experiments.evidence import above, beside, decided, last, more, reverse, skipped, sublinear
from weakfeedback.experiments.model import ClaimList, Finding, Part, Run
from weakfeedback.stats import student_interval
from weakfeedback.thesis.chapter4 import experiments as ch4
from weakfeedback.thesis.chapter4.claims import NUM_DIFFERENT, ROUNDING, sweep
from weakfeedback.thesis.chapter4.evidence import log_ratio, rounds, somewhere, steps
from weakfeedback.thesis.chapter4.experiments import NUM_MK, NUM_SK, ROUNDED

BERNOULLI, UNIFORM = ch4.LAWS
STATED = {"NUM1": "20", "NUM2": "2", "NUM3": "3"}
DIFFERENT = ("NUM2", "NUM3")
ANYTIME = {f"ch4-anytime-{name.lower()}": ch4.TS_SAME if name == "NUM1" else ch4.TS for name in STATED}
HORIZONS = (2_000, 10_000, ch4.ANYTIME)
THESIS_REPLICATIONS = 100  # replications after which the thesis saw its intervals overlap


CLAIMS = ClaimList()


@CLAIMS.tested(74, "3527, 3822", ANYTIME)
def anytime_impossible(run: Run) -> Finding:
    """anytime algorithms are not possible when considering the CSB problems in the reward setting"""
    parts = []
    for experiment, policy in ANYTIME.items():
        for horizon in HORIZONS:
            label = f"{policy} on {experiment.split('-')[-1].upper()} not sub-linear up to T = {horizon}"
            if experiment not in run:
                parts.append(skipped(label))
                continue
            marks = run[experiment].values(policy).shape[1] * horizon // ch4.ANYTIME
            parts.append(reverse(sublinear(label, run[experiment], policy, marks)))
    return Finding(
        tuple(parts),
        reading="not possible would mean that no policy that does not know T has sub-linear regret; one is enough to "
        "contradict it",
        summary="For one threshold there is a proof: restart NUM-SK in episodes of 2^m rounds with delta = 2^-m. "
        "Each episode has regret O(m), so T rounds have regret O(log^2 T) without knowing T; with epsilon_m = 1 / "
        "m, if epsilon is not known either, O(log^3 T). Thompson sampling of thresholds and means together needs no "
        "restarts: it tests smaller amounts as often as they may still be right. It is not from the thesis, and no "
        "bound on its regret is known; the runs show that it learns. The thesis gives an example of one difficulty, "
        "which is real.",
    )


def _stated(name: str, law: str) -> str:
    return f"ch4-resource-{name.lower()}-{STATED[name]}-{law}"


def _ratio(run: Run, name: str, policy: str) -> np.ndarray | None:
    pair = [_stated(name, law) for law in (BERNOULLI, UNIFORM)]
    if any(experiment not in run for experiment in pair):
        return None
    return log_ratio(*(last(run[experiment], policy) for experiment in pair))


@CLAIMS.tested(76, "3836", tuple(_stated(name, law) for name in STATED for law in ch4.LAWS))
def uniform_less(run: Run) -> Finding:
    """we observe less regret for uniformly distributed rewards than Bernoulli distributed rewards. This difference is
    more significant when the arms have different thresholds"""
    parts = []
    for name, policy in (
        ("NUM1", NUM_SK),
        ("NUM2", ROUNDED),
        ("NUM3", ROUNDED),
        *((n, NUM_MK) for n in DIFFERENT),
    ):
        label = f"{policy} on {name}"
        if any(_stated(name, law) not in run for law in ch4.LAWS):
            parts.append(skipped(label))
            continue
        found = more(label, *(last(run[_stated(name, law)], policy) for law in (UNIFORM, BERNOULLI)))
        parts.append(beside(found, "as printed") if policy == NUM_MK else found)
    parts += [_test_wider(run, name, ROUNDED) for name in DIFFERENT]
    parts += [beside(_test_wider(run, name, NUM_MK), "as printed") for name in DIFFERENT]
    return Finding(
        tuple(parts),
        reading=f"a more significant difference is read as a larger ratio of the two regrets; {ROUNDING}",
    )


def _test_wider(run: Run, name: str, policy: str) -> Part:
    label = f"larger ratio on {name} than on NUM1, {policy}"
    one, other = _ratio(run, "NUM1", NUM_SK), _ratio(run, name, policy)
    if one is None or other is None:
        return skipped(label)
    n = min(one.size, other.size)
    note = f"ratio {np.exp(other.mean()):.3g} against {np.exp(one.mean()):.3g}"
    return above(label, other[:n] - one[:n], note=note)


@CLAIMS.tested(77, "3838", sweep("NUM1", law=UNIFORM))
def less_with_more_resources(run: Run) -> Finding:
    """With more resource [...] learner can observe rewards from more arms in each round, which leads to faster learning
    and low cumulative regret [...] for the uniformly distributed rewards"""
    ids = sweep("NUM1", law=UNIFORM)
    ends = steps(run, (ids[0], ids[-1]), NUM_SK, grows=False)
    return Finding((*steps(run, ids, NUM_SK, grows=False), *(beside(part) for part in ends)))


@CLAIMS.tested(78, "3838", sweep("NUM1", law=BERNOULLI))
def bernoulli_may_not(run: Run) -> Finding:
    """with large W_delta value for Bernoulli distributed rewards, we may not observe similar behavior (less regret with
    more resource)"""
    return Finding(tuple(steps(run, sweep("NUM1", law=BERNOULLI), NUM_SK)), rule="any")


@CLAIMS.tested(79, "3856", (*sweep("NUM1", "threshold", BERNOULLI), *sweep("NUM1", "threshold", UNIFORM)))
def faster_with_smaller_thresholds(run: Run) -> Finding:
    """we observe that a smaller threshold leads to faster learning due to more feedback"""
    return Finding(
        tuple(part for law in ch4.LAWS for part in steps(run, sweep("NUM1", "threshold", law), NUM_SK)),
        summary="Faster learning is read as less regret. With Bernoulli rewards the length of the search, which "
        "depends on where the threshold lies among the candidates, matters more than the feedback.",
    )


def _groups(find: Callable[[Sequence[str], str], Sequence[Part]]) -> list[Part]:
    """Return the parts of both instances and laws: those of the rounding policy count, those as printed do not."""
    parts: list[Part] = []
    for name, law in itertools.product(DIFFERENT, ch4.LAWS):
        parts += find(sweep(name, law=law), ROUNDED)
    for name, law in itertools.product(DIFFERENT, ch4.LAWS):
        parts += [beside(part) for part in find(sweep(name, law=law), NUM_MK)]
    return parts


@CLAIMS.tested(80, "3875", NUM_DIFFERENT)
def not_monotone(run: Run) -> Finding:
    """it does not show the same behavior (less regret with more resource) as observed for the same threshold"""

    def find(ids: Sequence[str], policy: str) -> list[Part]:
        _, _, instance, _, law = ids[0].split("-")
        return [somewhere(f"{policy}, {instance.upper()}, {law}", steps(run, ids, policy))]

    return Finding(
        tuple(_groups(find)),
        reading=f"somewhere along each sweep more resources mean more regret; {ROUNDING}",
    )


@CLAIMS.tested(81, "3908", NUM_DIFFERENT)
def found_faster(run: Run) -> Finding:
    """we observe that the allocation equivalent is learned faster as the reward of more arms can be observed
    simultaneously with more resource"""

    def find(ids: Sequence[str], policy: str) -> list[Part]:
        return steps(run, ids, policy, grows=False, measure=rounds)

    return Finding(
        tuple(_groups(find)),
        summary="Rounds until the search has ended. With more resources more arms are tried at once, but the "
        "interval [0, Q] to be searched also grows.",
    )


@CLAIMS.tested(82, "3910", (*sweep("NUM2", law=UNIFORM), *sweep("NUM3", law=UNIFORM)))
def intervals_overlap(run: Run) -> Finding:
    """We run experiment 500 times for uniformly distributed rewards [...] as confidence intervals overlapped for 100
    runs"""
    parts = [_overlap(run, sweep(name, law=UNIFORM), ROUNDED) for name in DIFFERENT]
    parts += [beside(_overlap(run, sweep(name, law=UNIFORM), NUM_MK)) for name in DIFFERENT]
    return Finding(tuple(parts), reading=ROUNDING)


def _overlap(run: Run, ids: Sequence[str], policy: str) -> Part:
    label = f"{policy} on {ids[0].split('-')[2].upper()}"
    if any(name not in run for name in ids):
        return skipped(label)
    values = [last(run[name], policy) for name in ids]
    if min(v.size for v in values) < THESIS_REPLICATIONS:
        return Part(label, outcome="inconclusive", note=f"fewer than {THESIS_REPLICATIONS} replications")
    early, late = (_count_overlaps([v[:n] for v in values]) for n in (THESIS_REPLICATIONS, None))
    note = f"{early} of 10 pairs overlap at {THESIS_REPLICATIONS} runs, {late} at {values[0].size}"
    return decided(label, early > 0, early, values[0].size, note)


def _count_overlaps(values: Sequence[np.ndarray]) -> int:
    """Return how many pairs of 95 % intervals overlap."""
    ends = [student_interval(v) for v in values]
    return sum(bool(a[0] <= b[1] and b[0] <= a[1]) for a, b in itertools.combinations(ends, 2))
