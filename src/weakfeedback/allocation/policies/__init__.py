"""Policies for allocation, one in each file."""
