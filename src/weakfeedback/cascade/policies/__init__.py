"""Policies for cascades, one in each file."""
