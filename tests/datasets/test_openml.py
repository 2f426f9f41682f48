"""OpenML's copies, without the network: a fake ``fetch_openml`` in the encoding of those copies."""

from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from weakfeedback.datasets import DataMissing, load_heart, load_pima


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.delenv("WEAKFEEDBACK_DATA", raising=False)


@pytest.fixture
def openml(monkeypatch):
    """Serve the given frame, or raise the given error; return the data sets asked for."""
    asked = []

    def install(answer):
        def fetch_openml(*, data_id, as_frame, **options):
            assert as_frame is True
            asked.append(data_id)
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(frame=answer)

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
        return asked

    return install


def pima_frame(negative=500, positive=268):
    n = negative + positive
    names = ["preg", "plas", "pres", "skin", "insu", "mass", "pedi", "age"]
    frame = pd.DataFrame({name: np.arange(n) + 1000.0 * k for k, name in enumerate(names)})
    frame["class"] = pd.Categorical(["tested_negative"] * negative + ["tested_positive"] * positive)
    return frame


def heart_frame(negative=160, positive=137, incomplete=6):
    """Each word of each category is met in turn; incomplete rows come last, without a thal or a ca."""
    n = negative + positive + incomplete

    def words(*given):
        return pd.Categorical([given[k % len(given)] for k in range(n)])

    frame = pd.DataFrame({"age": np.arange(n, dtype=np.int64)})
    frame["sex"] = words("female", "male")
    frame["cp"] = words("typ_angina", "atyp_angina", "non_anginal", "asympt")
    frame["trestbps"] = 120.0
    frame["chol"] = 240.0
    frame["fbs"] = words("f", "t")
    frame["restecg"] = words("normal", "st_t_wave_abnormality", "left_vent_hyper")
    frame["thalach"] = 150.0
    frame["exang"] = words("no", "yes")
    frame["oldpeak"] = 0.5
    frame["slope"] = words("up", "flat", "down")
    frame["ca"] = [float(k % 4) for k in range(n)]
    frame["thal"] = words("normal", "fixed_defect", "reversable_defect")
    frame["num"] = pd.Categorical(["<50"] * negative + [">50_1"] * (n - negative))
    for k in range(incomplete):
        frame.loc[n - 1 - k, "thal" if k % 2 else "ca"] = np.nan
    return frame


def test_pima_mapping(openml):
    asked = openml(pima_frame())
    data = load_pima(openml=True)
    assert asked == [37]
    assert data.columns == (
        *("pregnancies", "glucose", "blood_pressure", "skin_thickness"),
        *("insulin", "bmi", "diabetes_pedigree", "age"),
    )
    assert data.features[5].tolist() == [1000 * k + 5 for k in range(8)]
    assert data.target.tolist() == [0] * 500 + [1] * 268
    assert data.source == "OpenML data set 37"


def test_heart_mapping_to_uci_codes(openml):
    asked = openml(heart_frame())
    data = load_heart(openml=True)
    assert asked == [49]
    assert data.features.shape == (297, 13)
    assert data.target.tolist() == [0] * 160 + [1] * 137
    codes = {
        "sex": [0, 1],
        "cp": [1, 2, 3, 4],
        "fbs": [0, 1],
        "restecg": [0, 1, 2],
        "exang": [0, 1],
        "slope": [1, 2, 3],
        "thal": [3, 6, 7],
        "ca": [0, 1, 2, 3],
    }
    for name, expected in codes.items():
        assert data.select([name])[:12, 0].tolist() == (expected * 12)[:12], name
    assert data.select(["age"])[:, 0].tolist() == list(range(297))


def test_words_in_quotes_and_plain_strings(openml):
    frame = heart_frame()
    frame["num"] = [f"'{word}'" for word in frame["num"]]
    frame["sex"] = frame["sex"].astype(str)
    openml(frame)
    assert load_heart(openml=True).target.sum() == 137


def test_heart_with_other_counts_only_warns(openml):
    openml(heart_frame(161, 135, 7))
    with pytest.warns(UserWarning, match=r"303 rows, 296 complete .*, expected 303 rows, 297") as caught:
        data = load_heart(openml=True)
    assert len(data.target) == 296
    assert [record.filename for record in caught] == [__file__]


def test_heart_without_a_complete_row_is_refused(openml):
    frame = heart_frame()
    frame["ca"] = np.nan
    openml(frame)
    with pytest.raises(ValueError, match="303 rows, 0 complete"):
        load_heart(openml=True)


def test_pima_with_other_counts_is_refused(openml):
    openml(pima_frame(500, 267))
    with pytest.raises(ValueError, match="OpenML data set 37: 767 rows"):
        load_pima(openml=True)


@pytest.mark.parametrize(
    "failure",
    [
        URLError("Name or service not known"),
        TimeoutError("timed\nout"),
        ValueError("md5 checksum does not match"),
        UserWarning("a warning turned into an error"),
    ],
)
@pytest.mark.parametrize("load", [load_pima, load_heart])
def test_failed_download_is_one_line(openml, load, failure):
    asked = openml(failure)
    with pytest.raises(DataMissing) as caught:
        load(openml=True)
    assert len(asked) == 1
    assert str(caught.value).isprintable()
    assert "download of OpenML data set" in str(caught.value)
    assert type(failure).__name__ in str(caught.value)
    assert caught.value.__suppress_context__


def test_offline_with_the_true_fetch_openml(monkeypatch, tmp_path):
    attempts = []

    def offline(request, *args, **options):
        attempts.append(request.full_url)
        raise URLError("offline")

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    monkeypatch.setattr("sklearn.datasets._openml.urlopen", offline)
    with pytest.raises(DataMissing, match=r"data set 37 failed \(URLError: .*offline"):
        load_pima(openml=True)
    assert attempts
    assert all("/37" in url for url in attempts)


def test_other_columns_and_words_are_refused(openml):
    openml(pima_frame().rename(columns={"plas": "glucose"}))
    with pytest.raises(ValueError, match=r"not the PIMA.*no column 'plas', only preg, glucose"):
        load_pima(openml=True)
    frame = heart_frame()
    frame["slope"] = "sideways"
    openml(frame)
    with pytest.raises(ValueError, match="slope is 'sideways', expected up or flat or down"):
        load_heart(openml=True)
    frame = heart_frame()
    frame["chol"] = "much"
    openml(frame)
    with pytest.raises(ValueError, match="chol is 'much', expected a number"):
        load_heart(openml=True)


def test_download_when_the_folder_lacks_the_file(openml, tmp_path, monkeypatch):
    monkeypatch.setenv("WEAKFEEDBACK_DATA", str(tmp_path))
    asked = openml(pima_frame())
    assert len(load_pima(openml=True).target) == 768
    assert asked == [37]
