"""Reports as tables and pictures, as notebooks show them."""

import dataclasses
import math

import numpy as np
import pytest
from tests.live.kinds import KINDS, play
from tests.rig.processes import printed

from weakfeedback.live import Allocator, Cascade, Router
from weakfeedback.words import Words

ROWS = {
    "Cascade": ("stage", 3, "arm_shares"),
    "Adaptive": ("stage", 3, "stopped"),
    "ContextualCascade": ("stage", 3, "arm_shares"),
    "Allocator": ("arm", 4, "mean_allocation"),
    "Player": ("arm", 4, "plays"),
}


def router():
    """A router of two models that always agree."""
    found = Router([str, str], prices=[1, 20], error_cost=200, seed=1)
    for k in range(5):
        found(k)
    return found


@pytest.fixture(scope="module", params=[*ROWS, "Router"])
def shown(request):
    if request.param == "Router":
        return router().report(), ("model", 2, "answers")
    kind = KINDS[request.param]
    thing = kind.make()
    play(kind, thing, 5)
    return thing.report(), ROWS[request.param]


def test_a_table_has_a_row_for_each_and_the_fields_of_the_report(shown):
    report, (row, size, drawn) = shown
    table = report.to_frame()
    assert (table.index.name, len(table)) == (row, size)
    assert set(table.columns) >= {drawn}
    for name in set(table.columns) & set(vars(report)):
        values = np.array(getattr(report, name), dtype=float)
        np.testing.assert_array_equal(table[name].to_numpy(dtype=float)[size - len(values) :], values)
    for name in ("intervals", "bounds"):
        if f"{name}_low" in table:
            np.testing.assert_array_equal(
                table[[f"{name}_low", f"{name}_high"]].to_numpy(), getattr(report, name)
            )


def test_a_picture_has_a_bar_for_each(shown):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    report, (row, size, drawn) = shown
    ax = report.plot(Figure().subplots())
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx(np.nan_to_num(np.array(getattr(report, drawn), dtype=float)))
    assert len(heights) == size
    assert (ax.get_xlabel(), ax.get_ylabel()) == (row, drawn.replace("_", " "))


def test_a_notebook_shows_the_first_line_and_the_table(shown):
    report, (_, size, drawn) = shown
    text = report._repr_html_()
    assert str(report).splitlines()[0] in text
    assert drawn in text
    assert text.count("<tr") == size + 2  # the heads of columns and rows


def test_steps_between_stages_stand_in_the_row_of_the_later_one():
    kind = KINDS["Adaptive"]
    thing = kind.make()
    play(kind, thing, 5)
    table = thing.report().to_frame()
    assert math.isnan(table["changed"].iloc[0])
    assert table["changed"].iloc[1:].tolist() == thing.report().changed.tolist()


def test_a_promise_shows_its_words_and_the_models_beside_the_reference():
    found = Cascade([str, str, str], [1, 4, 20], agree=0.95, names=["small", "medium", "large"], seed=1)
    for k in range(60):
        found(k)
    report = found.report()
    table = report.to_frame()
    assert table.index.tolist() == ["small", "medium"]
    assert table["price"].tolist() == [1, 4]
    assert table["compared"].min() >= 50
    assert table["differs"].tolist() == [0, 0]
    text = report._repr_html_()
    assert "Promise: at least 95 % of the answers as from large." in text
    assert "<br>" in text
    assert "medium" in text.partition("<table")[2]


def test_names_are_the_rows_and_no_markup():
    report = Allocator(["<b>north</b>", "south"], 1.0, "CSB-SU", seed=1).report()
    assert report.to_frame().index.tolist() == ["<b>north</b>", "south"]
    assert "<b>" not in report._repr_html_()
    named = dataclasses.replace(router().report(), words=Words("model", ("small", "large")))
    assert named.to_frame().index.tolist() == ["small", "large"]


def test_no_report_loads_pandas_or_matplotlib_before_it_is_asked():
    code = "import sys, weakfeedback.live.report, weakfeedback.live.router_report as r; print('pandas' in sys.modules)"
    assert printed("-c", code).strip() == "False"
