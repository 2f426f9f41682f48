"""Play the first rounds of a user's own policy in the interpreter, before its compiled twin plays any.

An index past the end of an array would read or write foreign memory. Compiled code of the user
checks its indices (`compiler.lowering.checks_bounds`), but cannot say where the error is: the interpreter can. These
rounds are discarded, so results do not change; policies of this package are tested with bounds checks and play none.
"""

import time
import warnings
from typing import Any

import numpy as np

from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.replication import cast, fresh, streams
from weakfeedback.engine.store import code_of

ROUNDS = 4096  # maximum number of rounds, in steps that double
SECONDS = 0.5  # seconds after which no further step starts
OWN = "weakfeedback."
_tried: dict[tuple[Any, ...], int] = {}  # code and shapes -> rounds


def try_first_rounds(problem: Any, label: str, policy: Any, horizon: int, seed: int) -> None:
    """Raise the ``IndexError`` of the first rounds of a policy, if there is one; only once for the same code."""
    if type(policy).__module__.startswith(OWN):
        return
    try:
        shapes = tuple((name, np.shape(value)) for name, value in vars(policy).items())
        key = (code_of(problem, policy), problem.digest(), shapes)
    except CannotLower:  # a policy that is compiled has code that can be followed
        return
    rounds = min(horizon, ROUNDS)
    if _tried.get(key, 0) < rounds:
        _play(problem, label, policy, rounds, seed)
        _tried[key] = rounds


def _play(problem: Any, label: str, policy: Any, rounds: int, seed: int) -> None:
    loop = loop_for(problem, policy)
    width = len(loop.counters(problem))
    counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
    start, last, reached = time.monotonic(), 1, 0
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            arguments = (cast(problem, policy), fresh(problem.world()), *streams(problem, policy, seed, 0))
            while reached < rounds and time.monotonic() - start < SECONDS:
                reached = min(last, rounds)
                if loop.play(*arguments, np.array([reached]), counts, table):
                    return  # an impossible decision: the run itself will report it
                last *= 2
    except IndexError as error:
        error.add_note(f"while {label!r} played its first rounds in the interpreter, before it is compiled")
        raise
    except Exception:
        return  # the interpreter is stricter in other respects; the run itself will report any other error
