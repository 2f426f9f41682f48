"""The check of the methods for pairs: they do exactly what those for outputs do, to the bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.checks.case import Case, Failure, ask, frozen, hidden_of
from weakfeedback.contract.readonly import Lender
from weakfeedback.contract.steps import Told
from weakfeedback.validate import brief


def pairs_teach_as_outputs(case: Case) -> None:
    """The methods for pairs exist and do the same as those for outputs, to the bit: fields, draws, labels bought."""
    protocol, names = case.loop.protocol, case.loop.protocol.pair_methods
    if not names:
        return
    kind = type(case.make())
    for name in names:
        if not callable(getattr(kind, name, None)):
            raise Failure(
                f"{kind.__name__} has no {name}(): live objects compare outputs in their own way and call it"
            )
    arms = case.problem.arms
    (policy, rng), (other, other_rng) = [(case.make(), case.generators()[1]) for _ in range(2)]
    for t, row in enumerate(hidden_of(case), start=1):
        (arm, told), (another, _) = ask(case, policy, row, rng), ask(case, other, row, other_rng)
        if not np.array_equal(arm, another):
            raise Failure(f"taught by outputs it decides {arm} in round {t}, taught by pairs {another}")
        before, earlier = frozen(vars(policy)), frozen(vars(other))
        sold = protocol.learn(Lender(policy), arm, told, rng)
        # live objects have only the pairs that were seen
        size = arms if t % 2 or isinstance(arm, np.ndarray) else arm + 1
        pairs = [protocol.as_pairs(other, one, size) for one in told]
        if protocol.learn(Lender(other), arm, pairs, other_rng) != sold:
            raise Failure(f"wants_label() and wants_label_pairs() differ in round {t}")
        noted = _notes(told, arm, arms)
        for name in {**vars(policy), **vars(other)}:
            value, theirs = vars(policy).get(name), vars(other).get(name)
            if _same_bits(value, theirs):
                continue
            idle = _same_bits(theirs, earlier.get(name))
            if idle and (_same_bits(value, before.get(name)) or _holds(value, noted, arm)):
                continue  # scratch space of the comparison, irrelevant by itself; decisions are compared too
            raise Failure(
                f"{_both(names)} differ in round {t}: field {name!r} is {brief(value)} by outputs and "
                f"{brief(theirs)} by pairs{case.place(name, *case.loop.entry, *names)}"
            )
        if rng.bit_generator.state != other_rng.bit_generator.state:
            raise Failure(f"{_both(names)} draw different numbers from rng in round {t}")


def _both(names: tuple[str, ...]) -> str:
    return " and ".join(["update()", *(f"{name}()" for name in names)])


def _notes(told: Sequence[Told], arm: Any, arms: int) -> list[np.ndarray]:
    """Return what a policy may store of a round before it learns: differing pairs and, with a label, who is right."""
    if isinstance(arm, np.ndarray):  # a set of models, for which nothing is stored
        return []
    given = [one for call in told for one in call.arguments if isinstance(one, np.ndarray)]
    outputs = next((one for one in given if one.shape == (arm + 1,) and one.dtype.kind in "biu"), None)
    if outputs is None:  # numbers, which do not differ but lie apart
        return []
    differ = np.zeros((arms, arms), dtype=np.bool_)
    differ[: arm + 1, : arm + 1] = np.triu(outputs[:, None] != outputs, 1)
    right = np.zeros(arms, dtype=np.bool_)
    for call in told:
        if call.method == "learn_label":
            right[: arm + 1] = outputs == call.arguments[-1]
    return [differ, right]


def _holds(value: Any, noted: list[np.ndarray], arm: Any) -> bool:
    """Whether a field only holds what was stored of this round."""
    for note in noted:
        if isinstance(value, np.ndarray) and value.shape == note.shape:
            part = (slice(arm + 1),) * note.ndim
            held = np.triu(value[part], 1) if note.ndim == 2 else value[part]
            return np.array_equal(held, note[part])
    return False


def _same_bits(a: Any, b: Any) -> bool:
    one, other = np.asarray(a), np.asarray(b)
    return one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
