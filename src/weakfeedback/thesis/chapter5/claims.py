"""Claims of chapter 5 on how DLC and DLC-LIX compare with Musical Chairs and SIC-MMAB, and on its sweeps."""

from __future__ import annotations

from functools import partial

import numpy as np

from weakfeedback.engine.results import Results
from weakfeedback.experiments.evidence import above, beside, last, skipped
from weakfeedback.experiments.model import ClaimList, Finding, Part, Run
from weakfeedback.thesis.chapter5.evidence import (
    COMPARE,
    E1,
    E2,
    ENDS,
    GAPS,
    each,
    ended,
    lower_on,
    share,
    short,
    since,
    times,
)
from weakfeedback.thesis.chapter5.experiments import DLC, DLC_N, HASTY, LEARNING, LIX, LIX_N, MC, SIC

TOLERANCE_READING = (
    "AdaptiveExplore stops at eps, as it must have done for the thesis's figures. The parts that do not count use "
    "eps/N, the only tolerance with the guarantee."
)
OFTEN = 0.9


CLAIMS = ClaimList()


@CLAIMS.tested(86, "4167", COMPARE)
def fewer_collisions(run: Run) -> Finding:
    """Our approach results in fewer collisions [...] compared to the state-of-the-art algorithms"""
    rivals = ((E1, MC), (E2, MC), (E2, SIC))
    ours = (DLC, LIX, DLC_N, LIX_N)
    return Finding(
        tuple(lower_on(run, name, first, second, "collisions") for name, second in rivals for first in ours),
        summary="Collisions are counted once for every player involved.",
    )


@CLAIMS.tested(87, "4222", (E2, ENDS))
def chairs_only_initially(run: Run) -> Finding:
    """musical chairs (MC) algorithm that incurs collisions only in the initial phase and guarantees collision free
    sampling subsequently"""

    def quiet(policy: str, name: str, r: Results) -> Part:
        hits = (since(r, policy, "collisions", 0.5) == 0) & ended(r, policy)
        return share(f"{policy} on {name}", hits, OFTEN)

    both = [r for name in (E2, ENDS) if (r := run.get(name)) is not None]
    found = [(since(r, MC, "collisions", 0.5) == 0) & ended(r, MC) for r in both]
    parts = [share(MC, np.concatenate(found), OFTEN) if found else skipped(MC)]
    parts += [beside(part) for part in each(run, [ENDS], partial(quiet, HASTY))]
    return Finding(
        tuple(parts), summary="No collision in the last half of the run, in more than nine runs of ten."
    )


@CLAIMS.tested(97, "4456", (E1,))
def order_of_magnitude(run: Run) -> Finding:
    """the performance of DLC is an order of magnitude better than the MC algorithm"""
    parts = [lower_on(run, E1, DLC, MC, factor=0.1), lower_on(run, E1, DLC_N, MC, factor=0.1)]
    others = (beside(lower_on(run, E1, label, MC, factor=0.1)) for label in (LIX, LIX_N))
    return Finding((*parts, *others), summary="Regret below a tenth of Musical Chairs'.")


@CLAIMS.tested(98, "4456", (E1,))
def hopping_costs(run: Run) -> Finding:
    """This improved performance gain is mainly due to the long random hopping phase of MC"""

    def part(name: str, r: Results) -> Part:
        whole = last(r, MC)
        later = since(r, MC, "regret", LEARNING / int(r.about["horizon"]))
        ratio = (whole - later) / whole
        return above(
            name, ratio - 0.5, note=f"{ratio.mean():.0%} of the regret in the first {LEARNING} rounds"
        )

    return Finding(
        tuple(each(run, [E1], part)),
        summary="More than half of the regret of Musical Chairs comes from its random hopping. How much DLC gains "
        "over it is another claim.",
    )


@CLAIMS.tested(104, "4617", (E1,))
def below_chairs(run: Run) -> Finding:
    """our algorithms have lower regret than MC"""
    return Finding(
        (
            lower_on(run, E1, DLC, MC),
            lower_on(run, E1, LIX, MC),
            beside(lower_on(run, E1, DLC_N, MC), "most runs are unfinished"),
            beside(lower_on(run, E1, LIX_N, MC)),
        ),
        reading=TOLERANCE_READING,
    )


@CLAIMS.tested(105, "4619", (E2,))
def below_sic(run: Run) -> Finding:
    """After termination, the regret of DLC and DLC-LIX perform significantly better than SIC-MMAB"""
    return Finding(
        (
            lower_on(run, E2, DLC, SIC),
            lower_on(run, E2, LIX, SIC),
            beside(lower_on(run, E2, DLC_N, SIC)),
            beside(lower_on(run, E2, LIX_N, SIC)),
        ),
        summary="DLC-LIX is below SIC-MMAB; DLC, whose other players idle while one learns, is not.",
    )


@CLAIMS.tested(106, "4619", (E2, *GAPS))
def worse_at_first(run: Run) -> Finding:
    """DLC does not allow non-Leader to play arm in every round [...] leading to more regret in initial rounds. In
    contrast, DLC-LIX [...] leads to lower regret but more sample needed for learning"""

    def early(second: str, name: str, r: Results) -> Part:
        at = r.values(DLC).shape[1] // 50 - 1
        a, b = r.values(DLC)[:, at], r.values(second)[:, at]
        return above(f"DLC above {second} at first on {name}", a - b, note=f"{a.mean():.4g}, {b.mean():.4g}")

    parts = [part for second in (SIC, LIX) for part in each(run, [E2], partial(early, second))]
    parts.append(lower_on(run, E2, LIX, DLC))
    samples = each(run, GAPS, lambda name, r: _test_later(f"more samples on {name}", r, LIX, DLC))
    sharper = each(
        run, GAPS, lambda name, r: beside(_test_later(f"more samples on {name}, eps/N", r, LIX_N, DLC_N))
    )
    return Finding(
        (*parts, *samples, *sharper),
        summary="Samples are the rounds until all have settled. DLC-LIX searches for the best free arm repeatedly, "
        "DLC once for the N best: which takes longer depends on the means.",
    )


def _test_later(name: str, results: Results, first: str, second: str) -> Part:
    a, b = last(results, first, "settled_at"), last(results, second, "settled_at")
    margin = 0.05 * max(a.mean(), b.mean())
    return above(name, a - b, a - b - margin, f"{first} {a.mean():.4g}, {second} {b.mean():.4g}")


@CLAIMS.tested(115, "4678", COMPARE)
def chairs_collide_more(run: Run) -> Finding:
    """The collisions in MC are much higher than DLC and DLC-LIX"""
    return Finding(
        tuple(
            times(f"{MC} above ten times {policy} on {name}", r, MC, policy, 10.0, "collisions")
            if r is not None
            else skipped(f"{policy} on {name}")
            for name, r in ((short(name), run.get(name)) for name in COMPARE)
            for policy in (DLC, LIX, DLC_N, LIX_N)
        ),
        summary="Much higher is read as more than ten times.",
    )
