"""What stages, models and money are called in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from weakfeedback.validate import brief


@dataclass(frozen=True, slots=True)
class Words:
    """The noun of what is called, its names if it has any, and the currency if it is known.

    >>> plain, named = Words(), Words("model", ("small", "large"), "USD")
    >>> plain.one(1), plain.pair(0, 1), plain.money(0.25)
    ('stage 1', 'stages 0 and 1', '0.25')
    >>> named.one(1), named.pair(0, 1), named.money(0.25)
    ('large', 'small and large', '0.25 USD')
    """

    noun: str = "stage"
    names: tuple[str, ...] | None = None
    currency: str | None = None

    def one(self, k: int) -> str:
        """Return what one of them is called in a sentence."""
        return f"{self.noun} {k}" if self.names is None else self.names[k]

    def first(self, k: int) -> str:
        """Return the same at the beginning of a sentence; a name stays as it is written."""
        return self.one(k).capitalize() if self.names is None else self.names[k]

    def short(self, k: int) -> str:
        """Return its number or name, for a table."""
        return str(k) if self.names is None else self.names[k]

    def several(self, which: Iterable[int]) -> str:
        """Return several of them in a list."""
        parts = [self.one(k) for k in which]
        return parts[0] if len(parts) == 1 else " and ".join([", ".join(parts[:-1]), parts[-1]])

    def pair(self, i: int, j: int) -> str:
        """Return two of them."""
        noun = f"{self.noun}s " if self.names is None else ""
        return f"{noun}{self.short(i)} and {self.short(j)}"

    def pair_first(self, i: int, j: int) -> str:
        """Return two of them at the beginning of a sentence."""
        return self.pair(i, j).capitalize() if self.names is None else self.pair(i, j)

    def width(self, least: int) -> int:
        """Return how wide a column of them is."""
        return max([least, *map(len, self.names or ())])

    def last(self) -> str:
        """Return the last of them."""
        return f"the last {self.noun}" if self.names is None else self.names[-1]

    def money(self, amount: float) -> str:
        """Return an amount of money, without unnecessary digits."""
        text = f"{amount:,.0f}" if abs(amount) >= 10_000 else f"{amount:.4g}"
        return text if self.currency is None else f"{text} {self.currency}"


STAGES, MODELS, ARMS = Words(), Words("model"), Words("arm")  # without names


def names_of(names: Any, size: int, noun: str) -> tuple[str, ...] | None:
    """Return the names of the stages, validated; None if there are none."""
    if names is None:
        return None
    sound = isinstance(names, (list, tuple)) and all(
        isinstance(name, str) and name and name.isprintable() for name in names
    )
    if not sound or len(names) != size or len(set(names)) != size:
        raise ValueError(f"names must be {size} different texts, one per {noun}, got {brief(names)}")
    return tuple(names)


def currency_of(currency: Any) -> str | None:
    """Return the name of a currency, validated; None if there is none."""
    if currency is not None and not (isinstance(currency, str) and currency and currency.isprintable()):
        raise ValueError(f"currency must be a text such as USD, got {brief(currency)}")
    return currency


_told = ContextVar("told", default=False)


@contextmanager
def prices_told_elsewhere() -> Iterator[None]:
    """Leave it to the caller to tell of prices at which nothing can pay: it has names for it."""
    before = _told.set(True)
    try:
        yield
    finally:
        _told.reset(before)


def are_prices_told() -> bool:
    """Whether the caller tells of prices at which nothing can pay."""
    return _told.get()


def saving_warning(costs: Sequence[float], reference: int, least: float, words: Words = STAGES) -> str | None:
    """Say what can save nothing beside a reference that is called with a chance of at least ``least``; None: nothing.

    >>> saving_warning([1, 20, 20], 2, 0.03, Words("model", ("small", "new", "large")))
    'never called, since they cost as much as large: new'
    >>> saving_warning([19.5, 20], 1, 0.03, Words("model", ("small", "large")))
    'nothing can be saved: no other model is cheaper than large by more than 3 %, which answers everything'
    """
    dear = [k for k, cost in enumerate(costs) if k != reference and cost >= (1.0 - least) * costs[reference]]
    name = "the reference" if words.names is None else words.one(reference)
    nearly = any(costs[k] < costs[reference] for k in dear)
    if len(dear) == len(costs) - 1:
        which = f"{name} is the {'cheapest' if dear else 'only'} {words.noun}, and answers everything"
        if nearly:
            less = f"cheaper than {name} by more than {100 * least:g} %"
            which = f"no other {words.noun} is {less}, which answers everything"
        return f"nothing can be saved: {which}"
    about = f"{name}, or nearly so" if nearly else name
    return f"never called, since they cost as much as {about}: {words.several(dear)}" if dear else None
