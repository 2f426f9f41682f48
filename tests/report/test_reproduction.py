"""The page of a reproduction: everything a reader needs stands on it, and a browser shows it."""

import dataclasses
import re
import shutil
import sys

import pytest
from tests.reproduce.tiny import installed, tiny  # noqa: F401
from tests.rig.chrome import chrome

from weakfeedback.experiments.evidence import decided
from weakfeedback.experiments.model import Finding
from weakfeedback.reproduce import page as reproduction
from weakfeedback.reproduce import registry
from weakfeedback.reproduce.headlines import FAILED, HELD, SURPRISED
from weakfeedback.reproduce.page import LARGEST
from weakfeedback.reproduce.run import rebuild, reproduce


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A quick reproduction of the tiny chapter, made once: tests look at its pages and leave them as they are."""
    with pytest.MonkeyPatch.context() as patch, installed(patch):
        return reproduce([], tmp_path_factory.mktemp("tiny") / "out", quick=True, quiet=True)


def pages_of(done):
    """The text of each page by name; pictures beside them are linked."""
    return {path.name: path.read_text() for path in done.paths if path.suffix == ".html"}


def test_there_is_a_summary_and_a_page_for_each_chapter(done):
    pages = pages_of(done)
    assert list(pages) == ["index.html", "ch9.html", "method.html", "code.html"]
    for text in pages.values():
        assert len(text.encode()) < LARGEST
        assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)|<script src|<link rel=.style", text)


def test_the_pages_show_words_tests_deviations_commands_and_tables(done):
    pages = pages_of(done)
    for name, some in {
        "index.html": (
            "USS-TS &lt;b&gt;is&lt;/b&gt; lower",
            "A tiny chapter",
            "A quick run",
            "Without the data of PIMA Indians Diabetes and Heart Disease (Cleveland)",
            "1 argued only",
            "What holds",
            "What does not",
        ),
        "ch9.html": (
            "USS-TS &lt;b&gt;is&lt;/b&gt; lower",
            "nice is a matter of taste",
            "A quick run",
            "Played on bc3-1 in place of pima-1",
            "ch9-none was not run",
            "Made up.",
            "weakfeedback reproduce --only &#39;ch9-sweep-0.*&#39; --quick",
            "weakfeedback reproduce --only ch9-one --quick",
            'href="code.html#code-weakfeedback-cascade-policies-uss-ts"',
            "seed 0",
        ),
        "method.html": ("corrected by Holm&#39;s method",),
        "code.html": ("class UssTs:", "weakfeedback/cascade/policies/uss_ts.py"),
    }.items():
        for words in some:
            assert words in pages[name], (name, words)
    row = r"<td>first</td><td data-value=\"0.5\">0.5</td><td data-value=\"0.25\">0.25</td>"
    assert re.search(row, pages["ch9.html"])
    shown = re.findall(r'id="code-([^"]+)"', pages["code.html"])
    assert shown
    assert all(name.startswith(("weakfeedback-", "tests-")) for name in shown)  # no library's


def held(done):
    return sum(verdict.outcome in ("reproduced", "with-reading") for _, verdict in done.verdicts)


def test_the_title_promises_no_more_than_was_found(done):
    title = re.search(r"<title>(.*?)</title>", pages_of(done)["index.html"]).group(1)
    assert title.endswith(f": {held(done)} of 3 claims reproduced")


def test_the_page_says_what_is_ours_and_what_remains_of_what_fails(tiny, done, tmp_path):  # noqa: F811
    text = pages_of(done)["ch9.html"]
    assert "<b>Ours:</b> The number two." in text
    assert "<b>What remains:</b>" not in text  # it holds
    wrong = dataclasses.replace(tiny.CLAIMS[1], test=lambda _run: Finding((decided("sum", False),)))
    sys.modules["weakfeedback.thesis.chapter9"].CLAIMS = (tiny.CLAIMS[0], wrong, tiny.CLAIMS[2])
    registry.chapter.cache_clear()
    again = reproduce([], tmp_path / "other", quick=True, quiet=True)
    assert {claim.number: v.outcome for claim, v in again.verdicts}[2] == "not-reproduced"
    text = pages_of(again)["ch9.html"]
    assert "<b>What remains:</b> Nothing, if it failed." in text
    assert "<b>Ours:</b> The number two." in text


def test_every_link_leads_somewhere(done):
    pages = pages_of(done)
    anchors = {name: re.findall(r' id="([^"]+)"', text) for name, text in pages.items()}
    links = 0
    for name, text in pages.items():
        assert len(anchors[name]) == len(set(anchors[name]))  # none twice
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if link.startswith("data:"):
                continue
            path, _, anchor = link.partition("#")
            assert (done.paths[0].parent / (path or name)).is_file(), link
            assert not anchor or anchor in anchors[path or name], link
            links += 1
    assert links > 40


def test_a_headline_is_told_only_of_a_run_that_shows_it():
    for headline in (*HELD, *FAILED, *SURPRISED):
        shown = dict.fromkeys(headline.claims, headline.outcomes[0])
        assert headline.true_of(shown)
        assert not headline.true_of({})
        for number in headline.claims:
            assert not headline.true_of({**shown, number: "inconclusive"})


def test_headlines_speak_of_claims_that_there_are():
    numbers = {claim.number for chapter in registry.chapters() for claim in chapter.claims}
    assert {number for one in (*HELD, *FAILED, *SURPRISED) for number in one.claims} <= numbers


def test_a_page_with_very_many_points_is_thinned_to_its_size(tiny, tmp_path, monkeypatch):  # noqa: F811
    whole = reproduce(["ch9-one"], tmp_path / "out", quick=True, quiet=True)
    size = len(pages_of(whole)["ch9.html"].encode())
    monkeypatch.setattr(reproduction, "LARGEST", size - 300)
    monkeypatch.setattr(reproduction, "POINTS", 20)
    small = pages_of(rebuild(tmp_path / "out"))["ch9.html"]
    assert len(small.encode()) <= size - 300
    assert '"kind":"curve"' in small


def test_pages_of_chapters_no_longer_asked_for_are_removed(tiny, done, tmp_path):  # noqa: F811
    folder = shutil.copytree(done.paths[0].parent, tmp_path / "report")
    (folder / "notes.html").write_text("mine")
    reproduction._remove_others(folder, set())
    assert not (folder / "ch9.html").exists()
    assert (folder / "notes.html").exists()  # nobody's but its owner's


def test_a_figure_for_each_experiment_and_one_for_a_sweep(done):
    names = {path.name for path in done.paths if path.suffix != ".html"}
    assert names == {
        f"{key}.{ending}"
        for key in ("ch9-one", "ch9-sweep-0.-by-step", "ch9-stand")
        for ending in ("png", "svg")
    }


SHOWN = """(() => {
  const table = document.querySelector("#ch9-one table.sortable"), mean = table.querySelectorAll("th button")[1];
  const order = () => Array.from(table.tBodies[0].rows, (row) => Number(row.cells[1].dataset.value));
  const [up, down] = [mean, mean].map((button) => { button.click(); return order(); });
  const ticks = Array.from(document.querySelectorAll("#ch9-figure-sweep .xtick"), (tick) => tick.textContent);
  window.scrollTo(0, 3000);
  return {up, down, ticks, contents: document.querySelector(".side").getBoundingClientRect().top};
})()"""


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_browser_shows_a_chapter(done, tmp_path, width):
    async with chrome(tmp_path) as tab:
        await tab.open(
            done.paths[1].as_uri(), width=width, height=12_000
        )  # charts are drawn when they are seen
        # a band and a line for two policies
        await tab.until_true("document.querySelectorAll('.chart .line, .chart .band').length === 3 * 4")
        assert await tab.run("document.querySelectorAll('.chart').length") == 3
        assert await tab.run("document.documentElement.scrollWidth") <= width
        found = await tab.run(SHOWN)
        assert not tab.complaints()
    assert any("−" in tick for tick in found["ticks"])  # the axis is what was swept, which begins below zero
    assert found["up"] == sorted(found["up"])
    assert found["down"] == found["up"][::-1]
    assert found["contents"] >= -1  # they stay in view


SEARCHED = """(() => {
  const chip = document.querySelector("#filter button[data-verdict='argued only']");
  const shown = () => document.querySelectorAll("#all-claims > li:not([hidden])").length;
  const search = document.getElementById("search");
  const type = (words) => { search.value = words; search.dispatchEvent(new Event("input")); return shown(); };
  const press = () => { chip.click(); return shown(); };
  return [shown(), press(), press(), ...["uss-ts LOWER", "four", "taste", "nowhere", ""].map(type)];
})()"""


@pytest.mark.parametrize("width", [390, 1280])
async def test_claims_can_be_searched(done, tmp_path, width):
    async with chrome(tmp_path) as tab:
        await tab.open(done.paths[0].as_uri(), width=width)
        await tab.until_true("document.readyState === 'complete'")
        assert await tab.run("document.documentElement.scrollWidth") <= width
        assert await tab.run("document.getElementById('contents').open") == (width == 1280)
        assert await tab.run(SEARCHED) == [3, 1, 3, 1, 1, 1, 0, 3]
        assert not tab.complaints()
