"""What crosses the air, and what is refused there; the terminal view."""

import contextlib
import io
import math
import socket
import threading

import numpy as np
import pytest
from rich.console import Console
from tests.apps.devices import MEANS, Tap, choose, joined, outcomes
from tests.rig.processes import PATIENCE

from weakfeedback.apps.radio.air import Air, PlayerLost
from weakfeedback.apps.radio.crew import Crew, Device
from weakfeedback.apps.radio.wire import (
    CHOICE,
    OUTCOME,
    TOKEN_SIZE,
    BadFrame,
    pack_outcome,
    unpack_outcome,
)
from weakfeedback.cli.radio_view import View, channels
from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.multiplayer import MultiplayerProblem

SLOTS = 200


def recorded_run(problem, seed):
    """Real processes through a tap: what each connection carried, and the choices that the air has noted."""
    options = {"epsilon": 0.5, "delta": 0.1, "seating_rounds": 20, "alarm": True}
    with Air(problem, seed) as air:
        tap = Tap(air.address)
        air.address = tap.address
        with Crew(air, "DLC-LIX", options, seed) as crew:
            carrier = threading.Thread(target=tap.serve, args=(problem.players,))
            carrier.start()
            air.admit(crew.check)
            play(air, SLOTS)
            air.close()
            crew.finish()
            assert [device.process.returncode for device in crew.devices] == [0] * problem.players
            carrier.join(PATIENCE)
            tap.finish()
        return tap.calls, air


def test_only_choices_and_outcomes_cross():
    problem = MultiplayerProblem(MEANS[5], 3, rewards="uniform")
    calls, air = recorded_run(problem, seed=4)
    world, rng, rewards = problem.world(), generator(4, 0, WORLD), np.empty(5)
    world.begin(rng)
    drawn = []
    for _ in range(SLOTS):
        world.draw(rewards, rng)
        drawn.append(rewards.copy())
    tokens = set()
    for events in calls:
        up = b"".join(part for word, part in events if word == "up")
        down = b"".join(part for word, part in events if word == "down")
        tokens.add(up[:TOKEN_SIZE])
        n = air.tokens.index(up[:TOKEN_SIZE])
        # one choice more than outcomes may be under way when the air closes
        assert len(up) - TOKEN_SIZE in (SLOTS * CHOICE.size, (SLOTS + 1) * CHOICE.size)
        sent = [CHOICE.unpack_from(up, TOKEN_SIZE + k * CHOICE.size)[0] for k in range(SLOTS)]
        assert sent == air.choices[:, n].tolist()
        expected = []
        for t, arms in enumerate(air.choices.tolist()):
            collided = arms[n] != -1 and arms.count(arms[n]) > 1
            expected.append((t, 0.0 if collided or arms[n] == -1 else drawn[t][arms[n]], int(collided)))
        assert outcomes(down) == expected
        assert {flag for _, _, flag in expected} == {0, 1}
        in_turn(events)
    assert tokens == set(air.tokens)


def in_turn(events):
    """It speaks once, then hears once, and so on: neither side is ever more than a frame ahead."""
    up = down = 0
    for word, part in events:
        up += len(part) * (word == "up")
        down += len(part) * (word == "down")
        if word == "down":
            assert down // OUTCOME.size <= (up - TOKEN_SIZE) // CHOICE.size
        else:
            assert (up - TOKEN_SIZE) // CHOICE.size <= down // OUTCOME.size + 1


def play(air, slots):
    for _ in range(slots):
        air.slot()


def test_each_is_told_of_her_own_channel():
    problem = MultiplayerProblem([1.0, 1.0, 0.0, 1.0], 3, shuffle=False)
    moves = [choose(0, 1, -1, 2), choose(1, 1, -1, 3), choose(3, 0, 0, 3)]
    with Air(problem) as air, joined(air, moves) as heard:
        air.admit()
        play(air, 4)
    told = [outcomes(b"".join(frames)) for frames in heard]
    assert told == [
        [(0, 1.0, 0), (1, 0.0, 1), (2, 0.0, 0), (3, 0.0, 0)],
        [(0, 1.0, 0), (1, 0.0, 1), (2, 0.0, 0), (3, 0.0, 1)],
        [(0, 1.0, 0), (1, 1.0, 0), (2, 1.0, 0), (3, 0.0, 1)],
    ]
    assert (air.slots, air.collisions, air.latest) == (4, 4, [2, 3, 3])


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (choose(5), "slot 0: player 1 chose channel 5: must be 0 to 4, or -1 to idle"),
        (choose(0, -2), "slot 1: player 1 chose channel -2: must be"),
        ([b"".join(choose(0, 1))], "slot 0: player 1 sent more than one choice"),
        ([b"GET / HTTP/1.1\r\n\r\n"], "slot 0: player 1 sent more than one choice"),
        ([b"\0\0\0"], "slot 0: player 1 was silent for 0.5 s"),
        ([], "slot 0: player 1 hung up"),
    ],
    ids=["no such channel", "below idling", "two choices", "another protocol", "half a frame", "nothing"],
)
def test_a_rogue_player_is_refused(pieces, words):
    moves = [choose(1, 2, 3), pieces]
    patience = 0.5 if "silent" in words else PATIENCE
    with Air(MultiplayerProblem(MEANS[5], 2), patience=patience) as air, joined(air, moves):
        air.admit()
        with pytest.raises(PlayerLost) as caught:
            play(air, 3)
    assert words in str(caught.value)
    assert caught.value.player == 1


def test_strangers_do_not_get_in():
    with Air(MultiplayerProblem([1.0, 1.0, 1.0], 2)) as air, contextlib.ExitStack() as stack:

        def call(words):
            connection = stack.enter_context(socket.create_connection(air.address, timeout=PATIENCE))
            connection.sendall(words)
            return connection

        silent = [call(b"") for _ in range(20)]
        strangers = [call(b"x" * TOKEN_SIZE), call(b"GET / HTTP/1.1\r\n\r\n"), *silent]
        call(b"short").close()
        twice = [call(air.tokens[0] + CHOICE.pack(0)) for _ in range(2)]  # a token works once
        other = call(air.tokens[1] + CHOICE.pack(2))
        air.admit()
        air.slot()
        assert all(closed(stranger) for stranger in strangers)
        assert sorted(map(closed, twice)) == [False, True]
        assert outcomes(other.recv(100)) == [(0, 1.0, 0)]
        with pytest.raises(ConnectionError):  # nobody can join later
            call(b"")


def closed(connection):
    """Whether the air has hung up on a connection."""
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_who_does_not_come_is_named():
    with Air(MultiplayerProblem(MEANS[5], 2)) as air, joined(air, [choose(0)]):
        with pytest.raises(TimeoutError, match=r"player 1 did not join within 0\.5 s"):
            air.admit(seconds=0.5)
        with pytest.raises(ValueError, match="players must join"):
            air.slot()


@pytest.mark.parametrize(
    ("frame", "arm", "words"),
    [
        (pack_outcome(8, 1.0, False), 0, "slot 8 in slot 7"),
        (pack_outcome(7, 1.5, False), 0, "reward 1.5"),
        (pack_outcome(7, math.nan, False), 0, "reward nan"),
        (pack_outcome(7, 0.5, True), 0, "without one"),
        (pack_outcome(7, 0.5, False), -1, "without one"),
        (pack_outcome(7, 0.0, True), -1, "idled"),
        (OUTCOME.pack(7, 0.0, 2), 0, "collision flag 2"),
    ],
)
def test_a_player_refuses_what_cannot_be(frame, arm, words):
    with pytest.raises(BadFrame, match=words):
        unpack_outcome(frame, 7, arm)


def test_a_player_takes_what_can_be():
    assert unpack_outcome(pack_outcome(7, 0.5, False), 7, 3) == (7, 0.5, False)
    assert unpack_outcome(pack_outcome(7, 0.0, True), 7, 3) == (7, 0.0, True)


def test_the_view_shows_who_is_where():
    assert channels([3, 0, 0, -1], 5).plain.split() == ["air", "✗", "·", "·", "0", "·"]

    class Seen:
        phase, settled, holds = "settled", True, True

    class Picture:
        problem = MultiplayerProblem(MEANS[5], 2)
        latest, slots, collisions, devices = [2, -1], 70, 12, [Seen, Seen]
        survives = False

    console = Console(width=80, file=io.StringIO())
    console.print(View(Picture, Picture))
    shown = console.file.getvalue()
    assert "slot 70   collisions 12   settled 2 of 2" in shown
    assert shown.splitlines()[3].split() == ["0", "2", "settled"]
    assert shown.splitlines()[4].split() == ["1", "idle", "settled"]
    Picture.survives, Picture.devices = True, [Seen, Device()]
    console.print(View(Picture, Picture))
    assert "slot 70   collisions 12   owning 1 of 1 present" in console.file.getvalue()
