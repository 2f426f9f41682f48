"""Data sets and the cascades built from them. The user supplies two of them, one comes with scikit-learn."""

from weakfeedback.datasets.answers import Answers, load_answers
from weakfeedback.datasets.cascades import Predictions, breast_cancer_cascade, heart_cascade, pima_cascade
from weakfeedback.datasets.dataset import DataMissing, Dataset
from weakfeedback.datasets.medical import load_breast_cancer, load_heart, load_pima
from weakfeedback.datasets.numbers import Numbers, numeric_cascade, stack

__all__ = [
    "Answers",
    "DataMissing",
    "Dataset",
    "Numbers",
    "Predictions",
    "breast_cancer_cascade",
    "heart_cascade",
    "load_answers",
    "load_breast_cancer",
    "load_heart",
    "load_pima",
    "numeric_cascade",
    "pima_cascade",
    "stack",
]
