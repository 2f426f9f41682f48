"""Random streams: any replication can be reached alone, so chunks and workers cannot matter."""

import functools

import numpy as np

WORLD, POLICY = 0, 1
# of NumPy's SeedSequence, whose results NumPy promises to keep, and of PCG64
INIT_A, MULT_A, INIT_B, MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_L, MIX_R = 0xCA01F9DD, 0x4973F715
POOL = 4  # words of 32 bits
MULTIPLIER, LARGEST = 0x2360ED051FC65DA44385DF649FCCF645, 2**128 - 1


def generator(seed: int, replication: int, *stream: int) -> np.random.Generator:
    """The generator of a stream of a replication: (0,) the world, (1,) the policy, (1, n) player n."""
    sequence = np.random.SeedSequence(seed, spawn_key=(replication, *stream))
    return np.random.Generator(np.random.PCG64(sequence))


def states_of_players(seed: int, replication: int, players: int) -> bytes:
    """Where PCG64 starts for player n = 0, 1, ...: 32 bytes of each, the state and its increment, lower bytes first.

    These are the states of ``generator(seed, replication, POLICY, n)``, all at once. A ``SeedSequence`` mixes word
    after word into a pool, and n is the last word: what comes before is the same for all, and left to NumPy.
    """
    pool = np.random.SeedSequence(seed, spawn_key=(replication, POLICY)).pool[:, None]
    words = max(POOL, _words(seed)) + _words(replication) + _words(POLICY)
    # each word that came before took a constant for each word of the pool
    constants = _constants(INIT_A, MULT_A, POOL * words, POOL)
    pool = _folded(MIX_L * pool - MIX_R * _hashed(np.arange(players, dtype=np.uint32), constants))
    drawn = _hashed(np.concatenate([pool, pool]), _constants(INIT_B, MULT_B, 0, 2 * POOL)).astype(np.uint64)
    return b"".join(map(_started, *(drawn[::2] | drawn[1::2] << 32).tolist()))


def _started(high: int, low: int, stream_high: int, stream_low: int) -> bytes:
    """How PCG64 starts: the increment is the stream, made odd; the state takes a step from where it is put."""
    increment = (stream_high << 65 | stream_low << 1 | 1) & LARGEST
    state = ((high << 64 | low) + increment) * MULTIPLIER + increment
    return (state & LARGEST | increment << 128).to_bytes(32, "little")


def _words(number: int) -> int:
    """How many words of 32 bits a ``SeedSequence`` makes of a number."""
    return max(1, -(-number.bit_length() // 32))


@functools.lru_cache(maxsize=64)
def _constants(start: int, factor: int, used: int, wanted: int) -> np.ndarray:
    """A column of powers: one for each word that is hashed, and the one after the last."""
    powers = [start * pow(factor, used + k, 2**32) % 2**32 for k in range(wanted + 1)]
    return np.array(powers, dtype=np.uint32)[:, None]


def _hashed(words: np.ndarray, constants: np.ndarray) -> np.ndarray:
    return _folded((words ^ constants[:-1]) * constants[1:])


def _folded(words: np.ndarray) -> np.ndarray:
    return words ^ words >> 16
