"""A round that can stop after every stage: the outputs so far, and the next step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.live.labels import (
    PLAIN,
    Compare,
    Costed,
    freeze,
    is_other,
    label_of,
    number_of,
    scored_of,
    short,
)
from weakfeedback.live.ledger import fingerprint
from weakfeedback.live.rounds import Answer
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of a round: run ``stage`` and `tell` its output, or use ``answer``."""

    id: int
    stage: int | None
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Placeholder for a label given before the cascade was saved: files hold only digests of labels."""

    digest: str


class Told(NamedTuple):
    """The output of one stage."""

    label: Any
    number: int  # of the label in its round, by first match
    score: float  # NaN: none was given
    chances: tuple[
        float, ...
    ]  # probabilities of the answers of all stages so far, its own last; () if unknown
    cost: float | None  # None: the stated cost

    @property
    def digest(self) -> str:
        """The digest that identifies the label."""
        return self.label.digest if isinstance(self.label, Lost) else fingerprint(self.label)

    @property
    def known_score(self) -> float | None:
        """The score, None if there is none."""
        return None if math.isnan(self.score) else self.score

    def content(self) -> str:
        """Return the content that distinguishes a repeated output from a conflict."""
        return fingerprint([self.digest, self.known_score, self.cost])

    def body(self) -> dict[str, Any]:
        """Return the same as JSON data, with the digest in place of the label."""
        found: dict[str, Any] = {"class": self.number, "digest": self.digest}
        if not math.isnan(self.score):
            found["score"] = self.score
        if self.chances:
            found["chances"] = list(self.chances)
        if self.cost is not None:
            found["cost"] = self.cost
        return found


class Progress(NamedTuple):
    """A round in progress. Immutable: every output creates a new one."""

    told: tuple[Told, ...] = ()
    stopped: bool = False  # no further stage is called; only learning is left

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the labels so far."""
        return tuple([one.number for one in self.told])

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what a policy is shown: the numbers of the labels, and the scores."""
        numbers = np.array([one.number for one in self.told], dtype=np.int64)
        return freeze(numbers), freeze(np.array([one.score for one in self.told], dtype=np.float64))

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data."""
        return {"told": [one.body() for one in self.told], "stopped": self.stopped}


def told_of(output: Any, before: Progress, compare: Compare | None, last: bool) -> Told:
    """Return the record of an output that follows ``before``; ``last`` is true for the last stage."""
    bare, scored = alone(output), scored_of(output)
    label = bare.label
    earlier = [one.label for one in before.told]
    numbers = before.numbers
    if any(isinstance(one, Lost) for one in earlier):
        if compare is not None:
            raise ValueError(
                "compare needs the labels of the stages before, which were told before this cascade was loaded: "
                "cancel the decision and begin it again"
            )
        number = _number_by_digest(label, before)
    else:
        number = number_of(label, earlier, numbers, compare)
    chances: tuple[float, ...] = ()
    if last and scored is not None and scored.chances is not None:
        chances = tuple(_chance(scored.chances, one, compare) for one in [*earlier, label])
    return bare._replace(number=number, chances=chances)


def alone(output: Any) -> Told:
    """Return the record of an output, independent of earlier ones."""
    scored = scored_of(output)
    cost = output.cost if isinstance(output, Costed) else None
    return Told(label_of(output), 0, math.nan if scored is None else scored.score, (), cost)


def _number_by_digest(label: Any, before: Progress) -> int:
    digest = fingerprint(label)
    for one in before.told:
        if one.digest == digest:
            return one.number
    return max(before.numbers, default=-1) + 1


def _chance(chances: Mapping[Any, float], label: Any, compare: Compare | None) -> float:
    """Return the probability of a label, 0 if it is not in the mapping."""
    found: Any = 0.0
    if compare is None and type(label) in PLAIN:
        found = chances.get(label, 0.0)
    else:
        for known, value in chances.items():
            lost = isinstance(label, Lost)
            if fingerprint(known) == label.digest if lost else not is_other(label, known, compare):
                found = value
                break
    try:
        given = float(found)
    except (TypeError, ValueError):
        given = math.nan
    if not 0.0 <= given <= 1.0:
        raise ValueError(f"chances must be probabilities, from 0 to 1, got {brief(found)}")
    return given


def told_from(body: Any, stage: int) -> Told:
    """Return the record of a stage's output from an event or a saved round."""
    known = {"class", "digest", "score", "chances", "cost"}
    if not isinstance(body, dict) or not {"class", "digest"} <= set(body) <= known:
        raise StateError(
            f"what was told must hold class and digest, and perhaps score, chances and cost: {short(body)}"
        )
    chances, number, digest = body.get("chances", []), body["class"], body["digest"]
    numbers = [body.get(name, 0.0) for name in ("score", "cost")]
    if not isinstance(chances, list) or len(chances) not in (0, stage + 1):
        raise StateError(f"chances must be {stage + 1} numbers, got {short(chances)}")
    real = all(type(value) in (int, float) and math.isfinite(value) for value in [*numbers, *chances])
    sound = type(number) is int and 0 <= number <= stage and isinstance(digest, str)
    if not real or not sound or body.get("cost", 0.0) < 0.0 or not all(0.0 <= p <= 1.0 for p in chances):
        raise StateError(f"what was told is damaged: {short(body)}")
    score, cost = body.get("score"), body.get("cost")
    return Told(
        Lost(digest),
        number,
        math.nan if score is None else float(score),
        tuple(float(p) for p in chances),
        None if cost is None else float(cost),
    )


def progress_from(data: Any, stages: int) -> Progress:
    """Return the round that gave this state, or raise `StateError`."""
    require("open round", data, {"told": list, "stopped": bool})
    told = tuple(told_from(body, stage) for stage, body in enumerate(data["told"]))
    most = -1
    for one in told:
        if one.number > most + 1:
            raise StateError("the labels of an open round must be numbered in the order in which they came")
        most = max(most, one.number)
    if len(told) > stages or (data["stopped"] and not told) or (len(told) == stages and not data["stopped"]):
        raise StateError("an open round contradicts the number of stages")
    return Progress(told, data["stopped"])


def in_table(rows: Sequence[Sequence[Any]], truth: Sequence[Any], compare: Compare | None) -> dict[str, Any]:
    """Return labelled rows as JSON data: labels numbered by first match, scores, and the number of the true label."""
    classes, scores, right = [], [], []
    for row, target in zip(rows, truth):
        seen = Progress()
        for output in row:
            seen = Progress((*seen.told, told_of(output, seen, compare, False)))
        classes.append(list(seen.numbers))
        scores.append([one.known_score for one in seen.told])
        right.append(number_of(target, [one.label for one in seen.told], seen.numbers, compare))
    return {"classes": classes, "scores": scores, "right": right}
