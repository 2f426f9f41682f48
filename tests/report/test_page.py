"""The page: self-contained, safe against what stands in labels, and drawn by a real browser."""

import json
import math
import re
import shutil
import subprocess

import numpy as np
import pytest

from weakfeedback import Results
from weakfeedback.cascade import CascadeProblem
from weakfeedback.report.interactive import curves
from weakfeedback.report.page import Claim, Section, write_report
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
    """A page over two experiments, with claims of every kind."""
    words = ("reproduced", "with-reading", "not-reproduced", "inconclusive", "skipped")
    claims = [Claim(f"claimed {word}", word, "a test", k) for k, word in enumerate(words, 1)]
    first = Section(
        "one", "Experiment one", results_of(["A", "B", EVIL]), claims=claims, notes=["a deviation"]
    )
    second = Section("two", "Experiment two", results_of(["only"], replications=1))
    paths = write_report(tmp_path / "report", "Both", [first, second])
    assert [path.name for path in paths] == ["index.html", "one.png", "one.svg", "two.png", "two.svg"]
    return paths[0]


def test_the_page_needs_nothing_else(page):
    text = page.read_text()
    library = re.search(r"<script>(/\*\*\s*\* plotly.*?)</script>", text, re.DOTALL)
    assert text.count("* plotly.js v") == 1
    own = text.replace(library.group(1), "")
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)([^"']+)""", own) == [
        "one.png",
        "one.svg",
        "two.png",
        "two.svg",
    ]
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)", own)
    assert "alert(1)</script>" not in own
    for word in ("Experiment one", "1 inconclusive", "claimed skipped", "a deviation", "seed 7"):
        assert word in own


def test_the_same_results_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_report(tmp_path / name, "T", [Section("x", "T", results_of(["A", "B"]))])
    for name in ("index.html", "x.png", "x.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_figure_has_means_bands_and_a_label_for_each_policy():
    results = results_of(["A", "B"])
    figure = json.loads(json.dumps(curves(results), allow_nan=False))
    bands, lines = figure["data"][:2], figure["data"][2:]
    rows = results.curve()
    for label, band, line in zip(["A", "B"], bands, lines):
        own = rows[rows["policy"] == label]
        assert line["y"] == pytest.approx(own["mean"].tolist(), rel=1e-5)
        assert [low for low, _ in line["customdata"]] == pytest.approx(own["low"].tolist(), rel=1e-5)
        assert band["y"] == pytest.approx([*own["high"], *own["low"][::-1]], rel=1e-5)
        assert band["fillcolor"] != line["line"]["color"]
    assert sorted(label["text"] for label in figure["layout"]["annotations"]) == ["A", "B"]
    assert len({line["line"]["color"] for line in lines}) == 2


def test_labels_that_end_together_are_moved_apart():
    labels = curves(results_of(["A", "B", "C", "D"]))["layout"]["annotations"]
    heights = sorted(label["y"] for label in labels)
    top = curves(results_of(["A", "B", "C", "D"]))["layout"]["yaxis"]["range"][1]
    assert min(np.diff(heights)) > 0.06 * top


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


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Claim("words", "confirmed"), "verdict"),
        (lambda: Section("../x", "t", results_of(["A"])), "key"),
        (lambda: write_report(None, "t", []), "sections"),
    ],
)
def test_wrong_parts_are_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()


PROBE = """<body style="margin:0"><iframe id="f" src="{page}" style="width:360px;height:800px;border:0"></iframe>
<script>
document.getElementById("f").onload = function () {{
  var page = this.contentDocument;
  setTimeout(function () {{
    var table = page.querySelector("table.sortable"), order = function () {{
      return Array.from(table.tBodies[0].rows).map(function (row) {{ return Number(row.cells[1].dataset.value); }});
    }};
    var found = {{
      wide: page.documentElement.scrollWidth, charts: page.querySelectorAll(".chart").length,
      drawn: page.querySelectorAll(".chart .main-svg .scatterlayer .trace").length, alerts: 0
    }};
    var mean = table.querySelectorAll("th button")[1];
    mean.click(); found.up = order(); mean.click(); found.down = order();
    document.title = JSON.stringify(found);
  }}, 1500);
}};
</script>"""


def test_a_browser_draws_sorts_and_does_not_scroll_sideways(page, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine")
    (tmp_path / "probe.html").write_text(PROBE.format(page=page.as_uri()))
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    flags += " --disable-background-networking --disable-component-update --allow-file-access-from-files"
    words = [browser, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=8000"]
    words += ["--enable-logging=stderr", "--dump-dom", (tmp_path / "probe.html").as_uri()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr[-2000:]
    found = json.loads(title.group(1))
    assert found["wide"] <= 360
    assert found["charts"] == 2
    assert found["drawn"] == 3 + 3 + 1  # bands and lines of three policies; one line without a band
    assert len(found["up"]) == 3
    assert found["up"] == sorted(found["up"])
    assert found["down"] == found["up"][::-1]
    assert not re.search(r"CONSOLE.*(Error|error)", done.stderr)
