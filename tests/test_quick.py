"""The short list of `make quick-test`: nothing on it is gone, and every package has a share in it."""

from pathlib import Path

import weakfeedback

ROOT = Path(__file__).parents[1]
DEAR = {"checks", "replays", "reproduce"}  # to compile what they play takes longer than the list may
LISTED = (ROOT / "tests" / "quick.txt").read_text().split()


def test_what_is_listed_exists():
    assert [name for name in LISTED if not (ROOT / name).exists()] == []
    assert sorted(set(LISTED)) == LISTED


def test_every_package_is_covered():
    packages = {path.parent.name for path in Path(weakfeedback.__file__).parent.glob("*/__init__.py")}
    assert {"cascade", "live", "engine"} <= packages
    covered = {Path(name).parts[1] for name in LISTED}
    assert packages - covered == DEAR
