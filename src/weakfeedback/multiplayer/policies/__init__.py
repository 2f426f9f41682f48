"""Policies of players, one in each file."""
