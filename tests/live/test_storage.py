"""Files of saved states: exact, atomic, and refused as a whole when anything is wrong."""

import json
import math
import os
import stat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from weakfeedback.live import storage
from weakfeedback.live.storage import StateError


class Policy:
    """Fields of every kind that a policy may have."""

    def __init__(self):
        self.count = 3
        self.rate = 0.1
        self.flag = True
        self.bound = math.inf
        self.table = np.zeros((2, 3))
        self.marks = np.array([1, 2**62], dtype=np.int64)
        self.masks = np.array([True, False])
        self.empty = np.zeros((0, 2))


def through_json(data):
    return json.loads(json.dumps(data, allow_nan=False))


def test_fields_come_back_as_they_were():
    policy = Policy()
    policy.rate, policy.table[1, 2], policy.table[0, 0] = 1 / 3, -math.inf, 5e-324
    policy.count = np.int64(7)  # NumPy numbers creep in by arithmetic
    policy.flag = np.bool_(False)
    restored = storage.restore_fields(Policy(), through_json(storage.encode_fields(policy)))
    for name, value in vars(policy).items():
        assert np.array_equal(getattr(restored, name), value), name
    assert type(restored.count) is int
    assert type(restored.flag) is bool
    assert restored.marks.dtype == np.int64
    assert restored.masks.dtype == np.bool_


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float64, np.float32, np.int64, np.uint8, np.bool_]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_arrays_round_trip_bit_by_bit(array):
    back = storage.decode(through_json(storage.encode(array)))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array, equal_nan=array.dtype.kind == "f")


def test_fields_that_do_not_fit_are_refused():
    good = storage.encode_fields(Policy())
    array = good["table"]
    wrong = [
        {**good, "more": 1},
        {},
        {**good, "count": 1.5},
        {**good, "count": True},
        {**good, "rate": "0.1"},
        {**good, "rate": None},
        {**good, "rate": True},
        {**good, "flag": 1},
        {**good, "bound": {"float": "1.0"}},
        {**good, "table": 0.0},
        {**good, "table": {**array, "shape": [3, 2]}},
        {**good, "table": {**array, "shape": [-1, 3]}},
        {**good, "table": {**array, "shape": "23"}},
        {**good, "table": {**array, "data": array["data"][:-1]}},
        {**good, "table": {**array, "data": ["x"] * 6}},
        {**good, "table": {**array, "dtype": "float32"}},
        {**good, "table": {**array, "dtype": "object"}},
        {**good, "table": {**array, "dtype": "no dtype"}},
        {**good, "marks": {**good["marks"], "data": [1, 1.5]}},
        {**good, "marks": {**good["marks"], "data": [1, 2**70]}},
        [],
        None,
    ]
    for fields in wrong:
        fresh = Policy()
        with pytest.raises(StateError):
            storage.restore_fields(fresh, fields)
        assert storage.encode_fields(fresh) == good  # nothing of it reached the given object


def test_a_field_that_the_policy_has_gained_keeps_its_fresh_value():
    fresh = Policy()
    older = {name: value for name, value in storage.encode_fields(fresh).items() if name != "rate"}
    restored = storage.restore_fields(fresh, {**older, "count": 99})
    assert (restored.count, restored.rate) == (99, fresh.rate)
    assert fresh.count != 99


class Keeper:
    """A policy whose history grows."""

    keeps_history = True

    def __init__(self):
        self.rows = np.zeros((4, 2))
        self.arms = np.zeros(4, dtype=np.int64)
        self.weights = np.ones((3, 3))


def test_histories_may_have_grown_together_and_nothing_else_may():
    def saved(**arrays):
        return {**storage.encode_fields(Keeper()), **{k: storage.encode(v) for k, v in arrays.items()}}

    rows, arms = np.arange(16.0).reshape(8, 2), np.arange(8)
    grown = storage.restore_fields(Keeper(), saved(rows=rows, arms=arms))
    assert np.array_equal(grown.rows, rows)
    assert np.array_equal(grown.arms, arms)
    for wrong in (
        {"rows": rows, "arms": np.arange(16)},  # of another length
        {"rows": np.zeros((8, 3)), "arms": arms},
        {"rows": np.zeros((2, 2)), "arms": np.arange(2)},  # fewer than at first
        {"rows": np.zeros(8), "arms": arms},
        {"rows": rows, "arms": arms.astype(float)},
    ):
        with pytest.raises(StateError):
            storage.restore_fields(Keeper(), saved(**wrong))
    Keeper.keeps_history = False
    try:
        with pytest.raises(StateError):
            storage.restore_fields(Keeper(), saved(rows=rows, arms=arms))
    finally:
        Keeper.keeps_history = True


@pytest.mark.parametrize("names", [["a", object()], np.array(["a"]), np.ones(2, dtype=np.longdouble)])
def test_what_cannot_be_saved_is_said(names):
    policy = Policy()
    policy.names = names
    with pytest.raises(ValueError, match="the field names of Policy"):
        storage.encode_fields(policy)


@pytest.mark.parametrize("before", [0, 1, 5])
def test_the_generator_goes_on_where_it_stopped(before):
    rng = np.random.Generator(np.random.PCG64(5))
    rng.random(before)
    rng.integers(0, 10, dtype=np.uint32)  # leaves half of a 64-bit draw behind
    twin = storage.restore_generator(through_json(storage.encode_generator(rng)))
    assert rng.integers(0, 2**32, size=9, dtype=np.uint32).tolist() == (
        twin.integers(0, 2**32, size=9, dtype=np.uint32).tolist()
    )
    assert rng.beta(2.0, 3.0, size=5).tolist() == twin.beta(2.0, 3.0, size=5).tolist()


def test_a_damaged_generator_is_refused():
    good = storage.encode_generator(np.random.Generator(np.random.PCG64(5)))
    for change in (
        {"bit_generator": "MT19937"},
        {"has_uint32": 2},
        {"uinteger": -1},
        {"state": {"state": -1, "inc": 1}},
        {"state": {"state": 2**128, "inc": 1}},
        {"state": {"state": 1.0, "inc": 1}},
        {"state": {"state": 1}},
        {"other": 1},
    ):
        with pytest.raises(StateError):
            storage.restore_generator({**good, **change})


BODY = {"numbers": [0.1, 1e300, 2**100], "text": "é\ud800", "nested": {"empty": {}, "none": None}}


def test_a_file_comes_back(tmp_path):
    path = tmp_path / "state.json"
    storage.write(path, "Thing", BODY)
    assert storage.read(path, "Thing") == BODY
    assert storage.read(str(path), "Thing") == BODY
    document = json.loads(path.read_text())
    assert (document["kind"], document["format"], document["package"]) == (
        "Thing",
        storage.FORMAT,
        storage.__version__,
    )


def test_another_layout_of_the_same_json_is_the_same_state(tmp_path):
    path = tmp_path / "state.json"
    storage.write(path, "Thing", BODY)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2))
    assert storage.read(path, "Thing") == BODY


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "state.json"
    storage.write(path, "Thing", BODY)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError):
            storage.read(path, "Thing")


def test_every_changed_byte_is_refused_or_harmless(tmp_path):
    path = tmp_path / "state.json"
    storage.write(path, "Thing", BODY)
    whole = bytearray(path.read_bytes())
    refused = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x01
        path.write_bytes(damaged)
        try:
            assert storage.read(path, "Thing") == BODY
        except StateError:
            refused += 1
    assert refused >= len(whole) - 3  # a digit may flip beyond what a float can tell; hardly ever


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 4, "package": "9.9"}, "format 4, written by version 9.9"),
        ({"format": 0}, "damaged"),
        ({"format": 1}, "format 1, of a version before the first release, .* warm_start"),
        ({"format": 2}, "format 2, of a version before the first release"),
        ({"format": "1"}, "damaged"),
        ({"kind": "Other"}, "'Other', not of 'Thing'"),
        ({"kind": None}, "not of 'Thing'"),
        ({"package": "9.9"}, "damaged"),
        ({"body": {}}, "damaged"),
        ({"checksum": None}, "damaged"),
        ({"more": 1}, "damaged"),
    ],
)
def test_other_kinds_versions_and_edits_are_refused(tmp_path, change, message):
    path = tmp_path / "state.json"
    storage.write(path, "Thing", BODY)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StateError, match=message):
        storage.read(path, "Thing")


@pytest.mark.parametrize(
    "content", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"kind": NaN}', b"1" * 5000]
)
def test_files_of_another_origin_are_refused(tmp_path, content):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(StateError, match="not a saved state"):
        storage.read(path, "Thing")


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200))
def test_noise_is_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("noise") / "state.json"
    path.write_bytes(content)
    with pytest.raises(StateError):
        storage.read(path, "Thing")


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    storage.write(path, "Thing", BODY)
    for failing in ("fsync", "replace"):
        with monkeypatch.context() as patch:

            def fail(*arguments):
                raise OSError("disk full")

            patch.setattr(os, failing, fail)
            with pytest.raises(OSError, match="disk full"):
                storage.write(path, "Thing", {"new": 1})
        assert storage.read(path, "Thing") == BODY
        assert os.listdir(tmp_path) == ["state.json"]
    with pytest.raises(ValueError):
        storage.write(path, "Thing", {"new": math.nan})
    assert os.listdir(tmp_path) == ["state.json"]


def test_the_file_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor):
        calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_replace(source, target):
        assert os.path.dirname(source) == os.path.dirname(target)  # atomic only within one file system
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    storage.write(tmp_path / "state.json", "Thing", BODY)
    assert calls == ["file", "replace", "folder"]


def test_no_file_and_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        storage.read(tmp_path / "none.json", "Thing")
    with pytest.raises(FileNotFoundError):
        storage.write(tmp_path / "none" / "state.json", "Thing", BODY)


def test_fields_that_share_memory_are_refused():
    class Shares:
        def __init__(self):
            self.table = np.zeros((3, 3))
            self.row = self.table[0]

    with pytest.raises(ValueError, match="the fields table and row of Shares share memory"):
        storage.encode_fields(Shares())
