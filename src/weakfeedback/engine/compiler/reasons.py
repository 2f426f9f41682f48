"""Why something cannot be compiled, in one line: the method, its line, the construct, and a remedy.

The compiler's own messages fill pages. ``reason`` finds the line they are about, looks there for a construct that is
known to be refused, and uses the compiler's first informative sentence only when there is none.
"""

import re
import types
from collections.abc import Callable
from typing import Any

from weakfeedback.engine.compiler.constructs import Construct, functions_of, read
from weakfeedback.engine.compiler.fingerprint import line_of
from weakfeedback.plaintext import one_line

LONGEST = 300  # maximum number of characters of a reason
PLACES = re.compile(r'File "([^"]+)", line (\d+)|(?:at|from) (\S+) \((\d+)\)')
# the compiler quotes the source: from "File" to the mark under the line
QUOTED = re.compile(r'File "[^"]*", line \d+:\n.*?\n *\^ *(?=\n|$)', re.DOTALL)
NOISE = re.compile(
    r"^(>>>|During:|raised from|File |There (is|are) \d|Of which|Overload |With argument|Rejected as|"
    r"Resolution failure|None$|No match|<source|\^|Failed in nopython|For Numba|precise type|"
    r"the type of empty|documentation|https?:|Return of:|This error|.*<function template|Enable logging)"
)
SIMPLE = {"int64": "int", "float64": "float", "bool": "bool", "unicode_type": "str", "none": "None"}


def reason(error: BaseException, methods: dict[str, types.FunctionType], cls: type | None = None) -> str:
    """Return one line that explains a compiler's error.

    Parameters
    ----------
    error : what the compiler raised
    methods : mapping of names to functions
        The methods that were compiled, as ``Blueprint.methods`` has them.
    cls : class, optional
        Whose methods they are: then properties and static methods are known by name.
    """
    text = _without_structs(re.sub(r"\x1b\[[0-9;]*m", "", str(error)))
    functions = functions_of(methods)
    places = _find_places(error, text, functions)
    name, line = places[0] if places else ("", 0)
    found = _find_construct(text, functions, methods, cls, name, line)
    if found is not None:
        name, construct = found
        return one_line(f"{name}() line {construct.line}: {construct.words}", LONGEST)
    sentences = _sentences(text) or [f"{type(error).__name__} inside the compiler"]
    # the round loop was refused, not a method
    in_loop = "the loop cannot use what a method returns: " if _is_of_loop(text) else ""
    for pattern, words in RULES:
        for match in filter(None, (re.search(pattern, sentence) for sentence in sentences)):
            if not name:
                name, line = _place_of_name(match[0], functions)
            return one_line(f"{_where(name, line) or in_loop}{words(match)}", LONGEST)
    first = _simplify(sentences[0])
    return one_line(f"{_where(name, line) or in_loop}the compiler does not support this: {first}", LONGEST)


def _is_of_loop(text: str) -> bool:
    return "typing of" in text and "<function template" not in text


def _where(name: str, line: int) -> str:
    if not name:
        return ""
    return f"{name}() line {line}: " if line else f"{name}(): "


def _find_places(
    error: BaseException, text: str, functions: dict[str, types.FunctionType]
) -> list[tuple[str, int]]:
    """Return the functions and lines that the message is about, the innermost first."""
    named = [(a or b, int(m or n)) for a, m, b, n in PLACES.findall(text)]
    found = []
    for path, line in (*named, *_find_compiler_places(error)):
        for name, function in functions.items():
            lines = [number for *_, number in function.__code__.co_lines() if number]
            same = function.__code__.co_filename.endswith(path.lstrip("./"))
            if same and min(lines) <= line <= max(lines):
                found.append((name, line))
    return found


def _find_compiler_places(error: BaseException) -> list[tuple[str, int]]:
    """Return where the compiler was when an error without a message was raised, the innermost place first."""
    found = []
    trace = error.__traceback__
    while trace is not None:
        place: Any = getattr(trace.tb_frame.f_locals.get("self"), "loc", None)
        if isinstance(getattr(place, "filename", None), str) and isinstance(
            getattr(place, "line", None), int
        ):
            found.append((place.filename, place.line))
        trace = trace.tb_next
    return found[::-1]


def _find_construct(
    text: str,
    functions: dict[str, types.FunctionType],
    methods: dict[str, types.FunctionType],
    cls: type | None,
    name: str,
    line: int,
) -> tuple[str, Construct] | None:
    """Return the construct that explains the message, the nearest to the line that it names."""
    found = [
        (where, construct)
        for where, function in functions.items()
        if not name or where == name
        for construct in read(function, methods, cls)
        if re.search(construct.sign, text)
    ]
    return min(found, key=lambda item: abs(item[1].line - line)) if found else None


def _sentences(text: str) -> list[str]:
    """Return the informative lines of a message, with the failed call put into its sentence."""
    text = re.sub(r"found for signature:\s*>>> ", "found for ", QUOTED.sub("", text))
    lines = [re.sub(r"^(\w+Error: )+", "", line.strip(" -\t")) for line in text.splitlines()]
    return [line for line in lines if line and not NOISE.match(line)]


def _without_structs(text: str) -> str:
    """Return the text with "the policy" instead of every type of a struct, which lists all fields."""
    while True:
        start = re.search(r"(Borrowed\()?[\w.<>]+@[0-9a-f]{20}\(", text)
        if start is None:
            return text
        end, depth = start.end(), start[0].count("(")
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = f"{text[: start.start()]}the policy{text[end:]}"


def _place_of_name(sentence: str, functions: dict[str, types.FunctionType]) -> tuple[str, int]:
    """Return the function that mentions an undefined name, and the line."""
    match = re.search(r"name '(\w+)' is not defined", sentence)
    for name, function in functions.items():
        if match and match[1] in function.__code__.co_names:
            return name, line_of(function.__code__, match[1]) or 0
    return "", 0


def _simplify(sentence: str) -> str:
    """Return a sentence without addresses, paths and the compiler's name."""
    sentence = re.sub(r" at 0x[0-9a-f]+", "", sentence)
    sentence = re.sub(r"\(?(from )?'?(/|[A-Za-z]:\\)\S+'?( \(\d+\))?\)?", "", sentence)
    sentence = re.sub(r"\bin nopython mode( pipeline)?( \(step: [^)]*\))?", "", sentence)
    sentence = re.sub(r"\bNumba\b", "the compiler", sentence).replace("signature:", "these arguments")
    return sentence.strip(" :,.") or "it says nothing more"


def _kind(text: str) -> str:
    """Return a compiler type in Python terms."""
    text = re.sub(r"Literal\[(\w+)\]\([^()]*\)", r"\1", text.strip())
    text = re.sub(r"<iv=[^>]*>", "", _simplify(text))
    text = re.sub(r"array\((\w+), (\d)d, \w\)", r"a \2d array of \1", text)
    return SIMPLE.get(text, text)


def _kinds(text: str) -> str:
    """Return a list of compiler types in Python terms."""
    text = re.sub(r"Literal\[(\w+)\]\([^()]*\)", r"\1", text)
    parts = re.split(r",(?![^()\[\]]*[)\]])", text)
    return ", ".join(dict.fromkeys(_kind(part) for part in parts))


def _no_attribute(match: re.Match[str]) -> str:
    name, owner = match[1], match[2]
    if owner == "the policy":
        words = "it is neither a field made in __init__ nor a plain method"
        return f"Unknown attribute {name!r} of the policy: {words}"
    module = re.match(r"Module\(<module '([\w.]+)'", owner)
    if module:
        return f"{module[1]}.{name} is not supported: write it as a loop"
    if owner.startswith(("weakfeedback.Stream", "NumPyRandomGenerator")):
        return f"rng.{name}() is not supported: draw with rng.random(), rng.beta() and the like"
    return f"the attribute {name!r} of {_kind(owner)} is not supported: write it as a loop, or do without"


def _no_function(match: re.Match[str]) -> str:
    name, _, arguments = match[1].partition("(")
    name = WORDS.get(name, f"{name.removeprefix('array_')}()")
    return f"{name} is not supported for {_kinds(arguments[:-1])}: use other arguments, or write it as a loop"


WORDS = {"getitem": "reading an item", "setitem": "writing an item", "static_getitem": "reading an item"}
RULES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"(the field .*: start it in __init__ as what it will be)", lambda m: m[1]),
    (r"(functions that call each other, .*: write a loop)", lambda m: m[1]),
    (r"name '(\w+)' is not defined", lambda m: f"the name {m[1]!r} is not defined"),
    (
        r"Untyped global name '(\w+)'",
        lambda m: f"{m[1]!r} is not supported: write it in another way, or do it outside the rounds",
    ),
    (r"Unknown attribute '(\w+)' of type (.*)", _no_attribute),
    (
        r"Use of unsupported NumPy function '([\w.]+)'",
        lambda m: f"{m[1]} is not supported, or not in this use: write it as a loop",
    ),
    (
        r"Cannot unify (.*) and (.*) for '([\w$]+?)(?:\.\d+)?'",
        lambda m: f"{m[3]!r} is {_kind(m[1])} and {_kind(m[2])}: let a name stand for one kind of value",
    ),
    (
        r"unify return type from the following types: (.*)",
        lambda m: (
            f"returns values of different kinds ({', '.join(sorted(_kinds(m[1]).split(', ')))}): return one kind"
        ),
    ),
    (
        r"Cannot infer the type of variable '([\w$]+?)(?:\.\d+)?'.*list\(undefined\)",
        lambda m: f"the list {m[1]!r} is empty, so that its kind is unknown: use an array",
    ),
    (
        r"Invalid use of BoundFunction\(([\w.]+) for (.*)\) with parameters \((.*)\)",
        lambda m: f"{m[1]}() of {_kind(m[2])} with {_kinds(m[3])} is not supported: keep one kind of value",
    ),
    (
        r"unsupported dtype for .*BLAS",
        lambda _: "a product of arrays that are not float is not supported: use float arrays",
    ),
    (
        r"Unsupported array index type (.*) in ",
        lambda m: f"an array cannot be indexed by {_kind(m[1])} here: use integers and loops",
    ),
    (r"[Cc]annot modify readonly", lambda _: "writes to an array that is only to be read: write to a field"),
    (
        r"Use of unsupported opcode \((\w+)\)",
        lambda m: f"the compiler does not support the instruction {m[1]}: write it in another way",
    ),
    (r"No implementation of function Function\(.*\) found for (\w+\(.*\))", _no_function),
    (
        r"(too many positional arguments|got an unexpected keyword argument '\w+'|missing a required argument: '\w+')",
        lambda m: f"a call that does not fit what it calls: {m[1]}",
    ),
    (
        r"^\w+ inside the compiler$",
        lambda _: "the compiler does not support this and says nothing more: write it with scalars and loops",
    ),
)
