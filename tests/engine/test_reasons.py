"""What cannot be compiled is said in one line: the method, the line in it, what stands there, and a remedy."""

import functools
import inspect
import re

import numpy as np
import pytest

from weakfeedback.cascade import CascadeProblem
from weakfeedback.checks import check_policy
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.compiler.reasons import LONGEST, reason
from weakfeedback.engine.replication import Compiled

PROBLEM = CascadeProblem.bsc([0.4, 0.2, 0.1], costs=[0.05, 0.15, 0.4])
TABLE = np.zeros(3)
COUNT = 0


class Small:
    """A policy that compiles quickly; those below are this one with something in it."""

    delay_safe = True

    def __init__(self, costs):
        self.K = len(costs)

    def select(self, rng):
        return 0

    def update(self, arm, outputs, rng):
        pass

    def update_pairs(self, arm, differ, rng):
        pass


class Tables(Small):
    """With arrays."""

    def __init__(self, costs):
        super().__init__(costs)
        self.C = np.array(costs)
        self.S = np.ones((self.K, self.K))


def transformed(values):
    return np.fft.fft(values)[0].real  # here


class CallsItself(Small):
    def select(self, rng):
        return self.down(self.K - 1)

    def down(self, k):
        return 0 if k <= 0 else self.down(k - 1)  # here


class CallEachOther(Small):
    def select(self, rng):
        return self.down(self.K - 1)

    def down(self, k):
        return 0 if k <= 0 else self.up(k - 1)

    def up(self, k):
        return self.down(k)


def even(n):
    return 0 if n <= 0 else odd(n - 1)


def odd(n):
    return 1 if n <= 0 else even(n - 1)


class HelpersCallEachOther(Small):
    def select(self, rng):
        return even(self.K)


def halved(n, x):
    return x if n <= 0 else halved(n - 1, 0.5 * x)


class HelperChangesKind(Small):
    def select(self, rng):
        return int(halved(self.K, self.K)) * 0


class Walrus(Small):
    def select(self, rng):
        if (k := int(self.K * rng.random())) > 0:  # here
            return k
        return 0


class ReadsProperty(Small):
    @property
    def last(self):
        return self.K - 1

    def select(self, rng):
        return self.last  # here


class ReadsCachedProperty(Small):
    @functools.cached_property
    def last(self):
        return self.K - 1

    def select(self, rng):
        return self.last  # here


class CallsStatic(Small):
    @staticmethod
    def half(x):
        return x // 2

    def select(self, rng):
        return self.half(self.K)  # here


class CallsClassMethod(Small):
    @classmethod
    def half(cls, x):
        return x // 2

    def select(self, rng):
        return self.half(self.K)  # here


class PercentileOfRows(Tables):
    def select(self, rng):
        return int(np.percentile(self.S, 30.0, axis=1)[0]) * 0  # here


class SortsByKeys(Tables):
    def select(self, rng):
        return int(np.lexsort((self.C, self.C))[0])  # here


class InHelper(Tables):
    def select(self, rng):
        return int(transformed(self.C)) * 0


class WritesGlobalArray(Small):
    def update(self, arm, outputs, rng):
        TABLE[arm] += 1.0  # here


class FormatsInFString(Tables):
    def select(self, rng):
        return len(f"{self.C[0]:.3f}") * 0  # here


class HasDict(Small):
    def __init__(self, costs):
        super().__init__(costs)
        self.known = {0: 1}


class FormatsByPercent(Small):
    def select(self, rng):
        return len("%d" % self.K) * 0  # noqa: UP031  # here


class FormatsByMethod(Small):
    def select(self, rng):
        return len("{}".format(self.K)) * 0  # noqa: UP032  # here


class CatchesValueError(Small):
    def select(self, rng):
        try:
            return int(self.K * rng.random())
        except ValueError:  # here
            return 0


class GeneratorExpression(Small):
    def select(self, rng):
        return sum(k for k in range(self.K)) * 0  # here


class LambdaDefault(Small):
    def select(self, rng, key=lambda x: x):  # here
        return key(self.K - 1)


class SetComprehension(Small):
    def select(self, rng):
        return len({2 * k for k in range(self.K)}) - 1  # here


class MixedList(Small):
    def select(self, rng):
        values = [1]
        values.append("x")  # here
        return len(values) - 1


class InvertsTensor(Tables):
    def select(self, rng):
        return int(np.linalg.tensorinv(self.S)[0, 0]) * 0  # here


class KeywordOnly(Small):
    def select(self, rng):
        return self.pick(k=1)

    def pick(self, *, k):  # here
        return k


class CountsGlobally(Small):
    def update(self, arm, outputs, rng):
        global COUNT
        COUNT += 1  # here


class AsksForArray(Tables):
    def select(self, rng):
        return 1 if isinstance(self.C, np.ndarray) else 0  # here


class PrintsWithSep(Small):
    def update(self, arm, outputs, rng):
        print(arm, 2, sep=",")  # here


class MakesField(Small):
    def update(self, arm, outputs, rng):
        self.extra = arm  # here


class ReadsUnknownField(Tables):
    def update(self, arm, outputs, rng):
        self.S[0, 1] += self.missing  # here


class OpensContext(Tables):
    def update(self, arm, outputs, rng):
        with np.errstate(all="ignore"):  # here
            self.S[0, 1] += 1.0


class Imports(Small):
    def select(self, rng):
        import math  # here

        return int(math.sqrt(1.0))


class Unpacks(Small):
    def select(self, rng):
        first, *_rest = 1, 2, 3  # here
        return first


class TwoKinds(Small):
    def select(self, rng):
        x = 1
        if rng.random() > 0.5:
            x = "a"
        return len(str(x)) * 0  # here


class ReturnsTwoKinds(Small):
    def select(self, rng):
        if rng.random() > 0.5:
            return "a"  # here
        return 1


class DrawsChoice(Small):
    def select(self, rng):
        return int(rng.choice(self.K))  # here


class ReadsClassText(Small):
    names = ("a", "b")

    def select(self, rng):
        return len(self.names) - 1  # here


class TooManyArguments(Small):
    def select(self, rng):
        return self.pick(1, 2)  # here

    def pick(self, k):
        return k


class Undefined(Small):
    def select(self, rng):
        return nowhere  # noqa: F821  # here


class MasksMatrix(Tables):
    """The compiler fails with an assertion and says nothing."""

    def select(self, rng):
        self.S[self.S > 3.0] = 1.0  # here
        return 0


CASES = {
    CallsItself: "down() line #: down() calls itself: the compiler knows no recursion of methods, write a loop",
    CallEachOther: "down() and up() call each other|up() and down() call each other",
    HelpersCallEachOther: "functions that call each other, or themselves with arguments of another kind",
    HelperChangesKind: "functions that call each other, or themselves with arguments of another kind",
    Walrus: "select() line #: ':=' is not supported: assign in a statement of its own",
    ReadsProperty: "select() line #: reads the property 'last': make it a plain method",
    ReadsCachedProperty: "select() line #: reads the property 'last': make it a plain method",
    CallsStatic: "select() line #: calls the static method 'half': make it a plain method with self",
    CallsClassMethod: "select() line #: calls the class method 'half': make it a plain method with self",
    PercentileOfRows: "select() line #: percentile() is not supported for a 2d array of float64, float, axis=int: use",
    SortsByKeys: "select() line #: numpy.lexsort is not supported, or not in this use: write it as a loop",
    InHelper: "transformed() line #: numpy.fft.fft is not supported: write it as a loop",
    WritesGlobalArray: "update() line #: writes to the global array 'TABLE': make it a field in __init__",
    FormatsInFString: "select() line #: a format in an f-string ('.3f') is not supported: leave texts",
    HasDict: "the field 'known' of HasDict is a dict: use int, float, bool and arrays of them",
    FormatsByPercent: "select() line #: formatting a text with % is not supported: leave texts",
    FormatsByMethod: "select() line #: formatting a text with format() is not supported: leave texts",
    CatchesValueError: "select() line #: 'except ValueError' is not supported: catch Exception, or test before",
    GeneratorExpression: "select() line #: a generator expression is not supported: write a loop",
    LambdaDefault: "select() has a function for the default of an argument: use numbers, * (line #)",
    SetComprehension: "select() line #: a set comprehension is not supported: write a loop",
    MixedList: "select() line #: list.append() of list(int64) with str is not supported: keep one kind of value",
    InvertsTensor: "select() line #: numpy.linalg.tensorinv is not supported: write it as a loop",
    KeywordOnly: "pick() takes k by keyword or position only: make it a plain argument (line #)",
    CountsGlobally: "update() line #: assigns the global 'COUNT': make it a field in __init__",
    AsksForArray: "select() line #: numpy.ndarray is not supported, or not in this use",
    PrintsWithSep: "update() line #: print() with sep= is not supported: print plain values",
    MakesField: "update() makes the field 'extra': make every field in __init__ (line #)",
    ReadsUnknownField: "update() line #: Unknown attribute 'missing' of the policy: it is neither a field",
    OpensContext: "update() line #: 'with' is not supported: do without",
    Imports: "select() line #: an import inside a method is not supported: import at the top of the module",
    Unpacks: "select() line #: unpacking with * is not supported: take the values one by one",
    TwoKinds: "select() line #: 'x' is int and str: let a name stand for one kind of value",
    ReturnsTwoKinds: "select() line * returns values of different kinds (int, str): return one kind",
    DrawsChoice: "select() line #: rng.choice() is not supported: draw with rng.random()",
    ReadsClassText: "select() line #: reads 'names' of the class: make it a field in __init__",
    TooManyArguments: "select() line #: a call that does not fit what it calls: too many positional arguments",
    Undefined: "select() line #: the name 'nowhere' is not defined",
    MasksMatrix: "select() line #: the compiler does not support this and says nothing more: write it with scalars",
}


def marked_line(cls):
    """The line of this file that is marked in a class, or in its helper."""
    for source in (cls, transformed):
        lines, first = inspect.getsourcelines(source)
        marked = [first + k for k, line in enumerate(lines) if line.rstrip().endswith("# here")]
        if marked:
            return marked[0]
    raise AssertionError(f"no line of {cls} is marked")


def fits(expected, said, line):
    patterns = [
        re.escape(part).replace(r"\#", str(line)).replace(r"\ \*\ ", ".*") for part in expected.split("|")
    ]
    return any(re.search(pattern, said) for pattern in patterns)


# Numba makes a function of a generator's code, of which Python 3.13 warns
@pytest.mark.filterwarnings("ignore:Assigning a code object:DeprecationWarning")
@pytest.mark.parametrize(("cls", "expected"), CASES.items(), ids=[cls.__name__ for cls in CASES])
def test_one_line_names_the_construct_the_method_and_the_line(cls, expected):
    with pytest.raises(CannotLower) as caught:
        Compiled(PROBLEM, cls(PROBLEM.costs))
    said = str(caught.value)
    assert fits(expected, said, marked_line(cls)), said
    assert len(said) <= LONGEST
    assert len(said.splitlines()) == 1
    for word in ("nopython", "signature:", "site-packages", ".py", "0x", "Borrowed", "@"):
        assert word not in said


class Allowed(Small):
    """Much that looks like the above."""

    def select(self, rng):
        k = self.text() + self.caught(rng) + self.inner() + self.compared()
        for arm in self.arms():
            if rng.random() > 0.5:
                return (arm + k) % self.K
        return k % self.K

    def text(self):
        return len(f"arm {self.K}")

    def caught(self, rng):
        k = 0
        try:
            k = int(self.K * rng.random())
        except Exception:
            k = 1
        return k

    def inner(self):
        def last(x):
            return x - 1

        return max(last(self.K) - len({1, 2}), (lambda x: x)(0))

    def arms(self):
        for k in range(self.K):
            yield k + 0

    def compared(self):
        match self.K:
            case 3:
                return 1 if isinstance(self.K, int) else 0
            case _:
                return 2


def test_what_the_compiler_can_do_is_not_refused_and_does_the_same():
    report = check_policy(lambda p: Allowed(p.costs), PROBLEM, rounds=60)
    assert "compiled as interpreted" in report.passed


class YieldsArms(Small):
    def arms(self):
        yield from range(self.K)

    def select(self, rng):
        for k in self.arms():
            if rng.random() > 0.5:
                return k
        return 0


def test_yield_from_is_refused_by_name():
    with pytest.raises(CannotLower, match=r"arms\(\) line \d+: 'yield' is not supported here: write a loop"):
        Compiled(PROBLEM, YieldsArms(PROBLEM.costs))


def made_by_exec():
    """A function without a source."""
    scope = {}
    exec("def select(self, rng):\n    return (k := self.K) * 0\n", scope)
    return scope["select"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the compiler does not support this and says nothing more: write it with scalars and loops"),
        ("Failed in nopython mode pipeline (step: nopython frontend)", "this and says nothing more"),
        (
            "Failed in nopython mode pipeline (step: lowering)\nTypingError: Strange things at /usr/lib/x.py (3)\n",
            "the compiler does not support this: Strange things",
        ),
        ("Numba cannot do this: " + "a" * 1000, "the compiler cannot do this"),
        (
            "no parentheses end here: a.B@0123456789abcdef0123(('C', array",
            "no parentheses end here: the policy",
        ),
    ],
)
def test_an_unknown_message_is_never_cut_off(text, said):
    found = reason(ValueError(text), {"select": made_by_exec()})
    assert said in found
    assert len(found) <= LONGEST
    assert len(found.splitlines()) == 1
    assert "nopython" not in found
    assert ".py" not in found
