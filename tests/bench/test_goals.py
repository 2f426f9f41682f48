"""The script that measures goals: what it prints of those that are met and missed, and what it draws."""

from benchmarks import goals


def test_goals_that_are_missed_are_told(monkeypatch, capsys):
    found = {"A": lambda: iter([("one", True), ("two", None)]), "B": lambda: iter([("three", False)])}
    monkeypatch.setattr(goals, "GOALS", found)
    assert goals.main(["A"]) == 0
    assert goals.main([]) == 1
    assert capsys.readouterr().out.splitlines()[2:] == ["A met    one", "A        two", "B MISSED three"]
    assert goals.main(["C"]) == 1
    assert capsys.readouterr().err == "there is no goal C: A, B\n"


def test_a_family_has_weak_dominance_and_optimal_arms_everywhere():
    drawn = list(goals.family(1))
    assert [p.arms for p in drawn] == [3] * 18 + [4] * 12 + [5] * 3
    assert all(p.weak_dominance for p in drawn)
    assert all(goals.passing(p) == [p.optimal_arm] for p in drawn)
    assert {p.optimal_arm == p.arms - 1 for p in drawn} == {True, False}
