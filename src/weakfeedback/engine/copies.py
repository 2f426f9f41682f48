"""All the players of a team made at once: one is lowered, and her struct is copied as bytes.

To copy, lower and read back 50 players one by one took as long as 3000 rounds of theirs. They are copies of one
prototype, so their structs differ in nothing but where their arrays are. Only for players whom compiled code borrows:
it counts no reference to what a copied struct points to, and does not ask whose it is.
"""

import ctypes
import functools
from typing import Any

import numpy as np
from numba import types
from numba.core.registry import cpu_target

from weakfeedback.engine.borrowed import Borrowed, place_of_fields
from weakfeedback.engine.cast import Columns
from weakfeedback.engine.lowering import Blueprint
from weakfeedback.engine.seeds import POLICY, generator, states_of_players
from weakfeedback.engine.stream import STREAM
from weakfeedback.engine.team import Generators, Seeded, Team, seeds_known

WORD = 8  # bytes
NUMBERS = {
    types.int64: np.dtype(np.int64),
    types.float64: np.dtype(np.float64),
    types.boolean: np.dtype(np.bool_),
}


class Mould:
    """Makes copies of players of one kind: ``item`` is what compiled code sees of each of them."""

    def __init__(self, blueprint: Blueprint, item: Borrowed, seeded: bool) -> None:
        self.blueprint, self.item, self.seeded = blueprint, item, seeded
        struct = item.struct
        self.size, places = layout_of(struct.get_data_type(), tuple(name for name, _ in struct._fields))
        self.words = -(-self.size // WORD)  # of a struct
        self.numbers: list[tuple[str, np.dtype, int]] = []  # name, kind, how many of its size come before
        self.arrays: list[tuple[str, int]] = []  # name, how many words come before its address
        for (name, kind), place in zip(struct._fields, places):
            if kind in NUMBERS:
                self.numbers.append((name, NUMBERS[kind], place // NUMBERS[kind].itemsize))
            else:
                self.arrays.append((name, (place + layout_of(kind, ("data",))[1][0]) // WORD))

    def enlist(
        self, prototype: Any, players: int, seed: int, replication: int
    ) -> tuple["Copies", Generators]:
        """The players of a replication, and their generators."""
        if self.seeded:
            rngs: Generators = Seeded(states_of_players(seed, replication, players))
        else:
            rngs = Generators([generator(seed, replication, POLICY, n) for n in range(players)])
        return Copies(self, prototype, players), rngs


class Copies(Team):
    """Copies of a prototype, as ``fresh`` would make them: an array that cannot be written is shared by all."""

    def __init__(self, mould: Mould, prototype: Any, players: int) -> None:
        struct = mould.blueprint.build(prototype)
        self.objects, self.structs, self.item = [prototype], [struct], mould.item
        self.mould = mould
        number = np.arange(players)
        one = ctypes.string_at(place_of_fields(struct), mould.size).ljust(mould.words * WORD, b"\0")
        self.rows = np.frombuffer(bytearray(one * players), dtype=np.int64).reshape(players, mould.words)
        self.address = address_of(self.rows) + mould.words * WORD * number
        self.arrays: dict[str, np.ndarray] = {}
        made: dict[int, np.ndarray] = {}  # two names of one array stay two names of one array
        fields = dict(zip(mould.blueprint.fields, vars(prototype).values()))
        for name, place in mould.arrays:
            array = fields[name]
            if not array.flags.writeable:
                self.arrays[name] = np.broadcast_to(array, (players, *array.shape))
                continue
            if id(array) not in made:
                made[id(array)] = np.empty((players, *array.shape), array.dtype)
                made[id(array)][...] = array
            self.arrays[name] = made[id(array)]
            self.rows[:, place] = address_of(made[id(array)]) + array.nbytes * number

    def state(self) -> Columns:
        """All their fields: views of what compiled code writes."""
        in_order = dict.fromkeys(self.mould.blueprint.fields, self.rows)
        columns = Columns(self.address.size, in_order | self.arrays)
        views = {kind: self.rows.view(kind) for kind in NUMBERS.values()}
        for name, kind, place in self.mould.numbers:
            columns[name] = views[kind][:, place]
        return columns


def mould_for(blueprint: Blueprint, team: Team, generators: Generators) -> Mould | None:
    """A mould for players like those of a team, if they are borrowed and have nothing but numbers and arrays."""
    item = team.item
    if not isinstance(item, Borrowed):
        return None
    plain = all(kind in NUMBERS or isinstance(kind, types.Array) for _, kind in item.struct._fields)
    return Mould(blueprint, item, generators.item == STREAM and seeds_known()) if plain else None


def address_of(array: np.ndarray) -> int:
    """Where the memory of an array begins."""
    return array.__array_interface__["data"][0]


@functools.lru_cache(maxsize=4096)  # asking LLVM takes as long as many rounds
def layout_of(kind: Any, names: tuple[str, ...]) -> tuple[int, list[int]]:
    """How many bytes a value of the compiler's takes, and behind how many bytes of it these members begin."""
    context: Any = cpu_target.target_context
    model = context.data_model_manager[kind]
    layout = model.get_value_type()
    places = [
        layout.get_element_offset(context.target_data, model.get_field_position(name)) for name in names
    ]
    return context.get_abi_sizeof(layout), places
