"""A live player, one of several that share arms and cannot communicate: a radio, a sensor, a device on a channel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from weakfeedback.live.driver import has
from weakfeedback.live.errors import FeedbackConflict, UnknownDecision
from weakfeedback.live.games.player import IDLE, PlayerCounts, PlayerGame
from weakfeedback.live.live import Live
from weakfeedback.live.player_report import PlayerReport, make_player_report
from weakfeedback.multiplayer.words import description_of, phase_of
from weakfeedback.settings.catalog import make_policy, option_names
from weakfeedback.validate import MOST_ARMS, brief, flag, integer, limited, number
from weakfeedback.words import ARMS

# Default options of a live player, where its policy accepts them.
DEFAULTS = {"epsilon": 0.05, "delta": 0.05, "alarm": True, "recheck": 300}


class WrongSlot(UnknownDecision, ValueError):
    """The observation does not belong to the current slot."""


class Player(Live):
    """One player on K arms that observes only its own reward and collisions (thesis, chapter 5).

    In every slot `choose` returns the arm to play, or -1 to idle, and `observe` takes the outcome. Players share the
    boundaries of slots, each on its own device; they exchange nothing else. With Claims, the default, they may come and
    go at any time; with the others all must go through the same slots from the first one on.

    ``choose`` may be repeated: until the slot is observed it returns the same arm, also after the player was saved
    and loaded with ``missed=0``. ``observe`` twice, or for another slot, raises `WrongSlot` and changes nothing.
    ``cancel(pending[0])`` is for a slot that did not take place for any player: nothing is learned, and its number is
    used again.

    Parameters
    ----------
    arms : integer >= 2
    policy : name or policy object
        "Claims", "Match", "Selfish", "DLC-LIX", "DLC", "DPE1", "Musical-Chairs" or "SIC-MMAB" with their options, or an
        object with ``choose``, ``observe``, ``settled`` and ``arm``, which belongs to the player from then on. All
        players need the same policy.
    epsilon, delta : numbers, optional
        0.05 for DLC and DLC-LIX.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the player's generator; fresh entropy if None. **Players need different seeds**: with equal seeds
        they choose the same arms and collide for ever. Player n of replication r of ``simulate(seed=s)`` has
        ``SeedSequence(s, spawn_key=(r, 1, n))``. A Generator must use PCG64, and is not copied.
    **options
        Options of the policy. ``recheck=300`` is the default of live players with Claims (not of simulated ones): the
        departure of another player is noticed in bounded time. ``alarm=True`` is that of DLC and DLC-LIX: if a player
        has no arm of its own at the end of the orthogonalisation, all players notice it and repeat that phase.
    compiled : bool
        As for `Cascade`.
    names : strings, optional
        What the arms are called in reports, such as channels.

    Examples
    --------
    A single player ends on the best arm.

    >>> player = Player(arms=3, seed=1)
    >>> for slot in range(500):
    ...     arm = player.choose()
    ...     player.observe([0.2, 0.9, 0.4][arm], collided=False)
    >>> player.holds, player.arm, player.phase, player.slot
    (True, 1, 'owning', 500)
    """

    kind = PlayerGame.kind
    setting = PlayerGame.setting
    form = PlayerGame.form
    _words = ARMS
    _game: PlayerGame

    def __init__(
        self,
        arms: int,
        policy: Any = "Claims",
        epsilon: float | None = None,
        delta: float | None = None,
        seed: Any = None,
        *,
        compiled: bool = False,
        names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        number_of_arms = limited("arms", arms, 2, MOST_ARMS)
        told = {"epsilon": epsilon, "delta": delta}
        options |= {name: value for name, value in told.items() if value is not None}

        def make(name: str, **options: Any) -> Any:
            taken = option_names("multiplayer", name)
            defaults = {option: value for option, value in DEFAULTS.items() if option in taken}
            return make_policy("multiplayer", name, number_of_arms, **{**defaults, **options})

        game, counts = PlayerGame(number_of_arms), PlayerCounts.of(number_of_arms)
        # Choices depend on everything observed before, whatever the class declares.
        self._begin(game, policy, make, seed, options, compiled, None, counts, (), in_order=True)
        self.speak(names)

    def __repr__(self) -> str:
        return f"<Player of {self._game.arms} arms, {self._label}, slot {self._core.ledger.rounds}>"

    # -- slots

    @property
    def slot(self) -> int:
        """The number of the current or next slot; the first is 0."""
        return self.rounds

    def choose(self) -> int:
        """Return the arm to play in this slot, or -1 to idle; the same one until the slot is observed."""
        journal = self._journal
        if journal is not None and not self.pending:
            journal.forgive()  # a caller that continues repeats nothing
        _, arm = self._core.current()
        self._wait()
        return int(arm)

    def observe(self, reward: float, collided: bool | None = None, slot: int | None = None) -> None:
        """Learn the outcome of the slot.

        Parameters
        ----------
        reward : number from 0 to 1
            The reward of the arm. It counts as 0 if there was a collision, and must be 0 in an idle slot.
        collided : bool
            Whether another player was on the same arm. Only policies that do not sense collisions (Selfish) do without.
        slot : integer, optional
            The slot that was observed. If it is not the current one, a slot was lost or observed twice: `WrongSlot`.
        """
        gained = number("reward", reward, at_least=0.0)
        if gained > 1.0:
            raise ValueError(f"reward must be a number from 0 to 1, got {brief(reward)}")
        if collided is None and not getattr(self._core.driver.policy, "needs_sensing", True):
            collided = False
        hit = flag("collided", collided)
        named = None if slot is None else integer("slot", slot, 0)
        call = ("observe", named, gained, hit)
        if self._owes(call):
            return
        id, arm, current = self._core.run(self._open_slot, named)
        if arm == IDLE and (hit or gained > 0.0):
            raise ValueError(
                f"slot {current} was one of idling: reward must be 0 and collided False, "
                f"got {brief(reward)} and {brief(collided)}"
            )
        try:
            settled = self._core.settle(self._game.record(id, arm, (gained, hit), ()))
        except (FeedbackConflict, UnknownDecision):
            settled = "duplicate"
        if settled == "duplicate":  # another thread was faster
            raise WrongSlot(f"slot {current} was observed already")
        self._wait(call)

    def _open_slot(self, slot: int | None) -> tuple[int, int, int]:
        """Return id, arm and number of the current slot; ``slot``, if given, must be the current one."""
        ledger = self._core.ledger
        current = ledger.rounds
        if slot is not None and slot != current:
            raise WrongSlot(
                f"slot must be {current}, which is under way, got {slot}: a slot was lost or repeated"
            )
        for id, arm in ledger.waiting.items():
            return id, arm, current
        raise WrongSlot(f"nothing was chosen yet in slot {current}: call choose() before observe()")

    def miss(self, slots: int = 1) -> None:
        """Say that ``slots`` slots went by without this player, for instance while its device was off.

        A slot that is open is cancelled. With Claims the player keeps what it learned and seeks an arm again, since
        its own may have a new owner. Policies whose players must go through the same slots refuse it.
        """
        gone = integer("slots", slots, 1)
        if not self._can_miss:
            raise ValueError(f"{self._label} cannot miss a slot: its players must go through the same slots")
        for id in self.pending:
            self.cancel(id)
        self._core.alter("miss", {"slots": gone})
        self._wait()

    @property
    def _can_miss(self) -> bool:
        return has(self._core.driver.policy, "miss")

    # -- what it knows

    @property
    def holds(self) -> bool:
        """Whether it owns its arm: no other player does (with Claims, if nobody lost a slot)."""
        return bool(getattr(self.policy, "holds", self.settled))

    @property
    def quiet_slots(self) -> int:
        """Slots since it took the arm that it owns; 0 without one, and for policies that own none."""
        return int(getattr(self.policy, "quiet_slots", 0))

    @property
    def settled(self) -> bool:
        """Whether it has found its arm and stays on it."""
        return bool(self.policy.settled)

    @property
    def arm(self) -> int:
        """The arm it has settled on; before that, the one reserved or played last, -1 at first."""
        return int(self.policy.arm)

    @property
    def phase(self) -> str:
        """One word for what it is doing, such as "orthogonalisation", "exploring" or "settled"."""
        return self._core.view(lambda view: phase_of(view.policy))

    @property
    def description(self) -> str:
        """A description of what it is doing, what it knows about the other players, and what went wrong."""
        return self._core.view(lambda view: description_of(view.policy, view.rounds))

    def report(self) -> PlayerReport:
        """Return what it played, observed and earned so far; ``print`` it for a table."""
        return self._core.view(lambda view: make_player_report(view, self._label, self._words))

    # -- saving

    @classmethod
    def open(cls, path: Any, *arguments: Any, missed: int | None = None, **named: Any) -> Player:
        """Return the player whose journal is at ``path``; see `Cascade.open`, and `load` for ``missed``."""
        found = super().open(path, *arguments, **named)
        return found._back(missed) if found.rounds or found.pending else found

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | os.PathLike[str],
        *,
        policy: Any = None,
        compiled: bool = False,
        missed: int | None = None,
    ) -> Player:
        """Return the player that was saved to ``path``.

        ``missed`` is the number of slots that went by since. With 0 it chooses as if it had never stopped. If it is not
        known (None), a player with Claims supposes that there were some, and comes back seeking; those whose policy
        cannot miss a slot choose as if they had never stopped.

        A policy that was given as an object may have options that are not in the file: pass a fresh object. A file that
        cannot be used raises `StateError`.
        """
        return super().load(path, policy=policy, compiled=compiled)._back(missed)

    @classmethod
    def from_state(  # type: ignore[override]
        cls, state: dict[str, Any], *, policy: Any = None, compiled: bool = False, missed: int = 0
    ) -> Player:
        """Return the player that gave ``state``, as if it had never stopped unless it ``missed`` slots. See `load`."""
        return super().from_state(state, policy=policy, compiled=compiled)._back(missed)

    def _back(self, missed: int | None) -> Player:
        """Return this player after the slots that it missed."""
        slots = None if missed is None else integer("missed", missed, 0)
        if slots or (slots is None and self._can_miss):
            self.miss(slots or 1)
        return self
