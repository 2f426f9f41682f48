"""A day in some minutes: memory and times stay as they are after the first tenth, with the page open and scrapes."""

import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest
from tests.rig.harness import ALLOCATION, CASCADE, ROUTER, Caller, quick, run, serving
from tests.rig.pace import pace

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.page.routes import page_of

BATCH = 50


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is read from /proc, which is not here"
)
@pytest.mark.parametrize(
    # by then every learner has its last 1000 decisions, which can be explained
    ("learners", "rounds", "filled"),
    [(3, 8_000, 0.5), pytest.param(20, 1_000_000, 0.1, marks=pytest.mark.slow)],
)
def test_memory_and_times_stay_flat(learners, rounds, filled, tmp_path):
    sizes, times = run(live_through(tmp_path / "day.db", learners, rounds))
    begun = int(filled * len(sizes))
    assert max(sizes[begun:]) < 1.05 * sizes[begun]
    third = len(times) // 3
    early, late = (float(np.quantile(part, 0.99)) for part in (times[:third], times[-third:]))
    assert late < (3 * early + 0.005) * pace()


async def live_through(path: Path, learners: int, rounds: int) -> tuple[list[int], list[float]]:
    """Play rounds on some learners; how much memory was used, and how much CPU time decisions took."""
    rng = np.random.default_rng(0)
    kinds = (CASCADE, ROUTER, ALLOCATION)
    sizes, times = [], []
    async with serving(path, quick(durability="process")) as (service, _):
        auth = Auth()
        call = Caller(make_app(service, auth, **page_of(service, auth)))
        for k in range(learners):
            assert (await call("PUT", f"/v1/learners/l{k}", kinds[k % 3])).status == 201
        for step in range(rounds // BATCH):
            name = f"l{step % learners}"
            start = time.process_time()  # other programs may stop this one for a while
            told = await call("POST", f"/v1/learners/{name}/decide", {"count": BATCH})
            times.append(time.process_time() - start)
            assert told.status == 200, told.body
            items = []
            for decision in told.data["decisions"]:
                if "allocation" in decision:
                    items.append({"id": decision["id"], "observed": {}})
                elif len(decision["call"]) > 1:
                    outputs = [int(x) for x in rng.integers(0, 2, len(decision["call"]))]
                    items.append({"id": decision["id"], "outputs": outputs})
                elif (step % learners) % 3 == 0:  # a cascade that stops at its first stage
                    items.append({"id": decision["id"], "outputs": [1]})
            if items:
                answered = await call("POST", f"/v1/learners/{name}/feedback", {"items": items})
                assert answered.status == 200, answered.body
            if step % 20 == 0:
                for page in ("/", f"/learners/{name}", "/metrics", f"/v1/learners/{name}/report"):
                    assert (await call("GET", page)).status == 200, page
                sizes.append(resident())
    return sizes, times
