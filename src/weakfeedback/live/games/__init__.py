"""The games: what one round of each kind of live object is."""
