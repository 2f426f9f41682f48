"""What tests of the radio stand on: the choices of a simulation, devices in threads, a tap on the wire."""

import contextlib
import socket
import threading

import numpy as np
from tests.rig.processes import PATIENCE

from weakfeedback.apps.radio.wire import CHOICE, OUTCOME
from weakfeedback.engine.replication import cast, streams

MEANS = {5: (0.9, 0.7, 0.5, 0.3, 0.1), 10: tuple(round(0.9 - 0.085 * k, 3) for k in range(10))}


class Noted:
    """A player whose choices are written down."""

    def __init__(self, player):
        self.player = player
        self.choices = []

    def choose(self, rng):
        self.choices.append(self.player.choose(rng))
        return self.choices[-1]

    def __getattr__(self, name):
        return getattr(self.player, name)


def simulated(problem, policy, seed, slots):
    """Choices (slots, players), measures and players of replication 0, from the round loop of simulations."""
    loop = problem.loop()
    world_rng, rngs = streams(problem, policy, seed, 0)
    players = [Noted(player) for player in cast(problem, policy)]
    counts = np.zeros(len(loop.counters(problem)), dtype=np.int64)
    table = np.zeros((1, counts.size), dtype=np.int64)
    assert loop.play(players, problem.world(), world_rng, rngs, np.array([slots]), counts, table) == 0
    measures = {name: value.item() for name, value in problem.measures(table[0]).items()}
    return np.array([player.choices for player in players]).T, measures, players


def gone(pid):
    """Whether a process is no more (or only waits to be buried)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except FileNotFoundError:
        return True


@contextlib.contextmanager
def joined(air, moves):
    """Devices in threads: device n sends the bytes of ``moves[n]``, one piece for each outcome that it hears."""

    def device(n):
        with (
            contextlib.suppress(OSError),
            socket.create_connection(air.address, timeout=PATIENCE) as connection,
        ):
            first, *later = moves[n] or [b""]
            connection.sendall(air.tokens[n] + first)  # who is admitted has chosen, however busy the machine
            for piece in later:
                heard[n].append(connection.recv(1000))
                connection.sendall(piece)
            if first:
                heard[n].append(connection.recv(1000))

    heard = [[] for _ in moves]
    threads = [threading.Thread(target=device, args=(n,)) for n in range(len(moves))]
    for thread in threads:
        thread.start()
    try:
        yield heard
    finally:
        air.close()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def choose(*arms):
    """The frames of these choices."""
    return [CHOICE.pack(arm) for arm in arms]


class Tap:
    """Stands between players and the air, and keeps every byte in both directions, in the order of each connection."""

    def __init__(self, address):
        self.target = address
        self.calls = []  # for each connection: list of ("up" | "down", bytes)
        self.threads = []
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()

    def serve(self, count):
        """Carry so many connections, in threads."""
        for _ in range(count):
            outside, _ = self.listener.accept()
            inside = socket.create_connection(self.target)
            self.connections += [outside, inside]
            for connection in (inside, outside):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            events = []
            self.calls.append(events)
            for word, source, sink in (("up", outside, inside), ("down", inside, outside)):
                thread = threading.Thread(target=self._carry, args=(word, source, sink, events))
                thread.start()
                self.threads.append(thread)
        self.listener.close()

    def _carry(self, word, source, sink, events):
        with contextlib.suppress(OSError):
            while part := source.recv(4096):
                events.append((word, part))
                sink.sendall(part)
        for connection in (source, sink):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def finish(self):
        """Wait until both ends of every connection have hung up."""
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for connection in self.connections:
            connection.close()


def outcomes(data):
    """All outcomes in a stream of bytes."""
    assert len(data) % OUTCOME.size == 0
    return [OUTCOME.unpack_from(data, at) for at in range(0, len(data), OUTCOME.size)]
