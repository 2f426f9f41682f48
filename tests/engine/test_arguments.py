"""Arguments of ``simulate`` that are something else, and what is said about them."""

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, FixedArm, UssTs

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])


class OwnGenerator(FixedArm):
    def __init__(self):
        super().__init__(PROBLEM.costs, 0)
        self.rng = np.random.default_rng(0)


class Slotted:
    __slots__ = ("K",)
    delay_safe = True

    def __init__(self):
        self.K = 3

    def select(self, rng):
        return 1

    def update(self, arm, outputs, rng):
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"policies": {"a": UssTs}}, r"policies\['a'\] must be a policy, got the class UssTs"),
        (
            {"policies": {"a": "USS-TS"}},
            r"policies\['a'\] must be a policy with a method select\(\), got 'USS-TS'",
        ),
        ({"policies": {0.5: FixedArm(PROBLEM.costs, 0)}}, "got the label 0.5, not a text"),
        ({"policies": {"a": Slotted()}}, r"policies\['a'\] must keep its state in plain fields, got Slotted"),
        ({"policies": {"a": OwnGenerator()}}, "got one of its own in the field 'rng'"),
        ({"marks": np.array([5, 3], dtype=np.uint64)}, "marks must be a number or increasing rounds"),
        ({"marks": [[1, 2], [3]]}, "marks must be a number or increasing rounds"),
        ({"horizon": 2**70}, "horizon must be at most 9007199254740992"),
        ({"executor": "threads"}, "executor must be a concurrent.futures.Executor or None, got 'threads'"),
        ({"store": 3}, "store must be a folder, got 3"),
        ({"problem": 3}, "problem must be a problem of this package, got 3"),
    ],
)
def test_wrong_arguments_are_named(options, words):
    arguments = {
        "problem": PROBLEM,
        "policies": {"a": FixedArm(PROBLEM.costs, 0)},
        "horizon": 10,
        "replications": 1,
        **options,
    }
    with pytest.raises(ValueError, match=words) as caught:
        simulate(**arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("costs", [["0.1", "0.2"], np.array([0.1 + 1j, 0.2])])
def test_text_and_complex_numbers_are_no_costs(costs):
    with pytest.raises(ValueError, match="costs must be a sequence of finite numbers"):
        UssTs(costs)
