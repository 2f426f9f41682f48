"""Slow twins of the policies, written straight from the thesis and sharing no code with the package."""
