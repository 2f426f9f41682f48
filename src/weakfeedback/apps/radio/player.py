"""One player as a process: ``python -m weakfeedback.apps.radio.player`` with its settings on standard input.

It gets the address of the air, its token, the number of channels, its policy and the state of its own generator, but
not the identity or number of the others. It receives only the outcomes of its own slots. What it prints is its
display: a line of JSON whenever its state changes. No player can read the display of another.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.apps.radio.wire import (
    CHOICE,
    HOST,
    IDLE,
    OUTCOME,
    HungUp,
    prepare,
    receive,
    send,
    unpack_outcome,
)
from weakfeedback.multiplayer.setting import SETTING
from weakfeedback.multiplayer.words import phase_of

Display = Callable[[dict[str, Any]], None]


def listen_and_play(
    connection: socket.socket, policy: Any, rng: np.random.Generator, display: Display
) -> int:
    """Play until the air closes the connection; return the number of slots."""
    slot = 0
    shown: tuple[Any, ...] = ()
    while True:
        arm = int(policy.choose(rng))
        try:
            send(connection, CHOICE.pack(arm))
            frame = receive(connection, OUTCOME.size)
        except HungUp:
            return slot
        _, reward, collided = unpack_outcome(frame, slot, arm)
        policy.observe(arm, reward, collided, rng)
        slot += 1
        settled = bool(policy.settled)
        holds = bool(getattr(policy, "holds", settled))
        face = (phase_of(policy), settled, holds, int(policy.arm) if holds else IDLE)
        if face != shown:
            shown = face
            display({"slot": slot, "phase": face[0], "settled": settled, "holds": holds, "arm": face[3]})


def run(orders: dict[str, Any], display: Display) -> int:
    """Join and play with these settings."""
    policy = SETTING.make_policy(orders["policy"], orders["arms"], **orders["options"])
    bits = np.random.PCG64(0)
    bits.state = orders["generator"]
    patience = float(orders["patience"])
    with socket.create_connection((HOST, orders["port"]), timeout=patience) as connection:
        prepare(connection, patience)
        send(connection, bytes.fromhex(orders["token"]))
        return listen_and_play(connection, policy, np.random.Generator(bits), display)


def show(line: dict[str, Any]) -> None:
    """Print a line on the display."""
    print(json.dumps(line), flush=True)


def main() -> None:
    """Run the process; print one line on standard error and exit with status 1 if it cannot continue."""
    try:
        run(json.load(sys.stdin), show)
    except TimeoutError:
        sys.exit("the air did not answer in time")
    except BrokenPipeError:  # nobody reads the display any more
        sys.stdout = None
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
