"""Evidence for every statement on speed, as ratios measured in one run on one machine."""
