"""Traps between the interpreter, the compiler, the caches and the workers: each of these once gave wrong numbers."""

import dataclasses
import math
import multiprocessing
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest

from weakfeedback import InterpretedWarning, simulate
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.engine.compiler.fingerprint import CannotLower, fingerprint
from weakfeedback.engine.plan import Plan
from weakfeedback.engine.replication import Compiled, fresh, nan_field, run

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])


class Arm:
    """Plays arm 1; the classes below are this one with a trap in it."""

    delay_safe = True

    def __init__(self):
        self.K = 3

    def select(self, rng):
        return 1

    def update(self, arm, outputs, rng):
        pass


def pulls(policy, compiled=True, **options):
    results = simulate(
        PROBLEM, {"p": policy}, **{"horizon": 30, "replications": 2, "compiled": compiled, **options}
    )
    last = results.frame[results.frame["round"] == 30]
    return last[["pulls_0", "pulls_1", "pulls_2"]].to_numpy().tolist()


# ---- what select returns


class SaysBool(Arm):
    def select(self, rng):
        return rng.random() < 0.5


class SaysNumpyBool(Arm):
    def __init__(self):
        super().__init__()
        self.choice = np.array([False, True])

    def select(self, rng):
        return self.choice[int(2 * rng.random())]


class SaysNumpyInt(Arm):
    def select(self, rng):
        return np.int64(1)


@pytest.mark.parametrize("cls", [SaysBool, SaysNumpyBool, SaysNumpyInt])
def test_a_bool_is_arm_0_or_1_and_one_pull_is_counted(cls):
    fast, slow = pulls(cls()), pulls(cls(), compiled=False)
    assert fast == slow
    assert [sum(row) for row in fast] == [30, 30]


class SaysFloat(Arm):
    def select(self, rng):
        return 1.5


def test_half_an_arm_is_an_error():
    with pytest.raises(ValueError, match=r"it must be an arm from 0 to 2, got 1.5 from SaysFloat.select\(\)"):
        pulls(SaysFloat(), compiled=False)


# ---- what must not be compiled


def bump(policy):
    policy.n += 0.5


class DriftsInHelper(Arm):
    def __init__(self):
        super().__init__()
        self.n = 0

    def update(self, arm, outputs, rng):
        bump(self)


class Base(Arm):
    def best(self):
        return 0

    def select(self, rng):
        return self.best()


class Replaced(Base):
    @staticmethod
    def best():
        return 2


class Holds(Arm):
    def __init__(self, value):
        super().__init__()
        self.x = value


class Clamped(Arm):
    def __init__(self):
        super().__init__()
        self.x = 0

    def __setattr__(self, name, value):
        object.__setattr__(self, name, min(value, 3))

    def update(self, arm, outputs, rng):
        self.x += 1


class Managed(Arm):
    def __init__(self):
        super().__init__()
        self.__dict__["x"] = 0

    @property
    def x(self):
        return self.__dict__["x"] + 1

    def select(self, rng):
        return self.x


class KeywordOnly(Arm):
    def pick(self, a=0, *, b):
        return a + b

    def select(self, rng):
        return self.pick(b=1)


class GlobalDraws(Arm):
    def select(self, rng):
        return int(3 * np.random.random())


@dataclasses.dataclass(frozen=True)
class Frozen:
    K: int = 3
    x: float = 0.0
    delay_safe = True

    def select(self, rng):
        return 1

    def update(self, arm, outputs, rng):
        self.x += 1.0


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (DriftsInHelper(), "field 'n' starts as an int and is assigned a float"),
        (Replaced(), "calls the static method 'best'"),
        (Holds(np.float32(0.1)), "the field 'x' of Holds is a float32"),
        (Holds(np.int32(1)), "the field 'x' of Holds is a int32"),
        (Holds(np.zeros(2, dtype=np.float32)), "is an array of float32"),
        (Holds(np.zeros(2, dtype=np.float16)), "is an array of float16"),
        (Holds(np.zeros(2, dtype=np.uint64)), "is an array of uint64"),
        (Holds(np.zeros(2, dtype=np.int32)), "is an array of int32"),
        (Holds(np.zeros(2, dtype=">f8")), "is an array of >f8"),
        (Holds(np.ma.masked_array([1.0, 2.0])), "is a MaskedArray of float64"),
        (Holds((1, 2)), "is a tuple"),
        (Clamped(), r"update\(\) sets 'x' through a __setattr__ of Clamped"),
        (Frozen(), r"update\(\) sets 'x' through a __setattr__ of Frozen"),
        (Managed(), "the field 'x' is also a property of Managed"),
        (KeywordOnly(), r"pick\(\) takes b by keyword"),
        (GlobalDraws(), r"select\(\) draws from np.random: use the generator it is given"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_what_would_run_differently_is_not_compiled(policy, words):
    with pytest.raises(CannotLower, match=words) as caught:
        Compiled(PROBLEM, policy)
    assert "\n" not in str(caught.value)


def test_an_inherited_method_that_was_replaced_is_not_taken_for_the_new_one():
    with pytest.warns(InterpretedWarning):
        assert pulls(Replaced()) == [[0, 0, 30], [0, 0, 30]]


def chosen(policy):
    return policy.favourite()


class AsksHelper(Arm):
    def favourite(self):
        return 2

    def select(self, rng):
        return chosen(self)


def test_a_helper_may_call_methods():
    results = simulate(PROBLEM, {"p": AsksHelper()}, horizon=10, replications=1)
    assert results.compiled["p"] is True
    assert results.frame["pulls_2"].iloc[-1] == 10


# ---- copies


class Shares(Arm):
    def __init__(self):
        super().__init__()
        self.log = [0]
        self.same = self.log
        self.pick = self.favourite

    def favourite(self):
        return min(self.same[0], 2)

    def select(self, rng):
        return self.pick()

    def update(self, arm, outputs, rng):
        self.log[0] += 1


def test_copies_keep_what_belongs_together():
    policy = Shares()
    assert pulls(policy, compiled=False) == [[1, 1, 28], [1, 1, 28]]
    assert policy.log == [0]
    copy = fresh(policy)
    assert copy.log is copy.same
    assert copy.pick.__self__ is copy


def test_only_numbers_are_looked_at_for_nan():
    import pandas as pd

    state = {"frame": pd.DataFrame({"a": [1.0]}), "masked": np.ma.masked_array([1.0, 2.0]), "text": "nan"}
    assert nan_field(state) is None
    assert nan_field({**state, "x": math.nan}) == "x"
    assert nan_field({"a": np.array([0.0, np.nan])}) == "a"


# ---- the digest


def digest(text, names="f", **scope):
    exec(text, scope)
    return fingerprint({name: scope[name] for name in names})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (math.floor, math.ceil),
        (np.floor, np.ceil),
        (np.zeros, np.ones),
        (np.dtype("f4"), np.dtype("f8")),
        (np.float32, np.float64),
        (np.array([0.123456789123]), np.array([0.123456789999])),
    ],
    ids=["math", "ufunc", "function", "dtype", "type", "array"],
)
def test_a_name_that_stands_for_something_else_is_another_digest(one, other):
    for text in ("def f(x): return h(x)", "def f(x, y=h): return y"):
        assert digest(text, h=one) == digest(text, h=one)
        assert digest(text, h=one) != digest(text, h=other)


def test_a_second_name_of_a_helper_counts():
    text = "def a(x): return x\ndef b(x): return -x\ndef f(x): return a(x) + b(x)\ndef g(x): return c(x)\n"
    assert digest(text + "c = a", "fg") != digest(text + "c = b", "fg")


# ---- the store

EDITED = {
    "static method": "    @staticmethod\n    def best(): return {}\n    def select(self, rng): return self.best()",
    "class method": "    @classmethod\n    def best(cls): return {}\n    def select(self, rng): return self.best()",
    "property": "    @property\n    def best(self): return {}\n    def select(self, rng): return self.best",
    "constant": "    best = {}\n    def select(self, rng): return self.best",
    "length": "    def __len__(self): return {}\n    def select(self, rng): return len(self)",
    "inner helper": "    def best(self): return {}\n    def select(self, rng): return ask(self)",
    "long table": (
        "    def prepare(self):\n        self.d = {{'w': np.zeros(5000)}}\n        self.d['w'][2500] = {}\n"
        "    def select(self, rng): return int(self.d['w'][2500])"
    ),
    "object": (
        "    def prepare(self):\n        self.model = Model()\n        Model.best = {}\n"
        "    def select(self, rng): return self.model.best"
    ),
}


@pytest.mark.parametrize("what", EDITED)
def test_the_store_never_serves_what_was_edited(tmp_path, what):
    class Model:
        def __repr__(self):
            return "a model"

    found = []
    for arm in (1, 2):
        scope = {"np": np, "Arm": Arm, "Model": Model, "ask": lambda policy: policy.best()}
        exec("class Mine(Arm):\n" + EDITED[what].format(arm), scope)
        mine = scope["Mine"]()
        if hasattr(mine, "prepare"):
            mine.prepare()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(pulls(mine, store=tmp_path))
    assert found == [[[0, 30, 0]] * 2, [[0, 0, 30]] * 2]


def test_what_the_store_cannot_keep_it_says(tmp_path):
    policy = Holds(object())
    with pytest.warns(UserWarning, match="stores nothing for 'p': its field 'x' is a object"):
        pulls(policy, compiled=False, store=tmp_path)
    assert not list(tmp_path.glob("*.parquet"))


class Fails(Arm):
    def select(self, rng):
        return self.K


def test_what_was_finished_before_an_error_is_kept(tmp_path):
    class AtOnce:
        """Plays before anybody asks for results."""

        def submit(self, function, *arguments):
            from concurrent.futures import Future

            future = Future()
            try:
                future.set_result(function(*arguments))
            except ValueError as error:
                future.set_exception(error)
            return future

    policies = {"bad": Fails(), "good": UssTs(PROBLEM.costs)}
    with pytest.raises(ValueError, match="'bad' decided something impossible"):
        simulate(PROBLEM, policies, horizon=20, replications=2, store=tmp_path, executor=AtOnce())
    assert len(list(tmp_path.glob("*.parquet"))) == 1


# ---- workers


class Edited(Arm):
    pass


def test_a_worker_with_older_code_refuses():
    """A worker imports the class by name: what it finds may be what the class was before an edit."""
    plan = Plan(PROBLEM, {"p": Edited()}, horizon=30, replications=2)
    plan.prepare()
    sent = pickle.dumps(plan.task(0))
    assert run(pickle.loads(sent))[:, -1].tolist() == [[0, 30, 0]] * 2
    original = Edited.select
    try:
        Edited.select = lambda self, rng: 2
        with pytest.raises(ValueError, match="different code for this policy"):
            run(pickle.loads(sent))
    finally:
        Edited.select = original


def test_what_cannot_be_sent_is_named():
    class Local(Arm):
        pass

    words = r"policies\['p'\] cannot be sent to another process .*Local"
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as executor, pytest.raises(ValueError, match=words):
        pulls(Local(), executor=executor)
