"""The published medical files, where they are at hand."""

import numpy as np

from weakfeedback.datasets import load_heart, load_pima


def test_true_files(medical_data):
    pima, heart = load_pima(medical_data), load_heart(medical_data)
    assert pima.features.shape == (768, 8)
    assert np.bincount(pima.target).tolist() == [500, 268]
    # rows where zero stands for "missing", as documented with the data
    zeros = (pima.features == 0).sum(axis=0)
    assert dict(zip(pima.columns, zeros.tolist())) == {
        "pregnancies": 111,
        "glucose": 5,
        "blood_pressure": 35,
        "skin_thickness": 227,
        "insulin": 374,
        "bmi": 11,
        "diabetes_pedigree": 0,
        "age": 0,
    }
    assert heart.features.shape == (297, 13)
    assert np.bincount(heart.target).tolist() == [160, 137]


def test_true_heart_file_without_its_header_is_uci_s(medical_data, tmp_path):
    text = (medical_data / "heart-disease-cleveland.csv").read_text()
    (tmp_path / "processed.cleveland.data").write_text(text.split("\n", 1)[1])
    assert load_heart(tmp_path) == load_heart(medical_data)
