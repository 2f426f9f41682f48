"""The radio medium ("the air"): K channels that N players use over loopback connections, slot by slot."""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.apps.radio.wire import (
    CHOICE,
    HOST,
    IDLE,
    TOKEN_SIZE,
    BadFrame,
    HungUp,
    pack_outcome,
    prepare,
    receive,
    send,
    unpack_choice,
)
from weakfeedback.engine.seeds import WORLD, generator

PATIENCE = 30.0  # seconds that a player may keep all others waiting
STRANGERS = 16  # open connections that may not have sent a token yet
POLL = 0.1  # seconds between checks that the awaited players are still running


class PlayerLost(Exception):
    """A player left, timed out or sent an invalid frame; the slot cannot be finished without it."""

    def __init__(self, player: int, slot: int, what: str, gone: bool = False) -> None:
        super().__init__(f"slot {slot}: player {player} {what}")
        self.player = player
        self.slot = slot
        self.gone = gone  # closed the connection, so its exit status may say why


class Air:
    """K channels and their rewards; sends each player the outcome of its own slot and nothing else.

    The rewards are those of replication 0 of ``simulate(problem, ..., seed=seed)``. Players connect to ``address``
    and send their token, player n ``tokens[n]``. Then each call of ``slot()`` plays one slot.

    Parameters
    ----------
    problem : MultiplayerProblem
    seed : integer >= 0
    patience : number of seconds
        How long to wait for a choice before the player counts as lost.

    Attributes
    ----------
    slots, collisions : int
        How many were played; how many players collided in them.
    latest : list of int
        The choices of the last slot.
    """

    def __init__(self, problem: Any, seed: int = 0, patience: float = PATIENCE) -> None:
        self.problem = problem
        self.patience = patience
        self.tokens = tuple(secrets.token_bytes(TOKEN_SIZE) for _ in range(problem.players))
        self.slots = 0
        self.collisions = 0
        self.latest: list[int] = [IDLE] * problem.players
        self._log = array("h")
        self._rng = generator(seed, 0, WORLD)
        self._world = problem.world()
        self._world.begin(self._rng)
        self._rewards = np.empty(problem.arms)
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.address: tuple[str, int] = self._listener.getsockname()

    def __enter__(self) -> Air:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, which ends the players."""
        for connection in self._connections:
            connection.close()
        self._listener.close()

    # -- joining

    def admit(self, check: Callable[[], None] = lambda: None, seconds: float = 60.0) -> None:
        """Wait until every player has sent its token; connections that send anything else are refused.

        ``check`` is called regularly, and raises if waiting any longer is useless.
        """
        deadline = time.monotonic() + seconds
        seated: dict[int, socket.socket] = {}
        shown: dict[socket.socket, bytes] = {}
        with selectors.DefaultSelector() as selector:
            self._listener.setblocking(False)
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                while len(seated) < self.problem.players:
                    check()
                    if time.monotonic() > deadline:
                        absent = [n for n in range(self.problem.players) if n not in seated]
                        raise TimeoutError(f"player {absent[0]} did not join within {seconds:g} s")
                    for key, _ in selector.select(POLL):
                        if key.fileobj is self._listener:
                            self._greet(selector, shown)
                        else:
                            self._look(key.fileobj, selector, shown, seated)
            finally:
                for stranger in shown:
                    stranger.close()
                self._connections = [seated[n] for n in sorted(seated)]
        self._listener.close()

    def _greet(self, selector: selectors.BaseSelector, shown: dict[socket.socket, bytes]) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # already disconnected
            return
        if len(shown) >= STRANGERS:  # drop the connection that has been silent longest
            oldest = next(iter(shown))
            del shown[oldest]
            selector.unregister(oldest)
            oldest.close()
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
        shown[connection] = b""

    def _look(
        self,
        connection: Any,
        selector: selectors.BaseSelector,
        shown: dict[socket.socket, bytes],
        seated: dict[int, socket.socket],
    ) -> None:
        """Read a token, or the part of it that is there."""
        if connection not in shown:  # dropped in this same pass
            return
        try:
            part = connection.recv(TOKEN_SIZE - len(shown[connection]))
        except BlockingIOError:
            return
        except ConnectionError:
            part = b""
        shown[connection] += part
        if part and len(shown[connection]) < TOKEN_SIZE:
            return
        token = shown.pop(connection)
        selector.unregister(connection)
        for n, expected in enumerate(self.tokens):
            if secrets.compare_digest(token, expected) and n not in seated:
                prepare(connection, self.patience)
                seated[n] = connection
                return
        connection.close()

    # -- slots

    def slot(self) -> None:
        """Play one slot: draw all rewards, collect every player's choice, send each player its outcome."""
        if len(self._connections) < self.problem.players:
            raise ValueError("the players must join before a slot is played: call admit()")
        self._world.draw(self._rewards, self._rng)
        arms = [self._hear(n) for n in range(self.problem.players)]
        crowd = [0] * self.problem.arms
        for arm in arms:
            if arm != IDLE:
                crowd[arm] += 1
        for n, arm in enumerate(arms):
            collided = arm != IDLE and crowd[arm] > 1
            reward = 0.0 if arm == IDLE or collided else float(self._rewards[arm])
            self._tell(n, pack_outcome(self.slots, reward, collided))
            self.collisions += collided
        self._log.extend(arms)
        self.latest = arms
        self.slots += 1

    def _hear(self, n: int) -> int:
        try:
            frame = receive(self._connections[n], CHOICE.size, spare=1)
            return unpack_choice(frame, self.problem.arms)
        except HungUp:
            raise PlayerLost(n, self.slots, "hung up", gone=True) from None
        except TimeoutError:
            raise PlayerLost(n, self.slots, f"was silent for {self.patience:g} s") from None
        except BadFrame as error:
            raise PlayerLost(n, self.slots, str(error)) from None

    def _tell(self, n: int, frame: bytes) -> None:
        try:
            send(self._connections[n], frame)
        except HungUp:
            raise PlayerLost(n, self.slots, "hung up", gone=True) from None
        except TimeoutError:
            raise PlayerLost(n, self.slots, f"did not listen for {self.patience:g} s") from None

    # -- for the observer, not for players

    @property
    def choices(self) -> np.ndarray:
        """Return all choices so far: one row for each slot, one column for each player, -1 for idling."""
        return np.array(self._log, dtype=np.int64).reshape(-1, self.problem.players)

    @property
    def order(self) -> np.ndarray:
        """Return the index of each channel's mean among the problem's means."""
        found: np.ndarray = self._world.order.copy()
        return found
