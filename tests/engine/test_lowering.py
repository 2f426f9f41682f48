"""Lowering: what compiles does the same as the object; what cannot is refused by name."""

import math

import numpy as np
import pytest

from weakfeedback.cascade import CascadeProblem, FixedArm
from weakfeedback.engine.compiler import fingerprint
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.compiler.lowering import Blueprint, compiled_loop
from weakfeedback.engine.replication import Compiled

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
SHIFT = 2.0
WEIGHTS = np.array([1.0, 2.0, 3.0])
SETTINGS = {"a": 1}


def scaled(x):
    return SHIFT * x


def tower(n):
    return 1 if n <= 1 else n * tower(n - 1)


def call(obj):
    return obj.go()


def lowered(obj):
    plan = Blueprint(obj, ("go",))
    struct = plan.build(obj)
    value = compiled_loop(call, plan)(struct)
    return value, plan.read(struct)


class Plain:
    def __init__(self):
        self.x = 1.5
        self.n = 3
        self.flag = True
        self.a = np.arange(4.0)

    def go(self):
        self.a[0] = scaled(self.x)
        self.n += 2
        self.flag = not self.flag
        self.a = np.zeros(2)
        return self.more(0.5)

    def more(self, y, z=0.25):
        return self.x + y + z

    def report(self):
        return {"not": "compiled", **SETTINGS}


def test_fields_methods_helpers_and_defaults():
    first, obj = Plain(), Plain()
    value, state = lowered(obj)
    assert value == first.go() == 2.25
    assert state["n"] == 5
    assert state["flag"] is False
    assert state["a"].size == 2
    assert obj.a[0] == 3.0  # arrays are shared with the object


def test_write_back_makes_vars_the_whole_state():
    obj = Plain()
    plan = Blueprint(obj, ("go",))
    struct = plan.build(obj)
    compiled_loop(call, plan)(struct)
    plan.write_back(struct, obj)
    other = Plain()
    other.go()
    assert vars(obj).keys() == vars(other).keys()
    assert all(np.array_equal(vars(obj)[name], vars(other)[name]) for name in vars(other))


class Inherits(Plain):
    def more(self, y, z=0.25):
        return -(self.x + y + z)


def test_inherited_methods_call_the_overriding_one():
    assert lowered(Inherits())[0] == Inherits().go() == -2.25


def make_closure(factor, helper):
    class Closed:
        def __init__(self):
            self.x = 2.0

        def go(self):
            return factor * helper(self.x)

    return Closed


def test_closures_compile_and_count_in_the_digest():
    two, three = make_closure(2.0, scaled), make_closure(3.0, scaled)
    assert lowered(two())[0] == 8.0
    assert lowered(three())[0] == 12.0
    other = make_closure(2.0, math.sqrt)
    assert lowered(other())[0] == 2.0 * math.sqrt(2.0)


class Recursive:
    def __init__(self):
        self.n = 5

    def go(self):
        return tower(self.n)


def test_a_helper_may_call_itself():
    assert lowered(Recursive())[0] == 120


class ReadsArray:
    def __init__(self):
        self.k = 1

    def go(self):
        return WEIGHTS[self.k]


class ReadsConstant:
    def __init__(self):
        self.x = 1.5

    def go(self):
        return scaled(self.x)


def test_a_changed_global_array_or_constant_is_another_build(monkeypatch):
    assert lowered(ReadsArray())[0] == 2.0
    monkeypatch.setitem(globals(), "WEIGHTS", np.array([1.0, 7.0, 3.0]))
    assert lowered(ReadsArray())[0] == 7.0
    assert lowered(ReadsConstant())[0] == 3.0
    monkeypatch.setitem(globals(), "SHIFT", 5.0)
    assert lowered(ReadsConstant())[0] == 7.5


def test_a_changed_method_is_another_build(monkeypatch):
    class Changing:
        def __init__(self):
            self.x = 1.0

        def go(self):
            return self.x + 1.0

    assert lowered(Changing())[0] == 2.0
    monkeypatch.setattr(Changing, "go", lambda self: self.x + 2.0)
    assert lowered(Changing())[0] == 3.0


def test_docstrings_do_not_count():
    def one(x):
        """Says this."""
        return x

    def other(x):
        """Says that."""
        return x

    assert fingerprint.fingerprint({"f": one}) == fingerprint.fingerprint({"f": other})


class UsesDict:
    def __init__(self):
        self.x = 1.0

    def go(self):
        return self.x if "a" in SETTINGS else 0.0


class UsesModule:
    def __init__(self):
        self.x = 1.0

    def go(self):
        return fingerprint.helper_of(self.x)


class MakesField:
    def __init__(self):
        self.x = 1.0

    def go(self):
        self.y = 2.0
        return self.x


class ReadsClass:
    rate = 0.5

    def __init__(self):
        self.x = 1.0

    def go(self):
        return self.x * self.rate


class UsesSuper(Plain):
    def go(self):
        return super().go()


class HasText:
    def __init__(self):
        self.name = "text"

    def go(self):
        return 1


class HasObjects:
    def __init__(self):
        self.a = np.array([None, 1])

    def go(self):
        return 1


class HasHuge:
    def __init__(self):
        self.n = 2**70

    def go(self):
        return 1


class NoGo:
    def __init__(self):
        self.x = 1


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        (UsesDict, r"go\(\) uses the global 'SETTINGS', a dict"),
        (UsesModule, r"go\(\) reaches into the module 'weakfeedback.engine.compiler.fingerprint'"),
        (MakesField, r"go\(\) makes the field 'y': make every field in __init__"),
        (ReadsClass, r"go\(\) reads 'rate' of the class"),
        (UsesSuper, r"go\(\) uses super\(\)"),
        (HasText, r"the field 'name' of HasText is a str"),
        (HasObjects, r"the field 'a' of HasObjects is an array of object"),
        (HasHuge, r"the field 'n' of HasHuge is a int"),
        (NoGo, r"NoGo has no method go\(\)"),
    ],
)
def test_refused_by_name(cls, words):
    with pytest.raises(CannotLower, match=words) as caught:
        lowered(cls())
    assert "\n" not in str(caught.value)


class Drifting(FixedArm):
    """An int field that is assigned a float: 1.5 interpreted, 1 if it were compiled."""

    def __init__(self, costs):
        super().__init__(costs, 0)
        self.mean = 0

    def update(self, arm, outputs, rng):
        self.mean = 0.5 * arm


class BoolDrift(FixedArm):
    def __init__(self, costs):
        super().__init__(costs, 0)
        self.flag = False

    def update(self, arm, outputs, rng):
        self.flag = arm


class IntToFloat(FixedArm):
    """An int stored in a float field loses nothing and is allowed."""

    def __init__(self, costs):
        super().__init__(costs, 0)
        self.last = 0.0

    def update(self, arm, outputs, rng):
        self.last = arm


@pytest.mark.parametrize(("cls", "kinds"), [(Drifting, "an int .* a float"), (BoolDrift, "a bool .* an int")])
def test_a_field_keeps_its_kind(cls, kinds):
    with pytest.raises(
        CannotLower, match=rf"update\(\) line \d+: the field '\w+' starts as {kinds}"
    ) as caught:
        Compiled(PROBLEM, cls(PROBLEM.costs))
    assert "\n" not in str(caught.value)


def test_an_int_may_enter_a_float_field():
    Compiled(PROBLEM, IntToFloat(PROBLEM.costs))


def test_rank_down_orders_as_a_stable_sort():
    from weakfeedback.kernels.loops import ordered_sum, rank_down

    rng = np.random.default_rng(5)
    for n in (1, 2, 5, 64, 65, 200):
        values = rng.integers(0, 4, size=n).astype(float)
        assert np.array_equal(rank_down(values), np.argsort(-values, kind="stable"))
    assert ordered_sum(np.array([1e16, 1.0, -1e16])) == 0.0  # left to right, unlike math.fsum
