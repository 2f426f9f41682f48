"""Policies for contextual cascades, one in each file."""
