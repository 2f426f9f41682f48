"""The page of notation names what the code has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "notation.md"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| $")]
ROWS += [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| WD")]


def test_every_part_of_the_thesis_is_there():
    words = " ".join(row[0] for row in ROWS)
    for symbol in ("S_{ij}", r"\xi", "KP", r"W_\delta", "T_N", r"\theta_{ij}", "J(t)"):
        assert symbol in words
    assert len(ROWS) > 45


@pytest.mark.parametrize("row", ROWS, ids=[row[2].replace("`", "") for row in ROWS])
def test_the_file_has_the_name(row):
    _, _, code, file = row
    path = ROOT / "src" / "weakfeedback" / file.strip("`")
    known = set(re.findall(r"\w+", path.read_text()))
    names = re.findall(r"`(\w+)`", code)
    assert names
    assert not set(names) - known
