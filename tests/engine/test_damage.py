"""Damaged files of chunks and results: found, and never used."""

import json
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weakfeedback import Results, simulate
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
from weakfeedback.engine.plan import DamagedWarning, Plan
from weakfeedback.engine.tables import read_table, writer_of

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
OPTIONS = {"horizon": 400, "replications": 3, "marks": 20, "seed": 5}


def policies():
    return {"ts": UssTs(PROBLEM.costs), "ucb": UssUcb(PROBLEM.costs)}


def damaged(content, rng):
    """A file after an accident: bits flipped, a piece cut off, zeroed, inserted, deleted, exchanged or doubled."""
    kind = rng.integers(7)
    size = len(content)
    first, second = sorted(int(at) for at in rng.integers(0, size, 2))
    length = int(rng.integers(1, 60))
    if kind == 0:
        made = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            made[int(rng.integers(size))] ^= 1 << int(rng.integers(8))
        return bytes(made)
    if kind == 1:
        return content[:first]
    if kind == 2:
        return content[:first] + bytes(len(content[first : first + length])) + content[first + length :]
    if kind == 3:
        return content[:first] + rng.bytes(length) + content[first:]
    if kind == 4:
        return content[:first] + content[first + length :]
    if kind == 5:
        one, two = content[first : first + length], content[second : second + length]
        return content[:first] + two + content[first + length : second] + one + content[second + length :]
    return content[:second] + content[first:second] + content[second:]


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A store, and the results that were made with it."""
    folder = tmp_path_factory.mktemp("good") / "store"
    return folder, simulate(PROBLEM, policies(), store=folder, **OPTIONS)


def found_in(folder):
    """The chunks that a plan takes from a store by task, and the warnings."""
    plan = Plan(PROBLEM, policies(), store=folder, **OPTIONS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan.find()
    return plan._tables, caught


def check_chunks(good, tmp_path, count):
    folder, _ = good
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    right, caught = found_in(store)
    assert len(right) == 2
    assert not caught
    rng = np.random.default_rng(count)
    paths = sorted(store.glob("*.parquet"))
    refused = 0
    for k in range(count):
        path = paths[k % 2]
        content = path.read_bytes()
        path.write_bytes(damaged(content, rng))
        tables, caught = found_in(store)
        assert all(np.array_equal(table, right[at]) for at, table in tables.items())
        assert len(caught) == 2 - len(tables)
        assert all(path.name in str(warning.message) for warning in caught)
        refused += len(caught)
        path.write_bytes(content)
    assert refused > 0.7 * count  # some bytes say nothing about the rows: they load as they were


def test_a_damaged_chunk_is_never_used(good, tmp_path):
    check_chunks(good, tmp_path, 150)


@pytest.mark.slow
def test_none_of_very_many_damaged_chunks_is_used(good, tmp_path):
    check_chunks(good, tmp_path, 1500)


def check_results(good, tmp_path, count):
    path = tmp_path / "results.parquet"
    good[1].save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(count)
    refused = 0
    for _ in range(count):
        path.write_bytes(damaged(content, rng))
        words = ""
        try:
            loaded = Results.load(path)
        except ValueError as error:
            words = str(error)
        if words:
            assert words.startswith(f"cannot load results from {path}: ")
            assert "\n" not in words
            assert len(words) < 400
            refused += 1
        else:
            assert loaded.frame.equals(good[1].frame)
            assert loaded.about == good[1].about
            assert loaded.compiled == good[1].compiled
    assert refused > 0.7 * count


def test_damaged_results_are_never_used(good, tmp_path):
    check_results(good, tmp_path, 60)


@pytest.mark.slow
def test_none_of_very_many_damaged_results_is_used(good, tmp_path):
    check_results(good, tmp_path, 600)


def rewritten(path, change, **words):
    """Write a chunk again with other columns or words, and with a right digest."""
    table, known = read_table(path)
    writer_of(change(table), {**known, **words})(path)


def with_column(name, change):
    def replaced(table):
        values = change(table[name].to_numpy().copy())
        return table.set_column(table.column_names.index(name), name, pa.array(values))

    return replaced


def negative(values):
    values[0] = -1
    return values


FORGED = {
    "pulls below 0": (with_column("pulls_0", negative), {}),
    "other rounds": (with_column("round", lambda values: values + 1), {}),
    "other replications": (with_column("replication", lambda values: values[::-1].copy()), {}),
    "floats": (with_column("pulls_0", lambda values: values.astype(float)), {}),
    "a column too few": (lambda table: table.drop_columns(["pulls_1"]), {}),
    "a column too many": (lambda table: table.append_column("more", table["round"]), {}),
    "rows too few": (lambda table: table.slice(0, 5), {}),
    "the key of another task": (lambda table: table, {"key": "0" * 40}),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_chunk_is_made_again(good, tmp_path, case):
    change, words = FORGED[case]
    folder, results = good
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    path = sorted(store.glob("*.parquet"))[0]
    rewritten(path, change, **words)
    with pytest.warns(DamagedWarning, match=f"{path.name} is damaged or foreign, and made again") as caught:
        again = simulate(PROBLEM, policies(), store=store, **OPTIONS)
    assert len(caught) == 1
    assert again.frame.equals(results.frame)
    assert len(found_in(store)[0]) == 2


def test_chunks_that_were_exchanged_are_made_again(good, tmp_path):
    folder, results = good
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    one, two = sorted(store.glob("*.parquet"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.warns(DamagedWarning, match=f"{one.name}.*{two.name}|{two.name}.*{one.name}") as caught:
        again = simulate(PROBLEM, policies(), store=store, **OPTIONS)
    assert len(caught) == 1
    assert again.frame.equals(results.frame)


def test_another_label_finds_the_same_chunk(good, tmp_path):
    folder, results = good
    store = tmp_path / "store"
    shutil.copytree(folder, store)
    again = simulate(PROBLEM, {"other": UssTs(PROBLEM.costs)}, store=store, **OPTIONS)
    assert np.array_equal(again.values("other"), results.values("ts"))


def forged(path, change=lambda kept: kept, rows=lambda frame: frame):
    """Write results whose digest is right and whose contents are not."""
    table, words = read_table(path)
    kept = change(json.loads(words["weakfeedback"]))
    words["weakfeedback"] = kept if isinstance(kept, str) else json.dumps(kept)
    frame = rows(table.to_pandas())
    writer_of(pa.Table.from_pandas(frame, preserve_index=False), words)(path)


def without(name):
    return lambda kept: {**kept, "about": {k: v for k, v in kept["about"].items() if k != name}}


def put(**words):
    return lambda kept: {**kept, "about": {**kept["about"], **words}}


STRANGE = {
    "not JSON": (lambda kept: "{", None),
    "a list": (lambda kept: [1], None),
    "null": (lambda kept: None, None),
    "no about": (lambda kept: {"compiled": kept["compiled"]}, None),
    "no compiled": (lambda kept: {"about": kept["about"]}, None),
    "compiled a list": (lambda kept: {**kept, "compiled": ["ts"]}, None),
    "compiled of others": (lambda kept: {**kept, "compiled": {"x": True}}, None),
    "about a word": (lambda kept: {**kept, "about": "x"}, None),
    "no horizon": (without("horizon"), None),
    "horizon a word": (put(horizon="many"), None),
    "horizon huge": (put(horizon=10**400), None),
    "title a list": (put(title=[1]), None),
    "experiment a number": (put(experiment=3), None),
    "versions a list": (put(versions=[1]), None),
    "description a table": (put(description={"a": 1}), None),
    "sources a list": (put(sources=[1]), None),
    "rows missing": (None, lambda frame: frame.iloc[5:]),
    "a policy missing": (None, lambda frame: frame[frame["policy"] == "ts"]),
    "rows doubled": (None, lambda frame: frame.iloc[[*range(len(frame)), 0]]),
    "policies as text": (None, lambda frame: frame.astype({"policy": object})),
    "rounds as text": (None, lambda frame: frame.astype({"round": str})),
    "no regret": (None, lambda frame: frame.drop(columns="regret")),
    "nothing": (None, lambda frame: frame.iloc[:0]),
}


@pytest.mark.parametrize("case", STRANGE)
def test_strange_results_are_refused_in_one_line(good, tmp_path, case):
    path = tmp_path / "results.parquet"
    good[1].save(path)
    change, rows = STRANGE[case]
    forged(path, change or (lambda kept: kept), rows or (lambda frame: frame))
    with pytest.raises(ValueError, match="cannot load results from") as caught:
        Results.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_results_without_a_digest_are_refused(good, tmp_path):
    path = tmp_path / "results.parquet"
    good[1].save(path)
    pq.write_table(pq.read_table(path).replace_schema_metadata({"weakfeedback": "{}"}), path)
    with pytest.raises(ValueError, match="it has no digest"):
        Results.load(path)
