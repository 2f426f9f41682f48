"""A reproduction plays everything once, on one executor, finds it again, and judges what it has."""

import dataclasses
import json
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.reproduce.tiny import made, tiny  # noqa: F401

import weakfeedback
from weakfeedback.engine.replication import run
from weakfeedback.experiments import run_experiment
from weakfeedback.experiments.run import plan_experiment
from weakfeedback.reproduce import registry
from weakfeedback.reproduce.findings import ASIDE, Findings, code_digest, digest_of
from weakfeedback.reproduce.pool import Pool
from weakfeedback.reproduce.progress import Lines, View
from weakfeedback.reproduce.registry import choose, pattern, replications
from weakfeedback.reproduce.run import rebuild, reproduce
from weakfeedback.reproduce.stored import NOTE, Manifest, NotAReproduction, rows_of

RUN = ["ch9-one", "ch9-sweep-0.2", "ch9-sweep-0.3", "ch9-sweep-0.5", "ch9-stand"]


@pytest.fixture
def out(tiny, made, tmp_path):  # noqa: F811
    """A folder that a quick reproduction of the tiny chapter has left."""
    return shutil.copytree(made.paths[0].parents[1], tmp_path / "out")


def rows(folder, name):
    """The numbers of an experiment, without its labels."""
    return pd.read_parquet(rows_of(folder, name)).drop(columns=["experiment", "instance", "parameters"])


def test_quick_is_a_tenth_but_at_least_five(tiny):  # noqa: F811
    some = tiny.EXPERIMENTS["ch9-one"]
    assert [replications(some, quick) for quick in (False, True)] == [60, 6]
    assert replications(dataclasses.replace(some, replications=20), True) == 5
    assert replications(dataclasses.replace(some, replications=500), True) == 50


def test_results_are_those_of_each_experiment_alone(tiny, made, out):  # noqa: F811
    assert list(made.results) == RUN
    for name in RUN:
        alone = run_experiment(tiny.EXPERIMENTS[name], replications=6).frame
        assert rows(out, name).equals(alone)
    labelled = pd.read_parquet(rows_of(out, "ch9-stand"))
    assert set(labelled["experiment"]) == {"ch9-stand"}
    assert set(labelled["instance"]) == {"bc3-1"}
    assert json.loads(labelled["parameters"].iloc[-1])["alpha"] == 0.5


def test_verdicts_rest_on_what_was_run(made):  # noqa: F811
    outcomes = {claim.number: verdict for claim, verdict in made.verdicts}
    assert outcomes[2].outcome == "reproduced"
    assert outcomes[3].outcome == "skipped"
    parts = {part.name: part for part in outcomes[1].parts}
    assert parts["ch9-none"].outcome == "skipped"
    assert "stand-in bc3-1 for pima-1" in parts["ch9-stand"].note
    assert list(made.note.skipped) == ["ch9-none"]
    assert made.note.data == {"pima": "", "heart": ""}


def test_a_second_run_plays_and_asks_nothing_and_writes_the_same(tiny, tmp_path, monkeypatch):  # noqa: F811
    done = reproduce([], tmp_path / "out", quick=True, quiet=True)
    assert done.played == 10  # one chunk for each of two policies on five problems
    assert sorted(tiny.asked) == [1, 2]
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    monkeypatch.setattr("weakfeedback.report.pictures.draw", None)  # nor is a figure drawn again
    again = reproduce([], tmp_path / "out", quick=True, quiet=True)
    assert again.played == 0
    assert sorted(tiny.asked) == [1, 2]
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_the_page_is_built_again_from_the_folder_alone(made, out):  # noqa: F811
    paths = [out / path.relative_to(made.paths[0].parents[1]) for path in made.paths]
    page = paths[0].read_bytes()
    paths[0].unlink()
    assert list(rebuild(out).paths) == paths
    assert paths[0].read_bytes() == page


def test_more_replications_do_not_serve_the_old_numbers(tiny, out):  # noqa: F811
    full = reproduce(["ch9-one"], out, quiet=True)
    assert full.played == 2
    assert tiny.asked.count(1) == 1
    alone = run_experiment(tiny.EXPERIMENTS["ch9-one"])
    assert full.results["ch9-one"].final().equals(alone.final())


def test_damaged_rows_are_made_again_from_the_chunks(out):
    path = rows_of(out, "ch9-one")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    assert reproduce([], out, quick=True, quiet=True).played == 0
    assert path.read_bytes() == whole


def test_a_bit_that_fell_over_in_the_rows_is_found_too(out):
    path = rows_of(out, "ch9-one")
    whole = path.read_bytes()
    regret = pq.read_metadata(path).row_group(0).column(3)
    at = regret.data_page_offset + regret.total_compressed_size // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(NotAReproduction, match=r"cannot load results from .*damaged"):
        rebuild(out).results["ch9-one"]
    assert reproduce([], out, quick=True, quiet=True).played == 0
    assert path.read_bytes() == whole


def test_exchanged_rows_are_refused(out):
    one, two = (rows_of(out, name) for name in RUN[:2])
    one.write_bytes(two.read_bytes())
    with pytest.raises(NotAReproduction, match="has the results of something else"):
        rebuild(out).results["ch9-one"]


def test_a_finding_is_kept_for_the_same_inputs_only(tiny, tmp_path):  # noqa: F811
    claim = tiny.CLAIMS[0]
    finding = claim.test({})
    first = Findings(tmp_path, {"ch9-one": "a"}, {"pima": ""})
    assert first.get(claim) is None
    assert repr(first.find(claim, dict)) == repr(finding)
    same = Findings(tmp_path, {"ch9-one": "a", "another": "x"}, {"pima": ""}).get(claim)
    assert repr(same) == repr(finding)  # NaN is not equal to itself
    assert Findings(tmp_path, {"ch9-one": "b"}, {"pima": ""}).get(claim) is None
    assert Findings(tmp_path, {"ch9-one": "a"}, {"pima": "y"}).get(claim) is None
    (tmp_path / "claim-1.json").write_text("{")
    assert first.get(claim) is None


def test_only_some_experiments_bring_their_own_claims(tiny, tmp_path):  # noqa: F811
    some = reproduce(["ch9-sweep-*"], tmp_path / "out", quick=True, quiet=True)
    assert [claim.number for claim, _ in some.verdicts] == [1]
    assert "verdicts rest on these alone" in some.paths[0].read_text()


@pytest.mark.parametrize("words", [["ch9"], ["chapter9"], ["9"], ["ch9-*"], []])
def test_words_for_a_whole_chapter(tiny, words):  # noqa: F811
    assert choose(words).ids == set(tiny.EXPERIMENTS)
    assert choose(words).claims(registry.chapters()[0]) == list(tiny.CLAIMS)


def test_unknown_words_are_answered_with_near_ones(tiny):  # noqa: F811
    for word, hint in (("ch9-oen", "ch9-one"), ("sweep", r"\*sweep\*"), ("ch8", "ch9"), ("qqq", "--list")):
        with pytest.raises(ValueError, match=f"experiment '{word}' is not known; .*{hint}"):
            choose(["ch9-one", word])


def test_patterns_choose_exactly_what_they_stand_for(tiny):  # noqa: F811
    assert pattern([name for name in RUN if "sweep" in name]) == ["ch9-sweep-0.*"]
    for ids in (["ch9-one"], RUN, RUN[1:3], list(tiny.EXPERIMENTS)):
        assert choose(pattern(ids)).ids == set(ids)


class Held(ThreadPoolExecutor):
    """Plays nothing before tasks of two experiments have been handed over."""

    def __init__(self):
        super().__init__(2)
        self.waiting = []
        self.problems = set()

    def submit(self, function, task):
        future = Future()
        self.waiting.append((future, function, task))
        self.problems.add(id(task.problem))
        if len(self.problems) > 1:
            while self.waiting:
                self._play(*self.waiting.pop())
        return future

    def _play(self, future, function, task):
        super().submit(function, task).add_done_callback(lambda done: future.set_result(done.result()))


def test_the_next_experiment_is_handed_over_before_the_last_one_is_done(tiny, tmp_path):  # noqa: F811
    """A sequence of simulations would wait for ever here."""
    some = [tiny.EXPERIMENTS[name] for name in ("ch9-one", "ch9-sweep-0.2")]
    finished = []

    def plan(experiment):
        planned = plan_experiment(experiment, store=tmp_path)
        planned.plan.prepare()
        return planned

    view = View(dict.fromkeys([e.id for e in some], 1.0))
    with Held() as executor:
        Pool(executor, plan, lambda planned: finished.append(planned.experiment.id), view).play(some)
    assert sorted(finished) == sorted(e.id for e in some)
    assert (view.count, view.done) == (2, pytest.approx(2.0))


def test_an_error_ends_the_run_and_what_was_finished_stays(tiny, tmp_path, monkeypatch):  # noqa: F811
    played = []

    def failing(task):
        if len(played) == 3:
            raise RuntimeError("the lights went out")
        played.append(task)
        return run(task)

    monkeypatch.setattr("weakfeedback.reproduce.pool.run", failing)
    with pytest.raises(RuntimeError, match="lights"):
        reproduce([], tmp_path / "out", quick=True, workers=1, quiet=True)
    assert len(list((tmp_path / "out" / "store").rglob("*.parquet"))) == 3
    assert not (tmp_path / "out" / "report").exists()


def test_resuming_plays_only_what_is_missing(out):
    chunk = next((out / "store" / "ch9-one").glob("*.parquet"))
    chunk.unlink()
    whole = rows_of(out, "ch9-one").read_bytes()
    rows_of(out, "ch9-one").unlink()
    assert reproduce([], out, quick=True, quiet=True).played == 1
    assert rows_of(out, "ch9-one").read_bytes() == whole


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not the note"),
        ("[]", "is not the note"),
        ('{"format": 99}', "has format 99, this version reads 1"),
        ('{"format": 1}', "is not the note"),
    ],
)
def test_notes_of_others_are_refused(text, words, tmp_path):
    (tmp_path / NOTE).write_text(text)
    with pytest.raises(NotAReproduction, match=words) as caught:
        Manifest.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_experiment_of_another_version_is_refused(tiny, tmp_path):  # noqa: F811
    Manifest({"ch7-gone": "x"}, {}, {"pima": ""}, False, version="0.0.1").write(tmp_path)
    with pytest.raises(NotAReproduction, match=r"version 0\.0\.1, whose experiment ch7-gone"):
        rebuild(tmp_path)


def test_plain_lines_tell_how_far_it_is(tiny, capsys):  # noqa: F811
    import sys

    one, two = (tiny.EXPERIMENTS[name] for name in ("ch9-one", "ch9-stand"))
    view = Lines({one.id: 30.0, two.id: 90.0}, 2, sys.stdout)
    assert view.left() == pytest.approx(60.0, abs=1.0)  # two workers, 120 seconds of work
    view.begun(one, 2, 3)
    assert view.done == pytest.approx(10.0)
    view.advanced(one)
    view.advanced(one)
    view.finished(one)
    view.finished(two)
    assert view.left() == 0.0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] ch9-one, about ")
    assert last == "[2/2] ch9-stand"


def edited(path):
    """Add a line to a file."""
    path.write_text(path.read_text() + "\nEDITED = True\n")


def test_what_only_shows_numbers_can_be_edited_without_making_verdicts_stale(tmp_path):
    root = Path(weakfeedback.__file__).parent
    copy = tmp_path / "weakfeedback"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = digest_of(copy)
    assert before == code_digest()
    shown = [path for path in sorted(copy.rglob("*.py")) if path.relative_to(copy).parts[0] in ASIDE]
    assert copy / "cli" / "completion.py" in shown
    for path in shown:
        edited(path)
    (copy / "cli" / "new.py").write_text("NEW = True\n")
    assert digest_of(copy) == before
    for name in (
        "engine/loop.py",
        "kernels/knapsack.py",
        "thesis/chapter2/claims.py",
        "experiments/judge.py",
    ):
        edited(copy / name)
        after = digest_of(copy)
        assert after != before
        before = after
