"""The frames on the wire: a player's choice one way, slot number, reward and collision flag the other way.

All frames have a fixed size, in network byte order. A player joins with its token, which only distinguishes its
connection from others; after that, exactly one choice and one outcome are sent in each slot.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

IDLE = -1
HOST = "127.0.0.1"
TOKEN_SIZE = 16
CHOICE = struct.Struct("!i")  # the channel, or -1 to idle
OUTCOME = struct.Struct("!IdB")  # the slot (the first is 0), the reward, 1 for a collision


class BadFrame(Exception):
    """An invalid frame was received."""


class HungUp(Exception):
    """The peer has closed the connection."""


class Outcome(NamedTuple):
    """What a player observes of a slot."""

    slot: int
    reward: float
    collided: bool


def pack_outcome(slot: int, reward: float, collided: bool) -> bytes:
    """Return the frame with the outcome of a player's slot."""
    return OUTCOME.pack(slot, reward, collided)


def unpack_outcome(frame: bytes, slot: int, arm: int) -> Outcome:
    """Read a frame; refuse one that cannot be the answer to ``arm`` in ``slot``."""
    told, reward, flag = OUTCOME.unpack(frame)
    if told != slot:
        raise BadFrame(f"the air answered for slot {told} in slot {slot}")
    if not 0.0 <= reward <= 1.0:
        raise BadFrame(f"the air gave the reward {reward!r} in slot {slot}: must be from 0 to 1")
    if flag > 1:
        raise BadFrame(f"the air gave the collision flag {flag} in slot {slot}: must be 0 or 1")
    if (flag or arm == IDLE) and reward > 0.0:
        raise BadFrame(f"the air gave the reward {reward!r} for a slot without one, {slot}")
    if flag and arm == IDLE:
        raise BadFrame(f"the air reported a collision in slot {slot}, in which the player idled")
    return Outcome(told, reward, flag == 1)


def unpack_choice(frame: bytes, arms: int) -> int:
    """Read a frame; refuse a channel that does not exist."""
    if len(frame) > CHOICE.size:
        raise BadFrame("sent more than one choice in a slot")
    (arm,) = CHOICE.unpack(frame)
    if not IDLE <= arm < arms:
        raise BadFrame(f"chose channel {arm}: must be 0 to {arms - 1}, or -1 to idle")
    return int(arm)


def receive(connection: socket.socket, size: int, spare: int = 0) -> bytes:
    """Wait for ``size`` bytes; up to ``spare`` more are returned if available, so that the caller can refuse them."""
    frame = b""
    while len(frame) < size:
        try:
            part = connection.recv(size + spare - len(frame))
        except ConnectionError:
            part = b""
        if not part:
            raise HungUp(f"the connection was closed after {len(frame)} of {size} bytes")
        frame += part
    return frame


def send(connection: socket.socket, frame: bytes) -> None:
    """Send a frame."""
    try:
        connection.sendall(frame)
    except ConnectionError:
        raise HungUp("the connection was closed") from None


def prepare(connection: socket.socket, patience: float) -> None:
    """Send every frame immediately, and set the timeout."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(patience)
