"""The documentation builds, without network and without warnings, and says everything it must."""

import dataclasses
import html
import importlib
import json
import re
import shutil
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from weakfeedback.engine.results import Results
from weakfeedback.reproduce.registry import choose
from weakfeedback.reproduce.stored import Manifest, rows_of
from weakfeedback.settings.catalog import POLICIES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SETTINGS = ("cascade", "contextual", "adaptive", "routing", "allocation", "multiplayer")
SETTING_HEADINGS = [
    *(
        "Setting",
        "What is hidden",
        "What is seen",
        "Regret",
        "When it can be learned",
        "Arguments",
        "References",
    ),
]
ALGORITHM_HEADINGS = [
    *("The decision in words", "Pseudo-code and code", "Parameters and how to choose them", "Complexity"),
    *("Deviations from the thesis", "Our numbers", "References"),
]
PACKAGES = ("live", *SETTINGS, "datasets", "apps.radio")
ALGORITHMS = sorted(set((DOCS / "algorithms").glob("*.md")) - {
    *(DOCS / "algorithms" / name for name in ("index.md", "deviations-allocation.md")),
})  # fmt: skip
MEASURES = (
    "regret",
    "total_cost",
    "collisions",
    "optimal",
    "really_equivalent",
    "labels",
    "spent",
    "share",
    "differs",
    "errors",
)


def headings(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^## (.+)$", text, re.MULTILINE)


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_has_its_headings_and_its_drawing(setting):
    page = DOCS / "settings" / f"{setting}.md"
    assert headings(page) == SETTING_HEADINGS
    assert f"../drawings/{setting}.svg" in page.read_text()


@pytest.mark.parametrize("page", ALGORITHMS, ids=[page.stem for page in ALGORITHMS])
def test_an_algorithm_has_its_headings_and_numbers(page):
    assert headings(page) == ALGORITHM_HEADINGS
    assert "```{numbers}" in page.read_text()


def test_every_policy_of_the_catalogue_has_a_page(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "extensions")
    make_pages = importlib.import_module("policy_pages").make_pages
    for page in ALGORITHMS:
        shutil.copy(page, tmp_path)
    (tmp_path / "uss-ucb.md").unlink()
    found = make_pages(tmp_path)
    assert set(found) == {(setting, name) for setting, names in POLICIES.items() for name in names}
    assert found["cascade", "USS-TS"] == "uss-ts"
    assert found["cascade", "USS-UCB"] == "made/cascade-uss-ucb"  # its own page was taken away
    assert (
        "weakfeedback.cascade.policies.uss_ucb.UssUcb"
        in (tmp_path / "made" / "cascade-uss-ucb.md").read_text()
    )
    for page in found.values():
        assert (tmp_path / f"{page}.md").is_file()


BEYOND = (
    *("uss-wd", "uss-ts-drift", "q-uss", "uss-pd-ts", "uss-a", "uss-next"),
    *("csb-ts", "csb-ts-same", "csb-iso", "csb-ts-drift", "dlc-lix-early", "claims", "match", "selfish"),
)


@pytest.mark.parametrize("name", BEYOND)
def test_what_goes_beyond_the_thesis_says_that_no_bound_is_known(name):
    words = " ".join((DOCS / "algorithms" / f"{name}.md").read_text().split())
    assert "Not in the thesis; no bound is known." in words


@pytest.mark.parametrize("page", ALGORITHMS, ids=[page.stem for page in ALGORITHMS])
def test_names_beside_the_pseudo_code_are_those_of_the_code(page):
    text = page.read_text()
    table = text[text.index("## Pseudo-code and code") : text.index("## Parameters")]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("|")]
    files = re.findall(r"`([\w/]+\.py)`", rows[0][-1])
    assert files, "the heading must name the files"
    folder = ROOT / "src" / "weakfeedback" / files[0].split("/")[0] if "/" in files[0] else ROOT / "src"
    package = ROOT / "src" / "weakfeedback"
    sources = [*folder.rglob("*.py"), *package.glob("*.py"), *(package / "kernels").glob("*.py")]
    known = set(re.findall(r"\w+", "\n".join(path.read_text() for path in sources)))
    for row in rows[2:]:
        for code in re.findall(r"`([^`]+)`", row[-1]):
            missing = set(re.findall(r"[A-Za-z_]\w*", code)) - known - {"py", "loops", "linalg"}
            assert not missing, f"{code}: the code has no {missing}"


def shown():
    """The experiments that `make docs` plays for the pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        command = importlib.import_module("build").play_command(Path("somewhere"))
    return choose(command[command.index("--only") + 1 :]).experiments


def test_make_docs_plays_what_the_pages_show():
    played = {experiment.id for experiment in shown()}
    assert {"ch2-compare-bsc-1", "beyond-players-e2"} <= played
    assert "ch3-cost-heart-random-1" not in played  # dear, and on no page


def test_drawings_are_those_of_the_script(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    drawings = importlib.import_module("drawings")
    monkeypatch.setattr(drawings, "FOLDER", tmp_path)
    drawings.main()
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {path.name for path in (DOCS / "drawings").iterdir()}
    for name in names:
        assert (tmp_path / name).read_text() == (DOCS / "drawings" / name).read_text()


def invented(experiment, value):
    """Results of two replications and one mark, all equal to a number."""
    rows = [
        {"policy": label, "replication": r, "round": experiment.horizon, **dict.fromkeys(MEASURES, value)}
        for label in experiment.policies
        for r in range(2)
    ]
    about = {"horizon": experiment.horizon, "instance": experiment.instance, "stands_in_for": ""}
    frame = pd.DataFrame(rows).astype({"policy": pd.CategoricalDtype(list(experiment.policies))})
    return Results(frame, dict.fromkeys(experiment.policies, True), about)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder as a reproduction leaves it, with invented numbers: the k-th experiment has 7000 + k throughout."""
    folder = tmp_path_factory.mktemp("reproduction")
    for k, experiment in enumerate(shown()):
        rows_of(folder, experiment.id).parent.mkdir()
        invented(experiment, 7000.0 + k).save(rows_of(folder, experiment.id))
    note = Manifest({experiment.id: "invented" for experiment in shown()}, {}, {}, quick=True)
    note.write(folder)
    return folder


def build(out, results, fresh=True):
    command = [sys.executable, "docs/build.py", str(out), "--results", str(results)]
    command += ["--fresh"] if fresh else []
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_site(stored, tmp_path):
    """One test, because a build takes a while and tests are spread over processes."""
    site = tmp_path / "html"
    done = build(site, stored)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    needs_no_network_and_all_its_links_lead_somewhere(site)
    numbers_come_from_the_stored_results(site)
    equations_are_mathml(site)
    the_reference_has_every_public_name(site)
    search_ranks_by_the_scorer(site)
    the_side_has_the_titles_and_a_page_its_names(site)


def the_side_has_the_titles_and_a_page_its_names(site):
    page = (site / "api" / "live.html").read_text()
    side, names = (
        re.findall(r'<a [^>]*href="([^"]*)"', page.partition(f'class="{part}"')[2].partition("</div>")[0])
        for part in ("sidebar-tree", "toc-tree")
    )
    assert {"../settings/cascade.html", "../algorithms/uss-ts.html", "cascade.html", "#"} <= set(side)
    assert [link for link in side if "#" in link] == ["#"]
    assert {"#weakfeedback.live.Cascade", "#weakfeedback.live.Allocator.decide"} <= set(names)


def search_ranks_by_the_scorer(site):
    assert 'page.indexOf("howto/") === 0' in (site / "_static" / "language_data.js").read_text()


class Parts(HTMLParser):
    """What a page loads, the pages it links to, and its text."""

    def __init__(self, page):
        super().__init__()
        self.loads, self.links, self.ids = [], [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])
        elif tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.loads.append(given["src"])


def needs_no_network_and_all_its_links_lead_somewhere(site):
    pages = {page: Parts(page) for page in site.rglob("*.html")}
    assert len(pages) > 50
    for page, parts in pages.items():
        for target in parts.loads:
            assert not re.match(r"(https?:)?//", target), f"{page.name} loads {target}"
            assert (page.parent / target.split("?")[0]).exists(), f"{page.name}: {target}"
        for link in parts.links:
            path, _, anchor = link.partition("#")
            if re.match(r"\w+:", link):
                continue
            goal = (page.parent / path).resolve() if path else page
            assert goal.exists(), f"{page.name}: {link}"
            if anchor and goal.suffix == ".html":
                assert anchor in pages[site / goal.relative_to(site.resolve())].ids, f"{page.name}: {link}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", sheet.read_text())


def numbers_come_from_the_stored_results(site):
    known = [experiment.id for experiment in shown()]
    page = (site / "algorithms" / "uss-ts.html").read_text()
    assert f"{7000 + known.index('ch2-compare-bsc-1'):,}" in page
    words = html.unescape(re.sub(r"<[^>]+>", "", page))
    assert "weakfeedback reproduce --quick --only 'ch2-compare-*'" in words
    drawn = page.partition('class="curves"')[2].partition("</svg>")[0]
    assert 'aria-label="regret over rounds on compare-bsc-1"' in drawn
    assert "<svg" in drawn
    assert "USS-UCB" in drawn
    words = html.unescape(re.sub(r"<[^>]+>", " ", (site / "real-numbers.html").read_text()))
    money = (7000 + known.index("beyond-recorded-rafdb")) / 10_000 / 0.1  # a table of the reproduction
    assert f"rafdb, Promise, .95 {money:.4g}" in " ".join(words.split())
    assert "rafdb, FrugalML, as published, with 7,670 labels" in words


@pytest.mark.slow
def test_new_results_are_shown_without_being_asked(stored, tmp_path):
    site = tmp_path / "html"
    assert build(site, stored).returncode == 0
    assert "4,321" not in (site / "algorithms" / "supervised.html").read_text()
    experiment = next(one for one in shown() if one.id == "ch3-synthetic-3")
    invented(experiment, 4321.0).save(rows_of(stored, experiment.id))
    assert build(site, stored, fresh=False).returncode == 0
    assert "4,321" in (site / "algorithms" / "supervised.html").read_text()


def equations_are_mathml(site):
    page = (site / "settings" / "cascade.html").read_text()
    assert "<math" in page
    assert "$$" not in page


def the_reference_has_every_public_name(site):
    inventory = (site / "objects.inv").read_bytes()
    listed = zlib.decompress(inventory.split(b"\n", 4)[4]).decode()
    names = {line.split(" py:")[0] for line in listed.splitlines()}
    for package in PACKAGES:
        for name in importlib.import_module(f"weakfeedback.{package}").__all__:
            assert f"weakfeedback.{package}.{name}" in names
    for name in ("simulate", "Results", "InterpretedWarning"):
        assert f"weakfeedback.{name}" in names


def test_absent_results_stop_the_build_with_one_line(stored, tmp_path):
    done = build(tmp_path / "html", tmp_path / "nothing")
    assert done.returncode == 2
    assert re.fullmatch(r"docs: .*nothing.*No such file.*make docs.*\n", done.stderr)


BUILDS = """
import contextlib, io, json, sys
from pathlib import Path
sys.path.insert(0, "docs")
from build import build
found = []
for results in map(Path, sys.argv[1:]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = build(results.parent / "html", results, fresh=True)
    found.append((status, said.getvalue()))
print(json.dumps(found))
"""


def test_lacking_or_damaged_results_stop_the_build_with_one_line(stored, tmp_path):
    """Those of the first page that shows any, so that nothing is read in vain; one process for both builds."""
    lacking, damaged = tmp_path / "lacking", tmp_path / "damaged"
    for folder in (lacking, damaged):
        shutil.copytree(stored, folder)
    note = Manifest.read(stored)
    fewer = {name: key for name, key in note.keys.items() if name != "ch3-cost-pima-random-2"}
    dataclasses.replace(note, keys=fewer).write(lacking)
    rows_of(damaged, "ch3-cost-pima-random-1").write_text("nonsense")
    command = [sys.executable, "-c", BUILDS, str(lacking), str(damaged)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    (first, lacks), (second, broken) = json.loads(done.stdout)
    assert (first, second) == (2, 2)
    assert "no stored results of ch3-cost-pima-random-2" in lacks
    assert "ch3-cost-pima-random-1" in broken
    assert (lacks.count("\n"), broken.count("\n")) == (1, 1)


def test_what_the_extensions_say_of_numbers(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "extensions")
    directive = importlib.import_module("numbers_directive")
    row = {"mean": 131.43, "low": 124.0, "high": 138.7}
    assert directive.interval(row) == "131 (124 to 139)"
    assert directive.interval({"mean": 0.953, "low": 0.91, "high": 1.0}) == "0.95 (0.91 to 1.00)"
    assert directive.interval({"mean": 1.0, "low": np.nan, "high": np.nan}) == "1.00"
    assert directive.words("a, b") == ["a", "b"]
    assert directive.words("DLC, eps; SIC") == ["DLC, eps", "SIC"]
