"""The part of the benchmarks about stores: everything is measured, and missed goals are said."""

from benchmarks import stores


def test_all_ways_are_measured(server):
    found = stores.measure(repetitions=1, threads=6, seconds=0.1)
    assert found["skipped"] == ""
    assert set(found["ways"]) == {"SQLite", "PostgreSQL", "locked rows"}
    assert all(way["per_second"] > 0 for way in found["ways"].values())
    assert found["of_sqlite"]["value"] > 0


def test_missed_goals_are_said():
    ways = {name: {"per_second": 7} for name in ("SQLite", "PostgreSQL", "locked rows")}
    found = {"threads": 64, "skipped": "", "ways": ways}
    words = stores.text({**found, "over_locked_rows": {"value": 4.9}, "of_sqlite": {"value": 0.5}})
    assert "SELECT ... FOR UPDATE: 4.90, goal 5: MISSED" in words
    assert "SQLite: 0.50, goal 0.4\n" in words + "\n"
    assert "left out: there is none" in stores.text({**found, "skipped": "there is none"})
