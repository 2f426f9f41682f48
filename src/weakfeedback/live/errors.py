"""What live objects raise and warn of."""

from __future__ import annotations


class UnknownDecision(LookupError):
    """The id was never issued, or its decision was cancelled."""


class FeedbackConflict(ValueError):
    """The decision was already answered, with other content."""


class PendingDecision(RuntimeError):
    """No further decision can be made before an open one is answered or cancelled."""


class DurabilityWarning(UserWarning):
    """A round was learned, but the journal could not be written: it is in memory only."""


class Refused(ValueError):
    """The call is valid for other objects, but not for this one. ``code`` says why, for programs.

    "not_offered": its policy cannot do this at all. "wrong_label": the label is not wanted, or is none.
    """

    def __init__(self, words: str, code: str = "not_offered") -> None:
        super().__init__(words)
        self.code = code
