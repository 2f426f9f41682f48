"""A live player, one of several that share arms and cannot communicate: a radio, a sensor, a device on a channel."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.contract.decisions import checked_choice
from weakfeedback.live import storage
from weakfeedback.live.base import Live
from weakfeedback.live.counts import IDLE, PlayerCounts
from weakfeedback.live.driver import Examples
from weakfeedback.live.ledger import UnknownDecision, fingerprint
from weakfeedback.live.player_report import PlayerReport, make_player_report
from weakfeedback.live.storage import StateError
from weakfeedback.multiplayer.words import description_of, phase_of
from weakfeedback.settings.catalog import make_policy, option_names
from weakfeedback.validate import brief, integer, number

# Default options of a live player, where its policy accepts them.
DEFAULTS = {"epsilon": 0.05, "delta": 0.05, "alarm": True}
STATE: dict[str, type | tuple[type, ...]] = {"core": dict, "counts": dict, "arms": int}


class WrongSlot(UnknownDecision, ValueError):
    """The observation does not belong to the current slot."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The outcome of a slot: the reward, and whether there was a collision."""

    id: int
    content: tuple[float, bool]


class Player(Live):
    """One player on K arms that observes only its own reward and collisions (thesis, chapter 5).

    In every slot `choose` returns the arm to play, or -1 to idle, and `observe` takes the outcome. All players must go
    through the same slots, each on its own device; they exchange nothing else.

    ``choose`` may be repeated: until the slot is observed it returns the same arm, also after the player was saved
    and loaded. ``observe`` twice, or for another slot, raises `WrongSlot` and changes nothing. ``cancel(pending[0])``
    is for a slot that did not take place for any player: nothing is learned, and its number is used again.

    Parameters
    ----------
    arms : integer >= 2
    policy : name or policy object
        "DLC-LIX", "DLC", "DPE1", "Musical-Chairs" or "SIC-MMAB" with their options, or an object with ``choose``,
        ``observe``, ``settled`` and ``arm``, which belongs to the player from then on. All players need the same
        policy.
    epsilon, delta : numbers, optional
        0.05 for DLC and DLC-LIX.
    seed : integer >= 0, SeedSequence or Generator, optional
        The seed of the player's generator; fresh entropy if None. **Players need different seeds**: with equal seeds
        they choose the same arms and collide for ever. Player n of replication r of ``simulate(seed=s)`` has
        ``SeedSequence(s, spawn_key=(r, 1, n))``. A Generator must use PCG64, and is not copied.
    **options
        Options of the policy. ``alarm=True`` is the default of live DLC and DLC-LIX players (not of simulated ones): if
        a player has no arm of its own at the end of the orthogonalisation, all players notice it and repeat that phase.
    compiled : bool
        As for `Cascade`.

    Examples
    --------
    A single player ends on the best arm.

    >>> player = Player(arms=3, epsilon=0.2, seed=1)
    >>> while not player.settled:
    ...     arm = player.choose()
    ...     player.observe([0.2, 0.9, 0.4][arm], collided=False)
    >>> player.arm, player.phase, player.slot == player.rounds
    (1, 'settled', True)
    """

    kind = "Player"
    setting = "multiplayer"
    form = STATE
    choosing_learns = True  # policies of players change state when they choose

    def __init__(
        self,
        arms: int,
        policy: Any = "DLC-LIX",
        epsilon: float | None = None,
        delta: float | None = None,
        seed: Any = None,
        *,
        compiled: bool = False,
        **options: Any,
    ) -> None:
        self._arms = integer("arms", arms, 2)
        told = {"epsilon": epsilon, "delta": delta}
        options |= {name: value for name, value in told.items() if value is not None}
        super().__init__(policy, self._made, ("choose", "observe"), seed, options, compiled)
        self._check_policy()
        # Choices depend on everything observed before, whatever the class declares.
        self._ledger.one_at_a_time = True
        self._delay_safe = False
        self._counts: PlayerCounts = PlayerCounts.of(self._arms)

    def _made(self, name: str, **options: Any) -> Any:
        taken = option_names("multiplayer", name)
        defaults = {option: value for option, value in DEFAULTS.items() if option in taken}
        return make_policy("multiplayer", name, self._arms, **{**defaults, **options})

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        return {"choose": (), "observe": (0, 0.0, False)}, ()

    def _bind(self) -> None:
        self._choose_arm = self._driver.method("choose")
        self._hear = self._driver.method("observe")

    def __repr__(self) -> str:
        return f"<Player of {self._arms} arms, {self._label}, slot {self._ledger.rounds}>"

    # -- slots

    @property
    def slot(self) -> int:
        """The number of the current or next slot; the first is 0."""
        return self.rounds

    def choose(self) -> int:
        """Return the arm to play in this slot, or -1 to idle; the same one until the slot is observed."""
        with self._ledger.lock:
            self._recover()
            waiting = self._ledger.pending
            if not waiting:
                self._owed.clear()  # a caller that continues repeats nothing
            arm: int = self._ledger.decided(waiting[0]) if waiting else self._decide()[1]
        self._acknowledge()
        return arm

    def _choose(self, *context: Any) -> tuple[int, None]:
        return checked_choice(self._driver.policy, self._choose_arm(self._rng), self._arms), None

    def _teach(self, decided: int, record: Heard, counts: PlayerCounts) -> PlayerCounts:
        self._hear(decided, *record.content, self._rng)
        return counts.after_slot(decided, *record.content)

    def _decision_event(self, decided: int) -> dict[str, Any]:
        return {"stage": decided}

    def _answer_event(self, decided: int, record: Heard) -> dict[str, Any]:
        reward, collided = record.content
        return {"observed": [reward, collided], "digest": fingerprint(record.content)}

    def _decoded(self, body: dict[str, Any]) -> int:
        return self._decode_decision(body["stage"])

    def _record_from_event(self, id: int, decided: int, body: dict[str, Any]) -> Heard:
        reward, collided = body["observed"]
        return Heard(id, (float(reward), bool(collided)))

    @classmethod
    def _arguments_of(cls, state: dict[str, Any]) -> dict[str, Any]:
        return {**super()._arguments_of(state), "arms": state["arms"]}

    def observe(self, reward: float, collided: bool, slot: int | None = None) -> None:
        """Learn the outcome of the slot.

        Parameters
        ----------
        reward : number from 0 to 1
            The reward of the arm. It counts as 0 if there was a collision, and must be 0 in an idle slot.
        collided : bool
            Whether another player was on the same arm.
        slot : integer, optional
            The slot that was observed. If it is not the current one, a slot was lost or observed twice: `WrongSlot`.
        """
        gained = number("reward", reward, at_least=0.0)
        if gained > 1.0:
            raise ValueError(f"reward must be a number from 0 to 1, got {brief(reward)}")
        if not isinstance(collided, (bool, np.bool_)):
            raise ValueError(f"collided must be True or False, got {brief(collided)}")
        named = None if slot is None else integer("slot", slot, 0)
        hit = bool(collided)
        call = ("observe", named, gained, hit)
        if self._settle_debt(call):
            return
        with self._ledger.lock:
            self._recover()
            id = self._awaited(named)
            arm = self._ledger.decided(id)
            if arm == IDLE and (hit or gained > 0.0):
                raise ValueError(
                    f"slot {self.slot} was one of idling: reward must be 0 and collided False, "
                    f"got {brief(reward)} and {brief(collided)}"
                )
            self._learn([Heard(id, (0.0 if hit else gained, hit))])
        self._acknowledge(call)

    def _awaited(self, slot: int | None) -> int:
        """Return the id of the current slot, after checking that ``slot``, if given, is the current one."""
        waiting = self._ledger.pending
        if slot is not None and slot != self.slot:
            raise WrongSlot(
                f"slot must be {self.slot}, which is under way, got {slot}: a slot was lost or repeated"
            )
        if not waiting:
            raise WrongSlot(f"nothing was chosen yet in slot {self.slot}: call choose() before observe()")
        return waiting[0]

    # -- what it knows

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
        with self._ledger.lock:
            return phase_of(self.policy)

    @property
    def description(self) -> str:
        """A description of what it is doing, what it knows about the other players, and what went wrong."""
        with self._ledger.lock:
            return description_of(self.policy, self.slot)

    def report(self) -> PlayerReport:
        """Return what it played, observed and earned so far; ``print`` it for a table."""
        with self._ledger.lock:
            return make_player_report(self._label, self.policy, self.slot, self._counts)

    # -- saving

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, policy: Any = None, compiled: bool = False) -> Player:
        """Return the player that was saved to ``path``; it chooses as if it had never stopped.

        A policy that was given as an object may have options that are not in the file: pass a fresh object. A file that
        cannot be used raises `StateError`.
        """
        return cls._load(path, {}, policy, compiled)

    @classmethod
    def from_state(cls, state: dict[str, Any], *, policy: Any = None, compiled: bool = False) -> Player:
        """Return the player that gave ``state``. See `load`."""
        return cls._made_again(storage.checked_copy(state), {}, policy, compiled, "the state")

    @classmethod
    def _arguments_in(cls, body: dict[str, Any]) -> dict[str, Any]:
        return {"arms": body["arms"]}

    def _state(self) -> dict[str, Any]:
        return {"arms": self._arms, "counts": self._counts.state()}

    def _check_state(self, body: dict[str, Any]) -> None:
        super()._check_state(body)
        if PlayerCounts.from_state(self._arms, body["counts"]).slots != body["core"]["ledger"]["rounds"]:
            raise StateError("the counts contradict the ledger")

    def _restore(self, body: dict[str, Any]) -> None:
        self._restore_core(body["core"])
        self._check_policy()
        self._counts = PlayerCounts.from_state(self._arms, body["counts"])
        if self._counts.slots != self._ledger.rounds:
            raise StateError("the counts contradict the ledger")

    def _encode_decision(self, decided: int) -> int:
        return decided

    def _decode_decision(self, data: Any) -> int:
        return integer("arm", data, IDLE, self._arms - 1)

    def _check_policy(self) -> None:
        """Reject a policy object made for other arms, or without the field ``arm``."""
        arms = getattr(self._driver.policy, "K", self._arms)
        if arms != self._arms:
            raise ValueError(f"policy must be made for {self._arms} arms, got one for {arms}")
        for field in ("settled", "arm"):
            if not isinstance(getattr(self._driver.policy, field, None), (bool, int, np.integer, np.bool_)):
                raise ValueError(
                    f"policy must have the fields settled (a bool) and arm (an integer): no {field}"
                )
