"""Formulas in plain words, such as "at most 3 (alpha K log T)^{1/3} T^{2/3}", set as MathML that browsers draw.

Formulas are written in plain-text notation: ``x_i`` and ``x^2``, names of Greek letters, ``sqrt``, ``<=``. Text that
does not look like a formula, or cannot be parsed as one, stays as it is.
"""

from __future__ import annotations

import re
from typing import Any

_NAMES = "alpha beta gamma delta epsilon eps kappa lambda mu xi pi rho sigma theta phi Delta"
GREEK = dict(zip(_NAMES.split(), "αβγδεεκλμξπρσθφΔ", strict=True))
FUNCTIONS = ("log", "ln", "max", "min", "exp", "ceil", "floor")
OPERATORS = {"<=": "≤", ">=": "≥", "!=": "≠", "-": "−", "...": "…", ":=": ":=", "~": "≈"}
RELATIONS = ("=", "<", ">", "<=", ">=", "!=", ":=")
# letters that are words, or that number instances
WORDS = ("a", "A", "I")
_GREEK = "|".join(sorted(GREEK, key=len, reverse=True))
_STRONG = re.compile(
    rf"[A-Za-z0-9)}}\]'*][_^](?=[\w({{-])|(?<![A-Za-z])(?:{_GREEK})(?![a-z])|\bsqrt\b|<=|>=|!=|\bO\("
)
_WEAK = re.compile(
    r"[A-Za-z](?:'|\*)?|[\d.,]*\d|\d*[A-Z](?:[-+/]\d+)?|[-+/*=<>|]|:=|\.\.\.|log|ln|max|min|in|[A-Z]{2,4}\)|(?:max|min|ceil|floor|[A-Za-z])?[({\[|].*|.*[)}\]]"
)
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?: \d{3}\b)*(?:\.\d+)?|\.\d+)|(?P<name>[A-Za-z]+(?:[-_]hat(?![a-z]))?)"
    r"|(?P<mark><=|>=|!=|:=|\.\.\.|.)"
)
_PAIRS = {"(": ")", "{": "}", "[": "]"}


class _NotAFormula(Exception):
    """The text is not a formula; it is shown unchanged."""


def set_formulas(text: str) -> Any:
    """Return the markup of a text with its formulas typeset.

    >>> str(set_formulas("as 2 T^{1/2} or less"))
    'as <math><mn>2</mn><msup><mi>T</mi><mrow><mn>1</mn><mo>/</mo><mn>2</mn></mrow></msup></math> or less'
    >>> str(set_formulas("regret < of <b>"))
    'regret &lt; of &lt;b&gt;'
    """
    from markupsafe import Markup, escape

    made = []
    for piece, is_formula in _pieces(text):
        try:
            made.append(Markup(f"<math>{_Reader(piece).whole()}</math>") if is_formula else escape(piece))
        except _NotAFormula:
            made.append(escape(piece))
    return Markup("").join(made)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Split the text into pieces, each with whether it is a formula."""
    parts = re.split(r"(\s+)", text)
    chunks, spaces = parts[0::2], [*parts[1::2], ""]
    found: list[tuple[str, bool]] = []
    k = 0
    while k < len(chunks):
        end = _end(chunks, k)
        if end == k:
            found.append((chunks[k] + spaces[k], False))
            k += 1
            continue
        words = "".join(chunk + space for chunk, space in zip(chunks[k:end], spaces[k:end])).rstrip()
        bare = re.sub(r"[.,;:]+$", "", words)
        found += [(bare, True), (words[len(bare) :] + spaces[end - 1], False)]
        k = end
    return found


def _end(chunks: list[str], start: int) -> int:
    """Return the end of the formula that begins at a chunk; ``start`` itself if none begins there."""
    end, depth, last = start, 0, start
    while end < len(chunks):
        chunk = chunks[end]
        bare = re.sub(r"[.,;:]+$", "", chunk)
        if (
            not bare
            or chunk.startswith("[...]")
            or not (_STRONG.search(bare) or _WEAK.fullmatch(bare))
            or _has_words(bare)
        ):
            break
        if end == start and (bare in ("in", *RELATIONS, "+", "-", "/", "*") or bare[0] in ")]}"):
            break
        if end == start and bare in WORDS and (chunks[start + 1 : start + 2] or [""])[0] not in RELATIONS:
            break
        depth += sum(bare.count(mark) for mark in "({[") - sum(bare.count(mark) for mark in ")}]")
        if depth < 0:
            break
        end += 1
        if depth == 0 and bare not in ("in", *RELATIONS, "+", "-", "/", "*", *FUNCTIONS):
            last = end
        if depth == 0 and bare != chunk:
            break
    words = chunks[start:last]
    strong = any(_STRONG.search(word) for word in words)
    related = len(words) >= 3 and any(word in RELATIONS for word in words)
    # one letter alone is a symbol of the thesis, unless it is a word
    symbol = len(words) == 1 and re.fullmatch(r"[B-HJ-Zd-h]'?[.,;:]?", words[0]) is not None
    return last if strong or related or symbol else start


def _has_words(chunk: str) -> bool:
    """Whether a chunk holds a word of prose, as (eps,delta)-optimal does; names with a subscript do not count."""
    names = re.findall(r"[A-Za-z]+", re.sub(r"[_^]\{?[\w,*]+\}?|[-_]hat", "", chunk))
    known = (*GREEK, *FUNCTIONS, "sqrt", "Regret", "in")
    return any(len(name) > 1 and name not in known and not _is_product(name) for name in names)


def _is_product(name: str) -> bool:
    """Whether a name is capitals in a row, read as a product: KT, TKSQ."""
    return name.isupper() and len(name) <= 4


class _Reader:
    """Reads a formula from left to right."""

    def __init__(self, text: str) -> None:
        self.tokens = [(m.lastgroup or "", m.group()) for m in _TOKEN.finditer(text)]
        self.tokens = [token for token in self.tokens if token[0] != "space"]
        self.k = 0

    def whole(self) -> str:
        made = self.row("")
        if self.k < len(self.tokens):
            raise _NotAFormula
        return made

    def row(self, end: str) -> str:
        """Read everything up to a closing mark."""
        made = []
        while self.k < len(self.tokens) and self.next() != end:
            if self.next() in ")}]":
                raise _NotAFormula
            made.append(self.signed())
        return "".join(made)

    def next(self) -> str:
        return self.tokens[self.k][1] if self.k < len(self.tokens) else ""

    def signed(self) -> str:
        """Read a base with its subscript and superscript."""
        base, below, above = self.base(), "", ""
        while self.next() in ("_", "^", "'", "*"):
            mark = self.next()
            if mark == "*" and not base.startswith("<mi>"):
                break  # a product
            self.k += 1
            if mark == "_":
                below += self.sign(below=True)
            else:
                above += (
                    self.sign(below=False) if mark == "^" else f"<mo>{'′' if mark == chr(39) else '∗'}</mo>"
                )
        if below and above:
            return f"<msubsup>{base}{_wrap_in_row(below)}{_wrap_in_row(above)}</msubsup>"
        if below:
            return f"<msub>{base}{_wrap_in_row(below)}</msub>"
        return f"<msup>{base}{_wrap_in_row(above)}</msup>" if above else base

    def sign(self, below: bool) -> str:
        """Read a subscript or superscript: a group, or the letters and numbers that follow."""
        if self.next() in ("{", "("):
            mark = self.next()
            self.k += 1
            made = self.row(_PAIRS[mark])
            self.close(_PAIRS[mark])
            return made
        made = ""
        if self.next() == "-":
            self.k += 1
            made = "<mo>−</mo>"
        kind, text = self.tokens[self.k] if self.k < len(self.tokens) else ("", "")
        if kind not in ("name", "number"):
            raise _NotAFormula
        self.k += 1
        made += f"<mn>{text}</mn>" if kind == "number" else _set_letters(text, below)
        while below and self.next() == "*":  # p_i*j, C_i*
            self.k += 1
            made += "<mo>∗</mo>"
            if self.k < len(self.tokens) and self.tokens[self.k][0] == "name":
                made += _set_letters(self.tokens[self.k][1], below)
                self.k += 1
        return made

    def base(self) -> str:
        kind, text = self.tokens[self.k]
        self.k += 1
        if kind == "number":
            return f"<mn>{text}</mn>"
        if kind == "name":
            if text == "sqrt":
                return self.root()
            return _name(text)
        if text in _PAIRS:
            made = self.row(_PAIRS[text])
            self.close(_PAIRS[text])
            return f"<mrow><mo>{text}</mo>{made}<mo>{_PAIRS[text]}</mo></mrow>"
        if text in ("_", "^", ")", "}", "]"):
            raise _NotAFormula
        shown = OPERATORS.get(text, text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<mo>{shown}</mo>"

    def root(self) -> str:
        if self.next() == "(":
            self.k += 1
            made = self.row(")")
            self.close(")")
        elif self.k < len(self.tokens):
            made = self.base()
        else:
            raise _NotAFormula
        return f"<msqrt>{made}</msqrt>"

    def close(self, mark: str) -> None:
        if self.next() != mark:
            raise _NotAFormula
        self.k += 1


def _name(text: str) -> str:
    plain = re.sub(r"[-_]hat$", "", text)
    if plain != text:
        return f"<mover><mi>{GREEK.get(plain, plain)}</mi><mo>^</mo></mover>"
    if text in GREEK:
        return f"<mi>{GREEK[text]}</mi>"
    if text == "in":
        return "<mo>∈</mo>"
    if text in FUNCTIONS or not _is_product(text):
        return f"<mi>{text}</mi>"  # browsers set names of several letters upright
    return "".join(f"<mi>{letter}</mi>" for letter in text)


def _set_letters(text: str, below: bool) -> str:
    """Typeset indices such as ij letter by letter, and names such as max, WD and CP in one piece."""
    if text in GREEK:
        return f"<mi>{GREEK[text]}</mi>"
    if below and ((text.isupper() and len(text) > 1) or text in FUNCTIONS):
        return f"<mtext>{text}</mtext>"
    return "".join(f"<mi>{letter}</mi>" for letter in text)


def _wrap_in_row(made: str) -> str:
    """Return a single element, as MathML requires for subscripts and superscripts."""
    return (
        made if re.fullmatch(r"<m[ino]>[^<]*</m[ino]>|<mtext>[^<]*</mtext>", made) else f"<mrow>{made}</mrow>"
    )
