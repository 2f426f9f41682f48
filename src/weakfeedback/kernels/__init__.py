"""Numeric routines that give the same bits interpreted and compiled."""
