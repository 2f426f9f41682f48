"""The script that shows what CSB-MK does as printed: the negative control of the mended algorithm."""

import runpy
from functools import partial
from pathlib import Path

from weakfeedback import simulate

SCRIPT = Path(__file__).parents[2] / "docs" / "printed" / "csb_mk_as_printed.py"


def test_the_printed_algorithm_has_linear_regret(monkeypatch):
    compare = runpy.run_path(str(SCRIPT))["compare"]
    # interpreted: so few rounds take less time than compiling the faulty class
    monkeypatch.setitem(compare.__globals__, "simulate", partial(simulate, compiled=False))
    results = compare("IV", horizon=8000, replications=1)
    for policy, linear in (
        ("mended", False),
        ("only forgets", True),
        ("only exact", True),
        ("only carries", False),
        ("as printed", True),
    ):
        _, half, whole = results.values(policy).mean(axis=0)
        assert (whole - half > 0.4 * half) == linear, policy
    assert results.final("really_equivalent")["mean"]["mended"] == 1.0
    assert results.final("really_equivalent")["mean"]["as printed"] == 0.0
