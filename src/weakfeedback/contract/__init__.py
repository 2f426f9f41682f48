"""What a policy promises: its methods, the decisions it may make, and to leave borrowed arguments alone.

Whether a policy keeps its promises is tried out by `weakfeedback.checks`, which plays it.
"""
