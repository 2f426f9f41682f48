"""Coins."""


def toss_coin(chance, rng):
    """Return True with this chance; certain results draw nothing."""
    if chance >= 1.0:
        return True
    return chance > 0.0 and rng.random() < chance
