"""Random streams: every replication has its own, so results do not depend on chunks or workers."""

import numpy as np

WORLD, POLICY = 0, 1


def generator(seed: int, replication: int, *stream: int) -> np.random.Generator:
    """Return the generator of a stream of a replication: (0,) the world, (1,) the policy, (1, n) player n."""
    sequence = np.random.SeedSequence(seed, spawn_key=(replication, *stream))
    return np.random.Generator(np.random.PCG64(sequence))
