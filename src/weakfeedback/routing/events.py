"""Routing by events: a run jumps from comparison to comparison, with the same counts as playing every round.

A policy can be played this way if it knows for how many rounds one model will be called alone, whatever the samples
are. In these rounds nothing is learned. The generator of the world jumps over their draws, so that all other rounds
have the rows of the plain loop, and all counts are the same to the bit.
"""

import math
from typing import Any

import numpy as np

from weakfeedback.contract.typing import Rng
from weakfeedback.routing.world import TableWorld


def play_events(
    policy: Any,
    world: Any,
    world_rng: Rng,
    rng: Rng,
    marks: np.ndarray,
    counts: np.ndarray,
    table: np.ndarray,
) -> int:
    """Play up to the round ``marks[-1]`` as ``play.play`` does; return 0.

    Draws: as in ``play.play``; the generator jumps over those of quiet rounds.
    """
    K = counts.size // 2
    seen = np.zeros(K, dtype=np.int64)
    world.begin(world_rng)
    t, m, horizon = 0, 0, int(marks[-1])
    while t < horizon:
        quiet = policy.quiet(int(marks[m]) - t)
        if quiet > 0:
            pass_by(world, world_rng, quiet)
            answer = policy.settled()
            policy.rest(quiet)
            counts[answer] += quiet
            counts[K + answer] += quiet
            t += quiet
        else:
            row = world.draw(world_rng)
            call = policy.select(rng)
            policy.start(call, rng)
            shown = world.show(row, call, seen)
            policy.update(call, seen[:shown], rng)
            counts[:K] += call
            counts[K + np.flatnonzero(call)[-1]] += 1
            t += 1
        if t == marks[m]:
            table[m] = counts
            m += 1
    return 0


def pass_by(world: Any, rng: Rng, rounds: int) -> None:
    """Jump over the draws of ``rounds`` rounds: a law draws one number in each, a data set none."""
    if isinstance(world, TableWorld):
        world.served = (world.served + rounds) % world.order.size
    else:
        bits: Any = rng.bit_generator  # PCG64, which can jump
        bits.advance(rounds)


def added(total: float, amount: float, times: int) -> float:
    """Return ``total`` after ``amount`` was added to it ``times`` times, one by one and rounded each time.

    Between two powers of two all additions but the first round in the same way: the difference is a whole number of
    units in the last place, and where the rounding is a tie, the sum is even from then on.

    >>> total = 0.0
    >>> for _ in range(1000):
    ...     total += 0.1
    >>> added(0.0, 0.1, 1000) == total, total
    (True, 99.9999999999986)
    """
    while times > 0:
        before, total, times = total, total + amount, times - 1
        if total == before:
            return total
        power = math.frexp(total)[1]
        step = (total + amount) - total
        if step > 0.0 and math.frexp(before)[1] == power < 1024:
            more = min(times, int((math.ldexp(1.0, power) - total) / step) - 2)
            if more > 0:
                total, times = total + more * step, times - more
    return total
