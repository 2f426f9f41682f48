"""Deciding well when you never see the reward."""

from weakfeedback._version import __version__

__all__ = ["__version__"]
