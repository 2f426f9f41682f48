"""Patrols for ten places: which share keeps a place safe, and which places are worth it?

Incidents are seen only where too few patrols were. A place without an incident was safe, or lucky.
"""

import numpy as np

from weakfeedback.live.allocator import Allocator

rng = np.random.default_rng(7)
risk = np.array([0.9, 0.8, 0.75, 0.7, 0.6, 0.5, 0.45, 0.4, 0.3, 0.2])  # incidents per night, if not safe
needed = 0.6  # of a patrol, at every place: unknown to the planner
patrols = 3.1

planner = Allocator(len(risk), budget=patrols, policy="CSB-SU", seed=0)
nights, incidents = 1000, []
for _ in range(nights):
    plan = planner.decide()
    happened = (rng.random(len(risk)) < risk) & (plan.allocation < needed)
    planner.feedback(plan.id, happened.astype(float))
    incidents.append(happened.sum())

best = risk.sum() - np.sort(risk)[::-1][: int(patrols / needed)].sum()
print(
    f"Incidents a night: {np.mean(incidents[:20]):.2f} at first, {np.mean(incidents[-300:]):.2f} in the end."
)
print(f"The best plan, knowing everything, has {best:.2f}.")
print("Patrols on the last night:", plan.allocation.round(2).tolist())
