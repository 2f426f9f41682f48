"""What the package decided, stored and answered at commit b4ed9b6, frozen: nothing of it may change by accident.

``python -m tests.evidence PART...`` makes it again with the package as it is now; see `tests.evidence.__main__`.
"""
