"""Four radios on six channels: each holds a ``Player`` and hears only its own channel.

The loop below is the air; in the field there is none, and each device runs its own three lines.
"""

import numpy as np

from weakfeedback import Player

quality = np.array([0.3, 0.95, 0.5, 0.9, 0.7, 0.8])  # how often a channel carries a message; unknown to all
radios = [Player(arms=6, policy="DLC-LIX", epsilon=0.1, seed=seed) for seed in range(4)]
air = np.random.default_rng(9)

collisions = 0
while not all(radio.settled for radio in radios):
    channels = [radio.choose() for radio in radios]
    carried = air.random(6) < quality
    for radio, channel in zip(radios, channels, strict=True):
        collided = channel >= 0 and channels.count(channel) > 1
        collisions += collided
        reward = float(carried[channel]) if channel >= 0 and not collided else 0.0
        radio.observe(reward, collided)
    slot = radios[0].slot
    if slot in (1, 100, 200, 300, 500, 1000, 2000):
        where = " ".join("idle" if c < 0 else f"{c:4d}" for c in channels)
        phases = ", ".join(sorted({radio.phase for radio in radios}))
        print(f"slot {slot:5d}   channels {where}   {phases}")

print(f"\nall settled after {slot} slots and {collisions} collisions")
print(
    "channels",
    [radio.arm for radio in radios],
    "of qualities",
    [float(quality[radio.arm]) for radio in radios],
)
print()
print(radios[0].report())
