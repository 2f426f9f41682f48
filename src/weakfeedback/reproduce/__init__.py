"""Reproduction of the whole thesis: the registry of experiments, the run, what is stored, and the page."""
