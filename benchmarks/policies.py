"""What each policy costs in live use: to compile cold and cached, and per decision with its feedback, in CPU time.

``python -m benchmarks.policies`` prints the table of docs/howto/saving.md. Each policy is compiled in a process of its
own, first with an empty cache, then with what the first has left there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback import Scored
from weakfeedback.cli.warm_up import jobs, live_object

ROUNDS, REPETITIONS, SECONDS = 100, 5, 2.0
STAND_IN = ("Fixed", "Random")  # to compare with; nobody needs their times


def step_of(setting: str, live: Any) -> Callable[[int], None]:
    """One decision with its feedback, on invented outcomes."""
    rng = np.random.default_rng(1)
    labels = (rng.random((512, 3)) < [0.4, 0.25, 0.1]).astype(int).tolist()
    if setting == "cascade":

        def step(t: int) -> None:
            decision = live.decide()
            live.feedback(decision.id, labels[t % 512][: decision.arm + 1])

    elif setting == "contextual":
        contexts = rng.uniform(-1.0, 1.0, size=(512, 2))

        def step(t: int) -> None:
            decision = live.decide(contexts[t % 512])
            live.feedback(decision.id, labels[t % 512][: decision.arm + 1])

    elif setting == "adaptive":
        scores = rng.random((512, 3)).tolist()

        def step(t: int) -> None:
            told = live.begin()
            while told.answer is None:
                told = live.tell(
                    told.id, Scored(labels[t % 512][told.stage], scores[t % 512][told.stage]), told.stage
                )

    elif setting == "routing":

        def step(t: int) -> None:
            decision = live.decide()
            if len(decision.call) > 1:
                live.feedback(decision.id, [labels[t % 512][model] for model in decision.call])

    elif setting == "allocation":
        chances = rng.random((512, 4)) < [0.9, 0.7, 0.5, 0.3]
        rewards = live.report().setting == "reward"

        def step(t: int) -> None:
            decision = live.decide()
            enough = decision.allocation >= 0.5
            live.feedback(decision.id, (chances[t % 512] & (enough == rewards)).astype(float))

    else:
        heard = (rng.random((512, 5)) < [0.9, 0.75, 0.6, 0.45, 0.3]).astype(float)

        def step(t: int) -> None:
            arm = live.choose()
            live.observe(0.0 if arm < 0 else float(heard[t % 512, arm]), False)

    return step


def round_us(setting: str, live: Any) -> float:
    """CPU microseconds of a round: the best of some repetitions, after as many rounds for nothing."""
    step, t, taken = step_of(setting, live), 0, []
    begun = time.process_time()
    for repetition in range(REPETITIONS + 1):
        start = time.thread_time()
        for _ in range(ROUNDS):
            step(t)
            t += 1
        if repetition:
            taken.append((time.thread_time() - start) / ROUNDS * 1e6)
        if taken and time.process_time() - begun > SECONDS:
            break
    return min(taken)


def one(setting: str, policy: str) -> dict[str, float]:
    """Compile a policy here and now, and play it both ways."""
    start = time.process_time()
    live = live_object(setting, policy, compiled=True)
    taken = {"seconds": time.process_time() - start}
    taken["compiled"] = round_us(setting, live)
    taken["interpreted"] = round_us(setting, live_object(setting, policy, compiled=False))
    return taken


def apart(setting: str, policy: str) -> dict[str, float]:
    """The same in processes of their own: cold, then from the cache."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.policies", "--one", setting, policy]
        environment = {**os.environ, "WEAKFEEDBACK_CACHE": folder}
        cold, cached = (
            json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
            for _ in range(2)
        )
    best = {way: min(cold[way], cached[way]) for way in ("interpreted", "compiled")}
    return {"cold": cold["seconds"], "cached": cached["seconds"], **best}


def rounded(value: float) -> str:
    """Two digits.

    >>> rounded(1234.5), rounded(0.123), rounded(17.2)
    ('1200', '0.12', '17')
    """
    return f"{float(f'{value:.2g}'):g}"


def line(policy: str, setting: str, taken: dict[str, float]) -> str:
    """A row of the table."""
    cells = [rounded(taken[name]) for name in ("cold", "cached", "interpreted", "compiled")]
    return f"| {policy} | {setting} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or what one policy takes in this process."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policies", description=__doc__)
    parser.add_argument("--one", nargs=2, metavar=("SETTING", "POLICY"), help="as JSON, in this process")
    chosen = parser.parse_args(arguments)
    if chosen.one:
        print(json.dumps(one(*chosen.one)))
        return 0
    print("| policy | setting | compile, cold (s) | cached (s) | a round, interpreted (us) | compiled (us) |")
    print("|---|---|---|---|---|---|")
    for setting, policy in jobs():
        if policy not in STAND_IN and live_object(setting, policy, compiled=False) is not None:
            print(line(policy, setting, apart(setting, policy)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
