"""A list of compiled players whose type does not contain their number: one compilation serves every N.

``Team`` keeps the structs of N players of one class, ``Generators`` N generators, each with an array of addresses.
In compiled code ``players[n]`` casts an address back to a struct and ``len(players)`` is the size of the array, so
that a round loop reads the same for a list of plain objects and for a team of compiled ones.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from weakfeedback.engine.compiler._numba import teams
from weakfeedback.engine.compiler._numba.borrowed import Loan, borrow, place_of_fields
from weakfeedback.engine.compiler._numba.stream import stream_of
from weakfeedback.engine.compiler._numba.structs import type_of
from weakfeedback.engine.compiler.lowering import Blueprint, compiled_loop


class Team(teams.Addresses):
    """The compiled twins of a list of objects of one class; it keeps them alive."""

    def __init__(self, blueprint: Blueprint, objects: Iterable[Any]) -> None:
        self.blueprint = blueprint
        self.objects = list(objects)  # their arrays are shared with the structs
        self.structs = [blueprint.build(one) for one in self.objects]
        twin = borrow(self.structs[0], blueprint.methods.values())
        self.item = type_of(twin)
        address = place_of_fields if isinstance(twin, Loan) else compiled_loop(teams.address, blueprint)
        self.address = np.array([address(struct) for struct in self.structs], dtype=np.int64)

    def states(self) -> list[dict[str, Any]]:
        """Return the fields of each twin."""
        return [self.blueprint.read(struct) for struct in self.structs]


class Generators(teams.Addresses):
    """The generators of a list of players: where NumPy keeps the bits of each."""

    def __init__(self, generators: list[np.random.Generator]) -> None:
        self.objects = list(generators)
        kinds = {type(generator.bit_generator) for generator in self.objects}
        if len(kinds) > 1:
            raise TypeError(f"the generators of a team must be of one kind, not {len(kinds)}")
        self.item = type_of(stream_of(self.objects[0]))
        self.address = np.array([teams.place_of_bits(one) for one in self.objects], dtype=np.int64)
