"""The two medical data sets a reproduction may be given: where they are, and which of them were used."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

SETS = {"pima": "PIMA Indians Diabetes", "heart": "Heart Disease (Cleveland)"}


class BadData(ValueError):
    """A folder of data that cannot be used; the message is one line."""


def place_of(folder: str) -> Any:
    """Return the folder as loaders take it; "" means no folder, whatever the environment says."""
    from weakfeedback.datasets.medical import NOWHERE

    return folder or NOWHERE


def data_folder() -> str:
    """Return the folder named by the environment, "" if there is none."""
    from weakfeedback.datasets.medical import ENVIRONMENT

    return os.environ.get(ENVIRONMENT, "")


def digests(folder: Path | None) -> dict[str, str]:
    """Return, by data set, a digest of its rows, "" where it is missing.

    Raises ``BadData`` if a file is not the data set it should be, or if ``folder`` is given and has neither.
    """
    from weakfeedback.datasets import DataMissing, load_heart, load_pima

    if folder is not None:
        _require_readable(folder)
    found = {}
    for name, load in (("pima", load_pima), ("heart", load_heart)):
        try:
            data = load(folder)
        except DataMissing:
            found[name] = ""
        except ValueError as error:
            raise BadData(str(error)) from None
        else:
            found[name] = hashlib.sha256(data.features.tobytes() + data.target.tobytes()).hexdigest()[:16]
    if folder is not None and not any(found.values()):
        raise BadData(f"{folder}: has neither of the medical data sets ({', '.join(SETS.values())})")
    return found


def _require_readable(folder: Path) -> None:
    try:
        os.listdir(folder)
    except OSError as error:
        raise BadData(f"{folder}: {error.strerror or error}") from None
