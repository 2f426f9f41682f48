"""The page: self-contained, safe against what stands in labels, and drawn by a real browser."""

import json
import math
import re

import numpy as np
import pytest
from tests.rig.chrome import chrome
from tests.rig.refusals import refusals

from weakfeedback import Results
from weakfeedback.cascade import CascadeProblem
from weakfeedback.figures import curve_figure, look, plot_curves, sweep_figure
from weakfeedback.report.interactive import for_browser
from weakfeedback.report.page import Section, write_report
from weakfeedback.report.pictures import draw
from weakfeedback.report.tables import comparison_rows, final_rows, number, p_value

EVIL = "</script><script>alert(1)</script>"


def results_of(labels, replications=5):
    """Made-up counts: policy k stops at the wrong arm k + 1 times as often."""
    problem = CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.6, 0.4], costs=[0.1, 0.2])
    marks = np.array([10, 20, 40])
    rng = np.random.default_rng(0)
    counts = {}
    for k, label in enumerate(labels):
        wrong = np.cumsum(rng.integers(0, 3, (replications, marks.size)), axis=1) + k
        counts[label] = np.stack([wrong, marks - wrong], axis=-1)
    about = {"setting": "cascade", "problem": repr(problem), "horizon": 40, "seed": 7}
    return Results.from_counts(problem, counts, marks, dict.fromkeys(labels, True), about)


@pytest.fixture
def page(tmp_path):
    """A page over two experiments."""
    first = Section("one", "Experiment one", results_of(["A", "B", EVIL]), notes=["a deviation"])
    second = Section("two", "Experiment two", results_of(["only"], replications=1))
    paths = write_report(tmp_path / "report", "Both", [first, second])
    assert [path.name for path in paths] == ["index.html", "one.png", "one.svg", "two.png", "two.svg"]
    return paths[0]


def test_the_page_needs_nothing_else(page):
    text = page.read_text()
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)([^"']+)""", text) == [
        "one.png",
        "one.svg",
        "two.png",
        "two.svg",
    ]
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)", text)
    assert "alert(1)</script>" not in text
    assert len(text) < 200_000
    for word in ("Experiment one", "a deviation", "seed 7"):
        assert word in text


def test_the_same_results_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_report(tmp_path / name, "T", [Section("x", "T", results_of(["A", "B"]))])
    for name in ("index.html", "x.png", "x.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def browser_figure(results):
    return json.loads(json.dumps(for_browser(curve_figure(results)), allow_nan=False))


def test_the_figure_has_means_ends_and_a_label_for_each_policy():
    results = results_of(["A", "B"])
    figure = browser_figure(results)
    rows = results.curve()
    assert figure["x"] == [10, 20, 40]
    for label, series in zip(["A", "B"], figure["series"]):
        own = rows[rows["policy"] == label]
        for end in ("mean", "low", "high"):
            assert series[end] == pytest.approx(own[end].tolist(), rel=1e-4)
    assert [series["name"] for series in figure["series"]] == ["A", "B"]
    assert len({series["colour"] for series in figure["series"]}) == 2
    assert figure["range"][1] >= rows["high"].max()


def test_the_limit_is_a_dashed_line_below_the_top():
    results = results_of(["A", "B"])
    highest = results.curve()["high"].max()
    results.about["facts"] = {"limit": highest / np.log(40)}
    *_, line = browser_figure(results)["series"]
    assert (line["name"], line["dash"]) == ("limit c(P) log t", "dash")
    assert line["mean"] == pytest.approx(highest / np.log(40) * np.log([10, 20, 40]), rel=1e-4)
    assert len(browser_figure(results)["series"]) == 3
    assert len(curve_figure(results, "cost")["series"]) == 2
    assert b"limit c(P) log t" in draw(curve_figure(results))[1]
    results.about["facts"] = {"limit": 1.25 * highest / np.log(25)}  # what lies far above is left out
    assert browser_figure(results)["series"][-1]["mean"][2] is None
    for none in (0.0, 1e9):
        results.about["facts"] = {"limit": none}
        assert len(browser_figure(results)["series"]) == 2


def test_a_sweep_shows_final_values_against_what_was_swept():
    swept = {2.0: results_of(["A", "B"]), -1.0: results_of(["A"], replications=7)}
    figure = sweep_figure(swept, "gap")
    assert figure["x"] == [-1, 2]
    a, b = figure["series"]
    finals = [swept[x].final().loc["A"] for x in (-1.0, 2.0)]
    for end in ("mean", "low", "high"):
        assert a[end] == pytest.approx([row[end] for row in finals], rel=1e-4)
    assert b["mean"] == [None, pytest.approx(swept[2.0].final().loc["B", "mean"], rel=1e-4)]
    assert [part[:4] for part in draw(figure)] == [b"\x89PNG", b"<?xm"]


@pytest.mark.parametrize(("marks", "most"), [(3, 2), (200, 100), (201, 100), (199, 200)])
def test_long_curves_are_thinned_and_keep_their_end(marks, most):
    problem = CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.6, 0.4], costs=[0.1, 0.2])
    rounds = np.arange(1, marks + 1) * 10
    counts = np.stack([np.zeros(marks, dtype=int), rounds], axis=-1)[None].repeat(2, axis=0)
    results = Results.from_counts(
        problem, {"A": counts}, rounds, {"A": True}, {"horizon": 10 * marks, "seed": 0}
    )
    figure = curve_figure(results, points=most)
    assert marks / 2 / (marks / most + 1) < len(figure["x"]) <= most
    assert figure["x"][-1] == 10 * marks
    assert set(np.diff(figure["x"])) == {figure["x"][-1] - figure["x"][-2]}


def test_no_two_curves_of_a_figure_look_the_same():
    assert len({look(k) for k in range(14)}) == 14


@pytest.mark.parametrize("points", [1, 7, 100])
def test_a_figure_for_the_browser_can_be_thinned(points):
    figure = curve_figure(results_of(["A", "B"]))
    thinned = for_browser(figure, points)
    assert len(thinned["x"]) == min(points, 3)
    assert thinned["x"][-1] == 40
    for one, whole in zip(thinned["series"], figure["series"]):
        assert one["mean"] == whole["mean"][-len(thinned["x"]) :]


def words_of(ax):
    """The names of curves that a figure of matplotlib shows, with their boxes, and the box of the figure."""
    ax.figure.canvas.draw()
    texts = ax.texts if ax.get_legend() is None else ax.get_legend().get_texts()
    boxes = [text.get_window_extent() for text in texts]
    return ["".join(text.get_text().split()) for text in texts], boxes, ax.figure.bbox


@pytest.mark.parametrize(
    "labels", [["A", "B"], ["short", "long " * 30], [f"policy number {k}" for k in range(20)]]
)
def test_names_in_pictures_are_never_cut(labels):
    names, boxes, whole = words_of(plot_curves(results_of(labels)))
    assert sorted(names) == sorted("".join(label.split()) for label in labels)
    for box in boxes:
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert whole.y0 <= box.y0


def test_comparisons_are_paired_and_corrected_over_the_table():
    results = results_of(["A", "B", "C"])
    rows = {(row["first"], row["second"]): row for row in comparison_rows(results)}
    assert set(rows) == {("A", "B"), ("A", "C"), ("B", "C")}
    smallest = min(rows.values(), key=lambda row: row["p_value"])
    assert smallest["p_holm"] == pytest.approx(min(1.0, 3 * smallest["p_value"]))
    assert rows["A", "B"]["mean"] == pytest.approx(results.compare("A", "B").mean)
    assert final_rows(results)[2]["mean"] == pytest.approx(results.final()["mean"]["C"])


def test_numbers_are_short():
    assert [number(value) for value in (-1234.5, 0.0, 999.94, math.inf)] == ["−1,234", "0", "999.9", "∞"]
    assert [p_value(value) for value in (0.5, 0.05, math.nan)] == ["0.50", "0.05", "–"]


test_wrong_parts_are_refused = refusals(
    lambda make: make(),
    (lambda: Section("../x", "t", results_of(["A"])), "key"),
    (lambda: write_report(None, "t", []), "sections"),
)


SORTED = """(() => {
  const table = document.querySelector("table.sortable"), mean = table.querySelectorAll("th button")[1];
  const order = () => Array.from(table.tBodies[0].rows, (row) => Number(row.cells[1].dataset.value));
  return [mean, mean].map((button) => { button.click(); return order(); });
})()"""


async def test_a_browser_draws_sorts_and_does_not_scroll_sideways(page, tmp_path):
    async with chrome(tmp_path) as tab:
        await tab.open(page.as_uri(), width=360)
        # bands and lines of three policies; one line without a band
        await tab.until_true("document.querySelectorAll('.chart .line, .chart .band').length === 3 + 3 + 1")
        assert await tab.run("document.querySelectorAll('.chart').length") == 2
        assert await tab.run("document.documentElement.scrollWidth") <= 360
        up, down = await tab.run(SORTED)
        assert len(up) == 3
        assert (up, down) == (sorted(up), sorted(up, reverse=True))
        assert not tab.complaints()


LONG = ["USS-UCB with an exploration of its own", "a much longer name " * 6, "B"]
DRAWN = """(() => {
  const chart = document.querySelector(".chart"), whole = chart.getBoundingClientRect();
  const inside = Array.from(chart.querySelectorAll("svg text, .legend li")).every((name) => {
    const box = name.getBoundingClientRect();
    return box.left >= whole.left - 1 && box.right <= whole.right + 1;
  });
  return [chart.clientWidth, chart.querySelectorAll(".label, .legend li").length, inside];
})()"""
FITS = """(() => {
  const chart = document.querySelector(".chart"), svg = chart.querySelector("svg"), wide = chart.clientWidth;
  const drawn = svg && [svg.getBoundingClientRect().width, Number(chart.dataset.width)];
  return drawn !== null && drawn.every((width) => Math.abs(width - wide) <= 1);
})()"""


@pytest.mark.parametrize(("before", "after"), [(1200, 390), (390, 844)])
async def test_names_are_whole_and_a_turned_phone_draws_again(tmp_path, before, after):
    results = results_of(LONG)
    module = (
        "weakfeedback.allocation.policies.known_thresholds_of_all_arms"  # a link that is wider than a phone
    )
    results.about["sources"] = {module: {"title": "", "classes": [], "code": "pass"}}
    path = write_report(tmp_path / "report", "One", [Section("one", "One", results)])[0]
    async with chrome(tmp_path) as tab:
        await tab.open(path.as_uri(), width=before)
        widths = []
        for width in (before, after):
            await tab.resize(width, 800)
            await tab.until_true(f"innerWidth === {width} && {FITS}")
            drawn, names, inside = await tab.run(DRAWN)
            assert (names, inside) == (3, True)
            assert await tab.run("document.documentElement.scrollWidth") <= width
            widths.append(drawn)
        assert (widths[0] > widths[1]) == (before > after)
        assert not tab.complaints()
