"""The page of a reproduction: everything a reader needs stands on it, and a browser shows it."""

import dataclasses
import re
import sys

import pytest
from tests.experiments.tiny import tiny  # noqa: F401
from tests.report.browser import probe

from weakfeedback.experiments.evidence import decided
from weakfeedback.experiments.model import Finding
from weakfeedback.reproduce import registry
from weakfeedback.reproduce.run import reproduce


@pytest.fixture
def done(tiny, tmp_path):  # noqa: F811
    """A quick reproduction of the tiny chapter."""
    return reproduce([], tmp_path / "out", quick=True, quiet=True)


def own_text(page):
    """The page without the library that is inlined, and without pictures."""
    text = re.sub(r"<script>/\*\*\s*\* plotly.*?</script>", "", page.read_text(), flags=re.DOTALL)
    return re.sub(r"base64,[^\"]*", "", text)


def test_the_page_shows_words_tests_deviations_commands_and_tables(done):
    text = own_text(done.paths[0])
    for words in (
        "USS-TS &lt;b&gt;is&lt;/b&gt; lower",
        "nice is a matter of taste",
        "A tiny chapter",
        "A quick run",
        "Without the data of PIMA Indians Diabetes and Heart Disease (Cleveland)",
        "Played on bc3-1 in place of pima-1",
        "ch9-none was not run",
        "Made up.",
        "weakfeedback reproduce --only &#39;ch9-sweep-0.*&#39; --quick",
        "weakfeedback reproduce --only ch9-one --quick",
        "corrected by Holm&#39;s method",
        'href="#code-weakfeedback-cascade-uss-ts"',
        "class UssTs:",
        "weakfeedback/cascade/policies/uss_ts.py",
        "seed 0",
        "1 argued only",
    ):
        assert words in text
    assert re.search(r"<td>first</td><td data-value=\"0.5\">0.5</td><td data-value=\"0.25\">0.25</td>", text)
    shown = re.findall(r'id="code-([^"]+)"', text)
    assert all(name.startswith(("weakfeedback-", "tests-")) for name in shown)  # no library's
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)", text)
    assert done.paths[0].read_text().count("* plotly.js v") == 1


def test_the_page_says_what_is_ours_and_what_remains_of_what_fails(tiny, done, tmp_path):  # noqa: F811
    text = own_text(done.paths[0])
    assert "<b>Ours:</b> The number two." in text
    assert "<b>What remains:</b>" not in text  # it holds
    wrong = dataclasses.replace(tiny.CLAIMS[1], test=lambda _run: Finding((decided("sum", False),)))
    sys.modules["weakfeedback.thesis.chapter9"].CLAIMS = (tiny.CLAIMS[0], wrong, tiny.CLAIMS[2])
    registry.chapters.cache_clear()
    again = reproduce([], tmp_path / "other", quick=True, quiet=True)
    assert {claim.number: v.outcome for claim, v in again.verdicts}[2] == "not-reproduced"
    text = own_text(again.paths[0])
    assert "<b>What remains:</b> Nothing, if it failed." in text
    assert "<b>Ours:</b> The number two." in text


def test_every_link_leads_somewhere(done):
    text = own_text(done.paths[0])
    anchors = set(re.findall(r' id="([^"]+)"', text))
    assert len(anchors) == len(re.findall(r' id="([^"]+)"', text))  # none twice
    for link in re.findall(r'href="([^"]+)"', text):
        if link.startswith("#"):
            assert link[1:] in anchors
        elif not link.startswith("data:"):
            assert (done.paths[0].parent / link).is_file()


def test_a_figure_for_each_experiment_and_one_for_a_sweep(done):
    names = {path.name for path in done.paths[1:]}
    assert names == {
        f"{key}.{ending}"
        for key in ("ch9-one", "ch9-sweep-0.-by-step", "ch9-stand")
        for ending in ("png", "svg")
    }


PROBE = """
found.charts = page.querySelectorAll(".chart").length;
found.drawn = page.querySelectorAll(".chart .main-svg .scatterlayer .trace").length;
found.ticks = Array.from(page.querySelectorAll("#ch9-figure-sweep .xtick text")).map(function (tick) {
  return tick.textContent;
});
var chip = page.querySelector("#filter button[data-verdict='argued only']");
var shown = function () { return page.querySelectorAll("#all-claims > li:not([hidden])").length; };
found.all = shown(); chip.click(); found.some = shown(); chip.click(); found.again = shown();
var table = page.querySelector("#ch9-one table.sortable"), order = function () {
  return Array.from(table.tBodies[0].rows).map(function (row) { return Number(row.cells[1].dataset.value); });
};
var mean = table.querySelectorAll("th button")[1];
mean.click(); found.up = order(); mean.click(); found.down = order();
"""


@pytest.mark.parametrize("width", [360, 1200])
def test_a_browser_shows_it(done, tmp_path, width):
    found = probe(done.paths[0], PROBE, tmp_path, width=width, height=12_000)
    assert found["wide"] <= width
    assert (found["charts"], found["drawn"]) == (3, 3 * 4)  # a band and a line for two policies
    assert any("−" in tick for tick in found["ticks"])  # the axis is what was swept, which begins below zero
    assert (found["all"], found["some"], found["again"]) == (3, 1, 3)
    assert found["up"] == sorted(found["up"])
    assert found["down"] == found["up"][::-1]
