"""Pictures for tests that are not about them: matplotlib takes a sixth of a second for each."""

import pytest


@pytest.fixture
def undrawn(monkeypatch):
    """Pages get empty pictures."""

    def empty(figure, digest=""):
        return f"no picture {digest}".encode(), f"<svg>{digest}</svg>".encode()

    monkeypatch.setattr("weakfeedback.report.pictures.draw", empty)
