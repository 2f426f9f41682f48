"""Secrets from the environment: in a variable, or in a file that a variable names."""

import os
from pathlib import Path


def read_secret(name: str) -> str:
    """Return the secret in an environment variable, or in the file that ``NAME_FILE`` names; "" if there is none."""
    secret, file = os.environ.get(name, ""), os.environ.get(f"{name}_FILE", "")
    if secret and file:
        raise ValueError(f"{name} and {name}_FILE are both set: set one of them")
    return secret_in(f"{name}_FILE", file) if file else secret


def secret_in(place: str, file: str | os.PathLike[str]) -> str:
    """Return the secret in a file, without the end of its line; ``place`` is where the file is named."""
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{place}: {file} cannot be read: {type(error).__name__}") from None
    if not found:
        raise ValueError(f"{place}: {file} is empty")
    if (lines := len(found.splitlines())) > 1:
        raise ValueError(f"{place}: {file} must hold one secret in one line, got {lines} lines")
    return found
