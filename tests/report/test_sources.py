"""A page shows the code that was stored with the results, and runs nothing that a folder names."""

import json
import sys

import pytest
from tests.report.test_page import results_of
from tests.reproduce.tiny import tiny  # noqa: F401
from tests.rig.processes import printed

from weakfeedback import Results, simulate
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.engine.sources import LONGEST, sources_of, stored_sources
from weakfeedback.experiments.userrun import report
from weakfeedback.reproduce.run import rebuild, reproduce

EVIL = "open('was_run', 'w').close()\nSECRET = 'a secret of this machine'\n"


class Mine:
    """A policy of somebody's own."""

    delay_safe = True

    def __init__(self, costs):
        self.K = len(costs)

    def select(self, rng):
        return 0

    def update(self, arm, outputs, rng):
        pass


def test_a_folder_cannot_make_report_run_its_code(tmp_path):
    results = results_of(["A", "B"])
    results.about |= {"code": {"A": "evil", "B": "this"}, "sources": {"evil": {"code": 3}, "this": None}}
    results.save(tmp_path / "results.parquet")
    (tmp_path / "evil.py").write_text(EVIL)
    out = printed("-m", "weakfeedback", "report", ".", cwd=tmp_path)
    assert not (tmp_path / "was_run").exists()
    page = (tmp_path / "report" / "index.html").read_text()
    assert "a secret of this machine" not in page
    assert "Zen of Python" not in out + page


def test_nor_can_the_folder_of_a_reproduction(tiny, tmp_path, monkeypatch):  # noqa: F811
    out = tmp_path / "out"
    reproduce(["ch9-one"], out, quick=True, quiet=True)
    path = out / "ch9-one" / "results.parquet"
    results = Results.load(path)
    results.about["code"] = {"UssTs": "evil_reproduced"}
    results.about["sources"] = {"evil_reproduced": {"title": "", "classes": [], "code": "words only <b>"}}
    results.save(path)
    (tmp_path / "evil_reproduced.py").write_text(EVIL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    page = "".join(path.read_text() for path in rebuild(out).paths if path.suffix == ".html")
    assert "evil_reproduced" not in sys.modules
    assert not (tmp_path / "was_run").exists()
    assert "words only &lt;b&gt;" in page
    assert "a secret of this machine" not in page


def test_the_text_of_policies_is_stored_and_shown(tmp_path):
    problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    policies = {"ours": UssTs(problem.costs), "mine": Mine(problem.costs)}
    results = simulate(problem, policies, horizon=10, replications=1, compiled=False)
    stored = results.about["sources"]
    assert set(stored) == {"weakfeedback.cascade.policies.uss_ts", __name__}
    assert stored["weakfeedback.cascade.policies.uss_ts"]["code"].startswith('"""')  # all of the module
    assert stored[__name__]["code"].startswith("class Mine:")  # of a user's file the class alone
    assert "EVIL" not in stored[__name__]["code"]
    results.save(tmp_path / "results.parquet")
    page = report(Results.load(tmp_path / "results.parquet"), tmp_path)[0].read_text()
    assert "class UssTs" in page
    assert "A policy of somebody&#39;s own." in page
    assert 'href="#code-weakfeedback-cascade-policies-uss-ts"' in page


HOSTILE = {
    "markup": ({"m": {"title": "<i>", "classes": [["<b>", "<u>"]], "code": "</pre><script>x"}}, ["m"]),
    "a name that is none": ({'"><script>': {"code": "x"}}, []),
    "not a mapping": ([1], []),
    "too long": ({"m": {"code": "x" * (LONGEST + 1)}}, []),
    "other kinds": ({"a": {"code": ["x"]}, "b": 3, "c": {"title": 1, "classes": "no", "code": "y"}}, ["c"]),
    "very many": ({f"m{k}": {"code": ""} for k in range(1000)}, [f"m{k}" for k in range(50)]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_stored_text_is_hostile(tmp_path, case):
    given, names = HOSTILE[case]
    given = json.loads(json.dumps(given))
    assert list(stored_sources({"sources": given})) == names
    results = results_of(["A"])
    results.about["sources"] = given
    page = report(results, tmp_path)[0].read_text()
    assert "<script>x" not in page
    assert ('<pre class="wrap">&lt;u&gt;</pre>' in page) == (case == "markup")


def test_a_class_without_a_file_has_words_but_no_code():
    made = type("Made", (Mine,), {"__doc__": "Made by hand.", "__module__": "nowhere"})
    assert sources_of([made([1.0])]) == {
        "nowhere": {"title": "", "classes": [["Made", "Made by hand."]], "code": ""}
    }
