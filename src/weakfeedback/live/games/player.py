"""The game of one player among several: an arm in every slot, then a reward or a collision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contract.decisions import checked_choice
from weakfeedback.live import storage
from weakfeedback.live.answers import fingerprint
from weakfeedback.live.driver import Examples, Interpreted, has
from weakfeedback.live.form import Argument, Form
from weakfeedback.live.game import Altered, Choice, Plain
from weakfeedback.live.storage import StateError
from weakfeedback.validate import integer

IDLE = -1  # the arm of a player that plays none


@dataclass(slots=True)
class Heard:
    """The outcome of a slot: the reward, and whether there was a collision."""

    id: int
    content: tuple[float, bool]
    keep: None = None


class PlayerCounts(NamedTuple):
    """Counts of a player's slots, independent of the policy's own statistics. Immutable: a slot creates new ones."""

    idle: int
    free: np.ndarray  # plays without a collision
    met: np.ndarray  # plays with a collision
    earned: np.ndarray

    @classmethod
    def of(cls, arms: int) -> PlayerCounts:
        """Return the counts before the first slot."""
        whole = np.zeros(arms, dtype=np.int64)
        return cls(0, whole, whole, np.zeros(arms))

    @property
    def slots(self) -> int:
        """All slots counted."""
        return self.idle + int(self.free.sum() + self.met.sum())

    def after_slot(self, arm: int, reward: float, collided: bool) -> PlayerCounts:
        """Count one slot."""
        if arm == IDLE:
            return self._replace(idle=self.idle + 1)
        if collided:
            return self._replace(met=_plus(self.met, arm, 1))
        return self._replace(free=_plus(self.free, arm, 1), earned=_plus(self.earned, arm, reward))

    @classmethod
    def from_state(cls, arms: int, state: Any) -> PlayerCounts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        counts = cls(**storage.restored_counts(state, cls.of(arms)._asdict()))
        sound = counts.idle >= 0 and (counts.free >= 0).all() and (counts.met >= 0).all()
        # Rewards are at most 1, and rounding never makes a sum of them exceed their number.
        if not sound or not ((counts.earned >= 0.0) & (counts.earned <= counts.free)).all():
            raise StateError("the counts contradict each other")
        return counts


def _plus(array: np.ndarray, place: int, amount: float) -> np.ndarray:
    """Return a copy with an amount added at one place."""
    made = array.copy()
    made[place] += amount
    return made


class PlayerGame(Plain):
    """One slot. The ledger keeps the arm, or -1 to idle."""

    kind = "Player"
    setting = "multiplayer"
    needs: tuple[str, ...] = ("choose", "observe")
    choosing_learns = True  # policies of players change state when they choose
    in_order: tuple[str, ...] = ("miss",)
    keeps = 0
    form = Form((Argument("arms", "data", (int,)),))

    def __init__(self, arms: int) -> None:
        self.K = self.arms = arms
        self.alters = {"miss": self.miss}

    def methods(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        missing = {"miss": (1,)} if has(policy, "miss") else {}
        return {"choose": (), "observe": (0, 0.0, False), **missing}, tuple(missing)

    def bind(self, driver: Interpreted) -> None:
        self.policy = driver.policy
        self.choose_arm, self.hear = driver.method("choose"), driver.method("observe")
        self.told_to_miss = driver.method("miss") if has(driver.policy, "miss") else None

    def check(self, policy: Any, terms: Any) -> None:
        """Reject a policy object made for other arms, or without the field ``arm``."""
        arms = getattr(policy, "K", self.arms)
        if arms != self.arms:
            raise ValueError(f"policy must be made for {self.arms} arms, got one for {arms}")
        for field in ("settled", "arm"):
            if not isinstance(getattr(policy, field, None), (bool, int, np.integer, np.bool_)):
                raise ValueError(
                    f"policy must have the fields settled (a bool) and arm (an integer): no {field}"
                )

    def choose(self, rng: np.random.Generator, counts: Any, terms: Any, *context: Any) -> Choice:
        return Choice(checked_choice(self.policy, self.choose_arm(rng), self.arms))

    def calls(self, decided: int) -> tuple[int, ...]:
        return (decided,)

    def record(self, id: int, decided: int, outputs: Sequence[Any], terms: Any, content: Any = None) -> Heard:
        """Return the record of a reward and a collision, both none in an idle slot."""
        reward, collided = outputs
        return Heard(id, (0.0 if collided else reward, collided))

    def teach(
        self, decided: int, record: Heard, counts: PlayerCounts, terms: Any, rng: np.random.Generator
    ) -> PlayerCounts:
        self.hear(decided, *record.content, rng)
        return counts.after_slot(decided, *record.content)

    def miss(
        self, body: dict[str, Any], counts: PlayerCounts, terms: Any, rng: np.random.Generator
    ) -> Altered:
        """Tell the policy that slots went by without it."""
        slots = integer("slots", body["slots"], 1)
        if self.told_to_miss is None:
            raise ValueError("this policy cannot miss a slot: its players must go through the same slots")
        self.told_to_miss(slots)
        return Altered({"slots": slots})

    def answered(self, decided: int, record: Heard) -> dict[str, Any]:
        reward, collided = record.content
        return {"observed": [reward, collided], "digest": fingerprint(record.content)}

    def record_from(self, id: int, decided: int, body: dict[str, Any], terms: Any) -> Heard:
        reward, collided = body["observed"]
        return Heard(id, (float(reward), bool(collided)))

    def decode(self, data: Any, terms: Any) -> int:
        return integer("arm", data, IDLE, self.arms - 1)

    def state(self, counts: PlayerCounts, terms: Any, kept: Mapping[int, Any]) -> dict[str, Any]:
        return {"arms": self.arms, "counts": storage.encoded_counts(counts, counts._fields)}

    def restore(self, body: dict[str, Any]) -> tuple[PlayerCounts, Any, Mapping[int, Any]]:
        counts = PlayerCounts.from_state(self.arms, body["counts"])
        if counts.slots != body["core"]["ledger"]["rounds"]:
            raise StateError("the counts contradict the ledger")
        return counts, (), {}
