"""How far the last stage can be believed, learned from labelled rows."""

from typing import Any

import numpy as np

from weakfeedback.adaptive.arguments import real_numbers
from weakfeedback.validate import brief, plain

RIDGE = 0.3
DOUBTED = 0.01  # the share of scores that may be below 1 / labels by rounding
ROUNDED = 1e-3


def calibration(
    outputs: Any, scores: Any, truth: Any, stages: int, edge: float
) -> tuple[list[int], np.ndarray, float]:
    """Regress "the last stage is right" on its score and on how many earlier stages agree with it.

    Return the labels that occur, the weights of (1, logit(score) / 2, share of earlier stages that agree), and eta: how
    often, when the last stage is wrong and an earlier one differs from it, an earlier one is right.
    """
    answers, target = _labels("outputs", outputs), _labels("truth", truth)
    if answers.ndim != 2 or answers.shape[1] != stages or answers.dtype.kind not in "biu" or len(answers) < 1:
        raise ValueError(f"outputs must be integers of shape (n, {stages}), got {brief(outputs)}")
    if target.shape != (len(answers),) or target.dtype.kind not in "biu":
        raise ValueError(f"truth must be {len(answers)} integers, got {brief(truth)}")
    sure = np.full(len(answers), np.nan) if scores is None else _last(scores, answers.shape)
    cut = np.clip(np.where(np.isnan(sure), 0.5, sure), edge, 1.0 - edge)
    last = answers[:, -1]
    agree = (answers[:, :-1] == last[:, None]).mean(axis=1) if stages > 1 else np.zeros(len(last))
    x = np.column_stack([np.ones(len(last)), 0.5 * np.log(cut / (1.0 - cut)), agree])
    right = last == target
    weights = _fit(x, right.astype(float))
    wrong = ~right & (agree < 1.0) & (stages > 1)
    saved = wrong & (answers[:, :-1] == target[:, None]).any(axis=1)
    eta = (1.0 + np.count_nonzero(saved)) / (2.0 + np.count_nonzero(wrong))
    return sorted({int(one) for one in answers.flat} | {int(one) for one in target}), weights, float(eta)


def _labels(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(plain(values))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be integers, got {brief(values)}") from None


def _last(scores: Any, shape: tuple[int, ...]) -> np.ndarray:
    found = real_numbers("scores", scores)
    if found.shape != shape:
        raise ValueError(f"scores must be numbers of shape {shape}, got {brief(scores)}")
    known = found[:, -1][~np.isnan(found[:, -1])]
    if not ((known >= 0.0) & (known <= 1.0)).all():
        raise ValueError(f"scores of the last stage must be from 0 to 1, got {brief(known.tolist())}")
    return found[:, -1]


def _fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ridge-logistic regression by Newton's method; no step changes a logit by more than 1."""
    theta = np.zeros(x.shape[1])
    for _ in range(1000):
        p = 0.5 + 0.5 * np.tanh(0.5 * (x @ theta))
        gradient = x.T @ (y - p) - RIDGE * theta
        step = np.linalg.solve((x.T * (p * (1.0 - p))) @ x + RIDGE * np.eye(x.shape[1]), gradient)
        theta = theta + step / max(np.abs(x @ step).max(), 1.0)
        if gradient @ step <= 1e-14:
            break
    return theta


def doubt_of(scores: np.ndarray, labels: int) -> str:
    """Say why scores cannot be probabilities of the answers given, and which error rate they claim; "" if they can."""
    low = float((scores < 1.0 / labels - ROUNDED).mean()) if scores.size > 0 else 0.0
    if low <= DOUBTED:
        return ""
    return (
        f"judge 'score' would believe that the last stage errs in {1.0 - scores.mean():.1%}: {low:.1%} of its scores "
        f"are below 1/{labels}, which cannot be probabilities of the answers given; use judge='last'"
    )
