"""What a game is: one round of a live object, without lock, ids, journal or threads.

A `Core` runs a game. A game may read its code (``compare``, ``metric``, a feature map) and the methods of the policy
that it is bound to. It changes nothing but the policy and the generator, and these only inside ``choose``, ``advance``,
``teach``, ``drop`` and ``alters``. So whatever it does can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from weakfeedback.live.driver import Examples, Interpreted
from weakfeedback.live.form import Form

EXPLAINED = 1000  # decisions that can be explained


class Choice(NamedTuple):
    """A decision of the policy."""

    decided: Any  # what the ledger keeps: immutable, with all that ``teach`` needs
    why: Any = None  # what an explanation needs; None: nothing is kept
    counts: Any = None  # counts after the decision; None: deciding counts nothing
    waits: bool = True  # False: no answer is awaited
    chosen: Any = None  # in a replay, what the policy chose now, where something else was played
    talk: Any = None  # a turn of a conversation, and the model that answers it


class Altered(NamedTuple):
    """The outcome of an alteration."""

    body: dict[str, Any]  # as journalled: whatever was sampled is in it
    counts: Any = None
    terms: Any = None
    policy: Any = None  # another one, for other models; no decision was open
    talks: Any = None  # and the conversations
    talk: Any = None  # a turn of a conversation, and the model that answered it


class View(NamedTuple):
    """What reports, audits and certificates are made from."""

    counts: Any
    terms: Any
    pending: int
    rounds: int
    policy: Any  # up to date
    kept: Mapping[int, Any]


Alter = Callable[[dict[str, Any], Any, Any, np.random.Generator], Altered]


class Game(Protocol):
    """One kind of round. ``decided`` is what the ledger keeps, ``record`` what is learned, ``terms`` the prices.

    A stepwise game has ``told_of``, ``advance``, ``told``, ``told_from`` and ``overruled`` as well, see `AdaptiveGame`;
    one with ``resize`` has ``resized`` and ``contexts_in``, see `ContextualGame`; one whose decisions may await no
    answer has ``encode_alone`` and ``decode_alone``, see `RouterGame`.
    """

    kind: str  # what files declare
    setting: str  # where the catalogue lists the policies
    opening: str  # the kind of the event that opens a decision: "decide" or "begin"
    needs: tuple[str, ...]  # the methods that a policy must have
    stepwise: bool  # several outputs for a decision, told one by one
    spares: bool  # a failed stage other than the answering one loses only the comparison
    choosing_learns: bool  # whether the policy is backed up before it chooses
    scratch: Collection[str] | None  # the arrays that may change then, None: any
    cancelling_learns: bool  # and before a cancellation
    teaching_draws: bool  # whether anything is drawn when a round is learned
    in_order: tuple[str, ...]  # alterations that wait for open decisions if the policy learns in order
    keeps: int  # how many explanations, or rounds of history, are kept
    form: Form
    refuses: Mapping[str, str]  # operation -> why this game does not offer it
    alters: Mapping[str, Alter]  # by the kind of the event
    wants: Callable[[Any, np.random.Generator], bool] | None  # whether a label is bought; changes nothing

    @property
    def resize(self) -> Callable[..., tuple[Any, Any] | None] | None:
        """What returns policy and terms for a first context, None if there are no contexts."""

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        """Return example arguments of each method that is called, and the methods that take no generator."""

    def bind(self, driver: Interpreted) -> None:
        """Take the policy's methods; again whenever it is replaced."""

    def check(self, policy: Any, terms: Any) -> None:
        """Reject a policy object that was made for another problem."""

    def choose(self, rng: np.random.Generator, counts: Any, terms: Any, *context: Any) -> Choice:
        """Ask the policy."""

    def calls(self, decided: Any) -> tuple[int, ...]:
        """Return the stages to call now, in this order; () when none is left."""

    def record(self, id: int, decided: Any, outputs: Sequence[Any], terms: Any, content: Any = None) -> Any:
        """Compare the outputs, without the lock; ValueError if that is not possible."""

    def teach(self, decided: Any, record: Any, counts: Any, terms: Any, rng: np.random.Generator) -> Any:
        """Let the policy learn, and return the counts after it."""

    def drop(self, decided: Any, cost: float, counts: Any) -> Any:
        """Return the counts after a decision was cancelled or has expired, None if nothing is counted."""

    def opened(self, decided: Any) -> dict[str, Any]:
        """Return the body of the event that opens a decision."""

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        """Return the context of a decision from its event."""

    def decided_from(self, body: dict[str, Any], terms: Any) -> Any:
        """Return what the ledger keeps of a decision from its event."""

    def answered(self, decided: Any, record: Any) -> dict[str, Any]:
        """Return the body of the event of an answer."""

    def record_from(self, id: int, decided: Any, body: dict[str, Any], terms: Any) -> Any:
        """Return what is learned from the event of an answer."""

    def encode(self, decided: Any) -> Any:
        """Return what a state holds of an open decision."""

    def decode(self, data: Any, terms: Any) -> Any:
        """Return the open decision that a state holds, or raise."""

    def state(self, counts: Any, terms: Any, kept: Mapping[int, Any]) -> dict[str, Any]:
        """Return everything but the core as plain data."""

    def restore(self, body: dict[str, Any]) -> tuple[Any, Any, Mapping[int, Any]]:
        """Return counts, terms and what is kept from a state, or raise `StateError`."""


class Plain:
    """What most games have in common: no context, decisions stored as they are, cancelling counts nothing."""

    opening = "decide"
    word = "stage"  # under which the log holds a decision
    stepwise = spares = cancelling_learns = False
    teaching_draws = True
    in_order: tuple[str, ...] = ()
    keeps = EXPLAINED
    scratch: Collection[str] | None = None
    refuses: Mapping[str, str] = {}
    alters: Mapping[str, Alter] = {}
    resize: Any = None
    wants: Any = None

    def drop(self, decided: Any, cost: float, counts: Any) -> Any:
        return None

    def context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        return ()

    def opened(self, decided: Any) -> dict[str, Any]:
        return {self.word: self.encode(decided)}

    def decided_from(self, body: dict[str, Any], terms: Any) -> Any:
        return self.decode(body[self.word], terms)

    def encode(self, decided: Any) -> Any:
        return decided

    def decode(self, data: Any, terms: Any) -> Any:
        return data
