"""Conformance of a policy: everything the simulation and the live objects rely on, checked by running it."""

from weakfeedback.checks.conformance import CHECKS, CheckReport, PolicyCheckError, check_policy

__all__ = ["CHECKS", "CheckReport", "PolicyCheckError", "check_policy"]
