"""The table, the file and the figure of the benchmarks, made from invented timings."""

import json

import pytest
from benchmarks import __main__ as command
from benchmarks import figure, table
from benchmarks.compare import Measured
from benchmarks.timing import Ratio, Timing, alternate, plain
from benchmarks.works import ROWS, Row

ROW = Row("USS-TS K=3", floor_at_most=1.5, fastest_at_least=20.0, peer_at_least={"SMPyBandits": 200.0})


def measured(ours=(100.0, 101.0, 99.0), river=(6000.0, 6100.0, 5900.0)):
    peers = {"River": Timing.of(list(river)), "SMPyBandits": Timing.of([9900.0] * 3)}
    return Measured(
        ROW,
        Timing.of(list(ours)),
        Timing.of([90.0, 90.0, 90.0]),
        peers,
        160.0,
        skipped={"MABWiser": "no wheel"},
    )


def test_best_median_and_spread():
    timing = Timing.of([120.0, 100.0, 110.0])
    assert (timing.best, timing.median) == (100.0, 110.0)
    assert timing.spread == pytest.approx(0.1)


def test_a_ratio_is_marked_when_one_of_the_two_is_unsteady():
    steady, unsteady = Timing.of([100.0, 110.0, 114.0]), Timing.of([100.0, 116.0, 120.0])
    assert not Ratio.of(steady, steady).marked
    assert Ratio.of(steady, unsteady).marked
    assert Ratio.of(unsteady, steady).marked
    assert str(Ratio.of(steady, unsteady)) == "1.00?"


def test_candidates_alternate_and_the_first_round_does_not_count():
    calls = []

    def candidate(name, first):
        def run():
            calls.append(name)
            return first if calls.count(name) == 1 else 10.0

        return run

    found = alternate({"a": candidate("a", 1e9), "b": candidate("b", 1.0)}, repetitions=2)
    assert calls == ["a", "b"] * 3
    assert found["a"].best == found["b"].best == 10.0


def test_the_goals_are_judged_by_the_fastest_peer_and_by_named_ones():
    goals = dict(measured().goals())
    assert list(goals.values()) == [True, True, False]
    assert [met for _, met in measured(ours=(400.0, 400.0)).goals()] == [False, False, False]


def test_the_table_shows_marks_and_reasons():
    words = table.text([measured(), measured(river=(6000.0, 9000.0, 9000.0))])
    first, second = (line for line in words.splitlines() if line.startswith("USS-TS"))
    assert "6.0 us (61?)" in second
    assert "5.9 us (60)" in first
    assert "skipped: MABWiser: no wheel" in words
    assert "MISSED USS-TS K=3: SMPyBandits" in words


def test_the_row_is_data():
    data = json.loads(json.dumps(measured().data()))
    assert data["peers"]["River"]["ratio"]["value"] == pytest.approx(5900 / 99, abs=1e-3)
    assert data["to_floor"] == plain(measured().to_floor)
    assert [goal["met"] for goal in data["goals"]] == [True, True, False]


def test_the_figure_is_drawn(tmp_path):
    paths = figure.draw([measured(), measured(ours=(50.0, 50.0))], tmp_path)
    assert paths[0].read_bytes()[:4] == b"\x89PNG"
    assert "SMPyBandits" in paths[1].read_text() or "<svg" in paths[1].read_text()


def test_the_command_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    asked = []

    def measure(row, repetitions, peers):
        asked.append((row.work, repetitions, peers))
        return measured()

    monkeypatch.setattr(command, "measure", measure)
    assert command.main(["--only", "USS-TS K=10", "--quick", "--no-peers", "--out", str(tmp_path)]) == 0
    assert asked == [("USS-TS K=10", 2, False), ("USS-TS K=100", 2, False)]
    told = json.loads((tmp_path / "bench.json").read_text())
    assert len(told["rows"]) == 2
    assert told["machine"]["cores"] >= 1
    assert (tmp_path / "bench.svg").exists()
    assert "USS-TS K=3" in capsys.readouterr().out


def test_a_row_that_does_not_exist_is_refused(tmp_path, capsys):
    assert command.main(["--only", "USS-XX", "--out", str(tmp_path)]) == 1
    assert "USS-TS K=3" in capsys.readouterr().err


def test_every_row_has_its_case():
    from benchmarks.cases import CASES

    assert [row.work for row in ROWS if row.work not in CASES] == []
    assert len(ROWS) == len({row.work for row in ROWS}) == len(CASES)
