"""Transmission power over six channels: a channel carries data only if it gets enough power.

What a channel delivers is seen (a reward); a silent one had too little power, or nothing to deliver.
"""

import numpy as np

from weakfeedback.live.allocator import Allocator

rng = np.random.default_rng(3)
rate = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])  # how often a channel that has enough power delivers
needed = np.array([0.55, 0.30, 0.45, 0.25, 0.40, 0.20])  # unknown to the transmitter
power = 1.25

transmitter = Allocator(
    len(rate), power, "NUM-MK", setting="reward", seed=0, epsilon=0.3, delta=0.05, gamma=0.01
)
delivered = []
for _ in range(4000):
    slot = transmitter.decide()
    arrived = (rng.random(len(rate)) < rate) & (slot.allocation >= needed)
    transmitter.feedback(slot.id, arrived.astype(float))
    delivered.append(arrived.sum())

print(
    f"Delivered per slot: {np.mean(delivered[:200]):.2f} at first, {np.mean(delivered[-1000:]):.2f} in the end."
)
print("Power in the last slot:", slot.allocation.round(2).tolist())
print(transmitter.report())
