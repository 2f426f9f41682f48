"""Untrusted text made safe to show: without characters that control a terminal, or hide or reverse other text."""

import unicodedata

LONGEST = 2000  # maximum number of characters of a message


def visible(text: str, keep: str = "") -> str:
    r"""Return the text with control, format and unassigned characters as escapes; those in ``keep`` stay.

    >>> visible("a\x1b[31m\u202eb"), visible("one\ntwo", keep="\n"), visible("Müller ξ")
    ('a\\x1b[31m\\u202eb', 'one\ntwo', 'Müller ξ')
    """
    if text.isprintable():
        return text
    return "".join(one if one in keep or not _hidden(one) else _escaped(one) for one in text)


def one_line(text: str, longest: int = LONGEST) -> str:
    r"""Return the text on one line of bounded length.

    >>> one_line(" one\n two\x07"), one_line("x" * 9, 6)
    ('one two\\x07', 'xxx...')
    """
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 3] + "..."


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "stage"), counted(1200, "stage"), counted(2, "policy", "policies")
    ('1 stage', '1,200 stages', '2 policies')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def numbered(number: int, one: str) -> str:
    """Return a number without commas, with its noun.

    >>> numbered(1, "stage"), numbered(1200, "stage")
    ('1 stage', '1200 stages')
    """
    return f"{number} {one if number == 1 else one + 's'}"


def with_article(name: str) -> str:
    """Return a name with its indefinite article.

    >>> with_article("Allocator"), with_article("Router")
    ('an Allocator', 'a Router')
    """
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


def _hidden(one: str) -> bool:
    return unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _escaped(one: str) -> str:
    return one.encode("unicode_escape", "surrogatepass").decode("ascii")
