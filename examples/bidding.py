"""Bids in eight auctions a day with one budget: an auction is won by bidding its reserve price or more.

A lost customer is noticed (a loss); a won auction, or a day without a customer, shows nothing. News come late.
"""

import numpy as np

from weakfeedback.live.allocator import Allocator

rng = np.random.default_rng(11)
customers = np.array([0.9, 0.85, 0.7, 0.65, 0.6, 0.5, 0.4, 0.35])  # how likely a customer is there
reserve = np.array([0.62, 0.31, 0.44, 0.23, 0.52, 0.28, 0.36, 0.21])  # unknown to the bidder
budget = 1.5

bidder = Allocator(len(customers), budget, "CSB-DU", seed=0, gamma=0.01)
open_days, lost = [], []
for _ in range(3000):
    bids = bidder.decide()
    missed = (rng.random(len(customers)) < customers) & (bids.allocation < reserve)
    open_days.append((bids.id, missed.astype(float)))
    lost.append(missed.sum())
    if len(open_days) == 5:  # the news of five days comes at once, the latest first
        while open_days:
            bidder.feedback(*open_days.pop())

print(f"Customers lost a day: {np.mean(lost[:50]):.2f} at first, {np.mean(lost[-500:]):.2f} in the end.")
print("Bids on the last day:  ", bids.allocation.round(2).tolist())
print("Reserve prices (hidden):", reserve.tolist())
