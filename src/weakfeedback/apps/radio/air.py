"""The radio medium ("the air"): K channels that N players use over loopback connections, slot by slot."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from weakfeedback.multiplayer.world import AWAKE

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
    survives : bool
        Whether the others go on when a player is lost; if not, `PlayerLost` is raised.

    Attributes
    ----------
    slots, collisions : int
        How many were played; how many players collided in them.
    latest : list of int
        The choices of the last slot; -1 for those that idle, lose the slot or are not there.
    lost : dict
        The players that were lost without being dismissed, and the first slot without each.
    """

    def __init__(
        self, problem: Any, seed: int = 0, patience: float = PATIENCE, survives: bool = False
    ) -> None:
        self.problem = problem
        self.patience = patience
        self.survives = survives
        self.lost: dict[int, int] = {}
        self.tokens = tuple(secrets.token_bytes(TOKEN_SIZE) for _ in range(problem.players))
        self.slots = 0
        self.collisions = 0
        self.latest: list[int] = [IDLE] * problem.players
        self._log = array("h")
        self._rng = generator(seed, 0, WORLD)
        self._world = problem.world()
        self._world.begin(self._rng)
        rows = (self._world.means.shape[0],) if problem.is_open else ()
        self._rewards = np.empty((*rows, problem.arms))
        self._awake = np.full(problem.players, AWAKE)
        self._slots = [array("q") for _ in range(problem.players)]  # those in which each of them took part
        self._connections: dict[int, socket.socket] = {}
        self._listener = socket.create_server((HOST, 0), backlog=128)
        self.address: tuple[str, int] = self._listener.getsockname()

    def __enter__(self) -> Air:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections, which ends the players."""
        for connection in self._connections.values():
            connection.close()
        self._listener.close()

    def dismiss(self, player: int) -> None:
        """Close the connection of a player, which ends it."""
        if player in self._connections:
            self._connections.pop(player).close()

    # -- joining

    def admit(
        self,
        check: Callable[[], None] = lambda: None,
        seconds: float = 60.0,
        players: Iterable[int] | None = None,
        last: bool = True,
    ) -> None:
        """Wait until these players (all by default) have sent their tokens; other connections are refused.

        ``check`` is called regularly, and raises if waiting any longer is useless. After the ``last`` call nobody can
        connect any more.
        """
        deadline = time.monotonic() + seconds
        expected = set(range(self.problem.players) if players is None else players)
        seated: dict[int, socket.socket] = {}
        shown: dict[socket.socket, bytes] = {}
        with selectors.DefaultSelector() as selector:
            self._listener.setblocking(False)
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                while len(seated) < len(expected):
                    check()
                    if time.monotonic() > deadline:
                        absent = min(expected - seated.keys())
                        raise TimeoutError(f"player {absent} did not join within {seconds:g} s")
                    for key, _ in selector.select(POLL):
                        if key.fileobj is self._listener:
                            self._greet(selector, shown)
                        else:
                            self._look(key.fileobj, selector, shown, seated, expected)
            finally:
                for stranger in shown:
                    stranger.close()
                self._connections |= seated
        if last:
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
        expected: set[int],
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
        for n in expected - seated.keys():
            if secrets.compare_digest(token, self.tokens[n]):
                prepare(connection, self.patience)
                seated[n] = connection
                return
        connection.close()

    # -- slots

    def slot(self) -> None:
        """Play one slot: draw all rewards, collect the players' choices, send each its outcome."""
        if self.problem.is_open:
            self._world.draw(self._rewards, self._awake, self.slots, self._rng)
        else:
            self._world.draw(self._rewards, self._rng)
        playing = [n for n in range(self.problem.players) if self._awake[n] == AWAKE and n not in self.lost]
        if not self._connections.keys() >= set(playing):
            raise ValueError("the players must join before a slot is played: call admit()")
        arms = [IDLE] * self.problem.players
        for n in playing:
            with self._surviving(n, self.slots):
                arms[n] = self._hear(n)
        crowd = [0] * self.problem.arms
        for arm in arms:
            if arm != IDLE:
                crowd[arm] += 1
        own = self._rewards.reshape(-1, self.problem.arms)
        for n in playing:
            if n in self.lost:
                continue
            arm, sensing = arms[n], self.problem.sensing
            collided = arm != IDLE and crowd[arm] > 1
            reward = 0.0 if arm == IDLE or collided else float(own[n if len(own) > 1 else 0, arm])
            with self._surviving(n, self.slots + 1):  # it took part in this slot
                self._tell(n, pack_outcome(len(self._slots[n]), reward, collided and sensing))
            self._slots[n].append(self.slots)
            self.collisions += collided
        self._log.extend(arms)
        self.latest = arms
        self.slots += 1

    @contextlib.contextmanager
    def _surviving(self, player: int, slot: int) -> Iterator[None]:
        """Go on without a player that is lost, if the others can."""
        try:
            yield
        except PlayerLost:
            if not self.survives:
                raise
            self.lost[player] = slot
            self.dismiss(player)

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

    def slots_of(self, player: int) -> Sequence[int]:
        """Return the slots in which a player took part."""
        return self._slots[player]

    @property
    def order(self) -> np.ndarray:
        """Return the index of each channel's mean among the problem's means."""
        return np.array(self._world.order)
