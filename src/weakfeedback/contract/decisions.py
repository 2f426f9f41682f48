"""Validation of decisions, in one place for simulations, conformance checks and live objects.

Each function returns the decision if it is allowed and raises ``WrongDecision`` otherwise: one line with the policy,
what it returned, and what is allowed.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.validate import brief

IDLE = -1  # a player that plays no arm
REACH = 1e-9  # relative tolerance on the budget: in doubles 1.2 / 3 < .4


class WrongDecision(ValueError):
    """A policy decided something that is not allowed.

    ``words`` says what is allowed and what was returned, ``round`` in which round of a simulation it was, if known.
    """

    def __init__(self, policy: Any, method: str, value: Any, allowed: str) -> None:
        # not type(): wrappers that record or delay something report the policy's class
        self.words = f"it must be {allowed}, got {brief(value)} from {policy.__class__.__name__}.{method}()"
        self.round = 0
        super().__init__(f"impossible decision: {self.words}")


def checked_arm(policy: Any, value: Any, arms: int, method: str = "select") -> int:
    """Return the arm at which a policy stops, an integer from 0 to ``arms - 1``.

    >>> checked_arm("a policy", 2, 3)
    2
    >>> checked_arm("a policy", 3, 3)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    weakfeedback.contract.decisions.WrongDecision: impossible decision: it must be an arm from 0 to 2, got 3 from ...
    """
    if type(value) is int and 0 <= value < arms:
        return value
    arm = _whole(value)
    if arm is None or not 0 <= arm < arms:
        raise WrongDecision(policy, method, value, arm_words(arms))
    return arm


def checked_bool(policy: Any, value: Any, method: str) -> bool:
    """Return whether a policy wants to go on: True or False, of Python or NumPy, or 1 or 0.

    >>> checked_bool("a policy", 2, "go_on")
    Traceback (most recent call last):
    weakfeedback.contract.decisions.WrongDecision: impossible decision: it must be True or False, got 2 from str.go_on()
    """
    if type(value) is bool:
        return value
    whole = _whole(value)
    if whole not in (0, 1):
        raise WrongDecision(policy, method, value, "True or False")
    return whole == 1


def checked_stage(policy: Any, value: Any, arms: int, method: str = "next_stage") -> int:
    """Return the stage to be called next, or -1 if the round ends.

    >>> checked_stage("a policy", -1, 3)
    -1
    """
    stage = value if type(value) is int else _whole(value)
    if stage is None or not -1 <= stage < arms:
        raise WrongDecision(policy, method, value, stage_words(arms))
    return stage


def checked_choice(policy: Any, value: Any, arms: int, method: str = "choose") -> int:
    """Return the arm that a player chooses, or -1 if it idles.

    >>> checked_choice("a player", -1, 3)
    -1
    """
    if type(value) is int and IDLE <= value < arms:
        return value
    arm = _whole(value)
    if arm is None or not IDLE <= arm < arms:
        raise WrongDecision(policy, method, value, choice_words(arms))
    return arm


def checked_allocation(
    policy: Any, value: Any, arms: int, budget: float, method: str = "select"
) -> np.ndarray:
    """Return what the arms get: an array of ``arms`` numbers >= 0 within the budget, added from left to right.

    >>> checked_allocation("a policy", np.array([0.5, 0.25]), 2, 1.0).tolist()
    [0.5, 0.25]
    """
    right = isinstance(value, np.ndarray) and value.shape == (arms,) and value.dtype.kind in "biuf"
    total = 0.0
    for amount in value.tolist() if right else ():
        right = right and amount >= 0.0  # NaN fails this, too
        total += amount
    if not right or not total <= budget * (1.0 + REACH):
        raise WrongDecision(policy, method, value, allocation_words(arms, budget))
    found: np.ndarray = value
    return found


def checked_call(policy: Any, value: Any, models: int, method: str = "select") -> np.ndarray:
    """Return which models are called: an array of ``models`` bools, at least one of them True.

    >>> checked_call("a policy", np.array([True, False]), 2).tolist()
    [True, False]
    """
    right = isinstance(value, np.ndarray) and value.shape == (models,) and value.dtype == np.bool_
    if not right or not value.any():
        raise WrongDecision(policy, method, value, call_words(models))
    found: np.ndarray = value
    return found


def arm_words(arms: int) -> str:
    """Describe what a policy of a cascade may return."""
    return f"an arm from 0 to {arms - 1}"


def stage_words(arms: int) -> str:
    """Describe what a policy that names the next stage may return."""
    return f"a stage from 0 to {arms - 1}, or -1 to stop"


def choice_words(arms: int) -> str:
    """Describe what a player may return."""
    return f"an arm from 0 to {arms - 1}, or -1 to idle"


def allocation_words(arms: int, budget: float) -> str:
    """Describe what a policy of an allocation may return."""
    return f"an array of {arms} numbers >= 0 with a sum of at most {budget:g}"


def call_words(models: int) -> str:
    """Describe what a policy of routing may return."""
    return f"an array of {models} bools, at least one of them True"


def _whole(value: Any) -> int | None:
    """Return a value as an integer; bools are accepted, floats are not."""
    try:
        return operator.index(value)
    except TypeError:
        return int(value) if isinstance(value, np.bool_) else None


class Judged:
    """Wraps a policy and validates every decision before the loop uses it."""

    def __init__(
        self,
        policy: Any,
        method: str,
        judge: Callable[[Any, Any], Any],
        starts: Callable[..., bool] | None = None,
    ) -> None:
        # ``starts`` takes the arguments of a call and returns whether it begins a round; None: every call begins one
        self._policy = policy
        decide = getattr(policy, method)
        rounds = 0

        def decided(*arguments: Any) -> Any:
            nonlocal rounds
            rounds += starts is None or starts(*arguments)
            try:
                return judge(policy, decide(*arguments))
            except WrongDecision as error:
                error.round = rounds
                raise

        setattr(self, method, decided)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._policy, name)
        if callable(found):
            setattr(self, name, found)  # a method: looked up once
        return found
