"""Radios on six channels that come and go: each holds a ``Player`` and hears only its own channel.

The loop below is the air; in the field there is none, and each device runs its own three lines.
"""

import numpy as np

from weakfeedback import Player

quality = np.array([0.3, 0.95, 0.5, 0.9, 0.7, 0.8])  # how often a channel carries a message; unknown to all
radios = {name: Player(arms=6, seed=seed) for seed, name in enumerate("ABCD")}
air = np.random.default_rng(9)

sent = possible = 0.0
for slot in range(1, 9001):
    if slot == 3001:
        radios["E"] = Player(arms=6, seed=4)  # it knows nothing, not even how many there are
    if slot == 6001:
        best = max(radios, key=lambda name: quality[radios[name].arm])
        del radios[best]  # without a word, as if its battery were empty
        print(f"{best} is gone")
    channels = {name: radio.choose() for name, radio in radios.items()}
    carried = air.random(6) < quality
    for name, channel in channels.items():
        collided = channel >= 0 and list(channels.values()).count(channel) > 1
        reward = float(carried[channel]) if channel >= 0 and not collided else 0.0
        radios[name].observe(reward, collided)
        sent += reward
    possible += np.sort(quality)[-len(radios) :].sum()
    if slot in (1, 100, 1000, 3000, 3100, 6000, 6100, 9000):
        owned = "  ".join(f"{name} {radio.arm if radio.holds else '-'}" for name, radio in radios.items())
        print(f"slot {slot:5d}   owns:  {owned:30}  sent {sent / possible:.1%} of what was possible")

print()
print(radios["E"].report())
