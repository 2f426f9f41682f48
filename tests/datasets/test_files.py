"""The loaders and the files they are given: where they look, what they accept, and how they refuse."""

import os
import pickle

import numpy as np
import pytest
from tests.datasets.made_up import (
    HEART_HEADER,
    KAGGLE_HEADER,
    PIMA_HEADER,
    heart_lines,
    pima_lines,
    write,
)

from weakfeedback.datasets import DataMissing, Dataset, load_breast_cancer, load_heart, load_pima


@pytest.fixture(autouse=True)
def _no_folder_no_network(monkeypatch):
    def refuse(**options):
        raise AssertionError("the network was used without being asked for")

    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", refuse)


def refused(load, *args, error=ValueError, **options):
    """Return the one line that ``load`` refuses with; no chain of causes is shown above it."""
    with pytest.raises(error) as caught:
        load(*args, **options)
    assert caught.type is error
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    line = str(caught.value)
    assert line.isprintable()
    assert line
    return line


# What is accepted


@pytest.mark.parametrize("header", [[PIMA_HEADER], [KAGGLE_HEADER], []], ids=["ours", "kaggle", "none"])
def test_pima_file(tmp_path, header):
    data = load_pima(write(tmp_path / "any-name.txt", *header, *pima_lines()))
    assert data.name == "pima"
    assert data.columns == tuple(PIMA_HEADER.split(",")[:8])
    assert data.features.shape == (768, 8)
    assert data.features[17].tolist() == [17, 17.1, 17.2, 17.3, 17.4, 17.5, 17.6, 17.7]
    assert data.target.tolist() == [0] * 500 + [1] * 268
    assert data.target.dtype == np.int64
    assert "any-name.txt" in data.source


@pytest.mark.parametrize("header", [[HEART_HEADER], []], ids=["ours", "uci"])
def test_heart_file_leaves_incomplete_rows_out_and_keeps_the_order(tmp_path, header):
    data = load_heart(str(write(tmp_path / "file", *header, *heart_lines())))
    assert data.columns == tuple(HEART_HEADER.split(",")[:13])
    assert data.features.shape == (297, 13)
    assert np.isfinite(data.features).all()
    # num 1, 2, 3 and 4 are all disease
    assert data.target.tolist() == [0] * 160 + [1] * 137
    assert data.select(["trestbps"])[:160, 0].tolist() == list(range(100, 260))
    assert data.select(["trestbps"])[160:, 0].tolist() == list(range(100, 237))


def test_windows_line_ends_byte_order_mark_quotes_and_blank_lines(tmp_path):
    quoted = ",".join(f'"{name}"' for name in PIMA_HEADER.split(","))
    text = "\ufeff" + "\r\n".join([quoted, *pima_lines(), "", ""])
    (tmp_path / "file.csv").write_bytes(text.encode())
    assert load_pima(tmp_path / "file.csv") == load_pima(write(tmp_path / "plain.csv", *pima_lines()))


@pytest.mark.parametrize("name", ["pima-indians-diabetes.csv", "diabetes.csv"])
def test_pima_folder(tmp_path, name):
    write(tmp_path / name, PIMA_HEADER, *pima_lines())
    assert len(load_pima(tmp_path).target) == 768


@pytest.mark.parametrize("name", ["heart-disease-cleveland.csv", "processed.cleveland.data"])
def test_heart_folder(tmp_path, name):
    write(tmp_path / name, *heart_lines())
    assert len(load_heart(tmp_path).target) == 297


def test_environment_variable_and_a_path_that_goes_before_it(tmp_path, monkeypatch):
    write(tmp_path / "pima-indians-diabetes.csv", PIMA_HEADER, *pima_lines())
    other = write(tmp_path / "other.csv", PIMA_HEADER, *reversed(pima_lines()))
    monkeypatch.setenv("WEAKFEEDBACK_DATA", str(tmp_path))
    assert load_pima().target[0] == 0
    assert load_pima(other).target[0] == 1
    # a file at hand is never downloaded again: the fixture's fetch_openml would fail
    assert load_pima(openml=True) == load_pima()


def test_home_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    write(tmp_path / "p.csv", *pima_lines())
    assert len(load_pima("~/p.csv").target) == 768


# What is missing


@pytest.mark.parametrize(
    ("load", "name"),
    [(load_pima, "pima-indians-diabetes.csv"), (load_heart, "heart-disease-cleveland.csv")],
)
def test_nothing_given_says_the_three_ways(load, name, monkeypatch):
    for setting in (None, ""):
        if setting is not None:
            monkeypatch.setenv("WEAKFEEDBACK_DATA", setting)
        line = refused(load, error=DataMissing)
        for way in ("path", "WEAKFEEDBACK_DATA", name, f"{load.__name__}(openml=True)"):
            assert way in line


@pytest.mark.parametrize("load", [load_pima, load_heart])
def test_path_to_nothing(load, tmp_path):
    line = refused(load, tmp_path / "absent.csv", error=DataMissing)
    assert "path" in line
    assert "absent.csv" in line
    # an explicit path that is wrong is not replaced by a download
    assert refused(load, tmp_path / "absent.csv", openml=True, error=DataMissing) == line
    assert "''" in refused(load, "", error=DataMissing)


def test_folder_without_the_file(tmp_path, monkeypatch):
    write(tmp_path / "heart-disease-cleveland.csv", *heart_lines())
    line = refused(load_pima, tmp_path, error=DataMissing)
    assert "pima-indians-diabetes.csv or diabetes.csv" in line
    assert "path" in line
    monkeypatch.setenv("WEAKFEEDBACK_DATA", str(tmp_path))
    line = refused(load_pima, error=DataMissing)
    assert "WEAKFEEDBACK_DATA" in line
    assert "pima-indians-diabetes.csv" in line


def test_environment_variable_to_nowhere_or_to_a_file(tmp_path, monkeypatch):
    for place in (tmp_path / "nowhere", write(tmp_path / "p.csv", *pima_lines())):
        monkeypatch.setenv("WEAKFEEDBACK_DATA", str(place))
        line = refused(load_pima, error=DataMissing)
        assert f"WEAKFEEDBACK_DATA: {str(place)!r} is not a folder" in line


@pytest.mark.parametrize("path", [3, ["a"], 1.5])
def test_path_of_another_type(path):
    assert f"path must be the name of a file or folder, got {path!r}" in refused(load_pima, path)


# What is refused


def test_other_columns(tmp_path):
    line = refused(load_pima, write(tmp_path / "f.csv", HEART_HEADER, *heart_lines()))
    assert "PIMA" in line
    assert "age, sex, cp" in line
    assert "expected pregnancies, glucose" in line
    # a well-known altered copy of the heart data ends in "target" and uses other codes
    line = refused(
        load_heart, write(tmp_path / "f.csv", HEART_HEADER.replace("num", "target"), *heart_lines())
    )
    assert "target" in line
    swapped = PIMA_HEADER.replace("glucose,blood_pressure", "blood_pressure,glucose")
    assert "columns" in refused(load_pima, write(tmp_path / "f.csv", swapped, *pima_lines()))


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (pima_lines(499, 269), "768 rows, 768 complete (499 negative, 269 positive)"),
        (pima_lines(500, 267), "767 rows, 767 complete (500 negative, 267 positive)"),
        ([], "0 rows, 0 complete (0 negative, 0 positive)"),
    ],
)
def test_pima_with_other_counts(tmp_path, lines, found):
    line = refused(load_pima, write(tmp_path / "f.csv", PIMA_HEADER, *lines))
    assert found in line
    assert line.endswith("expected 768 rows, 768 complete (500 negative, 268 positive)")


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (heart_lines(incomplete=0), "297 rows, 297 complete"),
        # the six missing cells filled in, as in some copies
        (heart_lines(166, 137, 0), "303 rows, 303 complete"),
        (heart_lines(159, 138), "303 rows, 297 complete (159 negative, 138 positive)"),
        (heart_lines(160, 136, 7), "303 rows, 296 complete"),
    ],
)
def test_heart_with_other_counts(tmp_path, lines, found):
    line = refused(load_heart, write(tmp_path / "f.csv", HEART_HEADER, *lines))
    assert found in line
    assert line.endswith("expected 303 rows, 297 complete (160 negative, 137 positive)")


def test_other_labels(tmp_path):
    lines = pima_lines()
    lines[-1] = lines[-1][:-1] + "2"
    assert "outcome is 2, expected one of 0, 1" in refused(load_pima, write(tmp_path / "f.csv", *lines))
    lines = heart_lines()
    lines[-1] = lines[-1].rsplit(",", 1)[0] + ",10"
    assert "num is 10, expected one of 0, 1, 2, 3, 4" in refused(load_heart, write(tmp_path / "f", *lines))


def test_truncated_file(tmp_path):
    text = "\n".join([PIMA_HEADER, *pima_lines()])
    path = tmp_path / "f.csv"
    # in the middle of a row
    path.write_text(text[: text.index("\n400,") + 12])
    assert "line 402: 3 cells, expected 9" in refused(load_pima, path)
    # after a whole row
    path.write_text(text[: text.index("\n400,")])
    assert "400 rows" in refused(load_pima, path)


@pytest.mark.parametrize("cell", ["abc", "", "nan", "inf", "?", "1;2", "\x07"])
def test_cell_that_is_no_number(tmp_path, cell):
    lines = pima_lines()
    cells = lines[9].split(",")
    cells[1] = cell
    lines[9] = ",".join(cells)
    line = refused(load_pima, write(tmp_path / "f.csv", PIMA_HEADER, *lines))
    assert "line 11: glucose is " in line
    assert "expected a number" in line


def test_only_the_question_mark_means_missing_in_heart(tmp_path):
    lines = [line.replace("?", "NA") for line in heart_lines()]
    assert "is NA, expected a number" in refused(load_heart, write(tmp_path / "f.csv", HEART_HEADER, *lines))


def test_junk(tmp_path):
    path = tmp_path / "f.csv"
    path.write_bytes(bytes(range(256)) * 20)
    assert "is not a text file" in refused(load_heart, path)
    path.write_bytes(b"PK\x03\x04\x00\x00\x1b[31m" * 50)  # valid UTF-8 with control characters
    assert "columns" in refused(load_heart, path)
    path.write_bytes(b"")
    assert "is empty" in refused(load_heart, path)
    path.write_bytes(b"1," * 600_000)
    assert "larger than 1000000 bytes" in refused(load_heart, path)


def test_devices_are_not_read():
    if not os.path.exists("/dev/zero"):
        pytest.skip("no /dev/zero here")
    assert "not a file or folder" in refused(load_pima, "/dev/zero", error=DataMissing)


def test_unreadable_file(tmp_path, monkeypatch):
    path = write(tmp_path / "f.csv", *pima_lines())

    def denied(*args, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("weakfeedback.datasets.files.open", denied, raising=False)
    assert "cannot be read: Permission denied" in refused(load_pima, path)


# The dataset object


def test_arrays_are_copies_and_read_only():
    features = np.zeros((2, 1))
    data = Dataset("d", ("a",), features, np.array([0, 1]), "made up")
    features[0, 0] = 7.0
    assert data.features[0, 0] == 0.0
    for array in (data.features, data.target):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_equality_is_by_content():
    one = Dataset("d", ("a",), np.zeros((2, 1)), np.array([0, 1]), "here")
    same = Dataset("d", ("a",), np.zeros((2, 1)), np.array([0, 1]), "there")
    other = Dataset("d", ("a",), np.ones((2, 1)), np.array([0, 1]), "here")
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "d"
    assert pickle.loads(pickle.dumps(one)) == one


def test_select_orders_columns_and_refuses_unknown_ones():
    data = Dataset("d", ("a", "b"), [[1, 2], [3, 4]], [0, 1], "made up")
    assert data.select(["b", "a"]).tolist() == [[2, 1], [4, 3]]
    with pytest.raises(ValueError, match=r"columns must be some of a, b \(data set d\), got 'c'"):
        data.select(["a", "c"])


@pytest.mark.parametrize(("features", "target"), [([[1.0]], [0]), ([[1, 2]], [0, 1]), ([1, 2], [0, 1])])
def test_shapes_must_agree(features, target):
    with pytest.raises(ValueError, match="features and target must have shapes"):
        Dataset("d", ("a", "b"), features, target, "made up")


def test_breast_cancer_needs_nothing():
    data = load_breast_cancer()
    assert data.features.shape == (569, 30)
    assert np.bincount(data.target).tolist() == [212, 357]
