"""Environments for the peers: made once by pip, kept in a folder, and used again."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Peer:
    """What to install, for which Pythons, and the script that plays."""

    name: str
    script: str
    packages: tuple[str, ...]
    pythons: tuple[str, ...]  # the first one found is used


MODERN = ("3.12", "3.11", "3.13")
PEERS = {
    peer.name: peer
    for peer in (
        Peer("River", "river_peer.py", ("river",), MODERN),
        Peer("MABWiser", "mabwiser_peer.py", ("mabwiser",), ("3.11", "3.12")),
        # numba, so that what it has compiled is compiled
        Peer(
            "SMPyBandits",
            "smpybandits_peer.py",
            (
                "numpy<1.20",
                "scipy<1.6",
                "matplotlib<3.4",
                "numba<0.54",
                "seaborn",
                "scikit-learn",
                "joblib",
                "tqdm",
                "SMPyBandits",
            ),
            ("3.8", "3.9"),
        ),
        Peer("Vowpal Wabbit", "vowpalwabbit_peer.py", ("vowpalwabbit", "numpy"), ("3.10", "3.11", "3.9")),
        Peer("scikit-learn", "sklearn_peer.py", ("scikit-learn",), MODERN),
    )
}


class NotInstalled(RuntimeError):
    """A peer is not here, for the reason given."""


def folder() -> Path:
    """Where the environments are kept."""
    return Path(os.environ.get("WEAKFEEDBACK_PEERS", Path.home() / ".cache" / "weakfeedback-bench"))


def interpreter(versions: tuple[str, ...]) -> str:
    """The first Python of these versions that the machine has: on the path, or among pyenv's."""
    for version in versions:
        kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        found = str(kept[-1]) if kept else shutil.which(f"python{version}")
        if found:
            return found
    raise NotInstalled(f"no Python {' or '.join(versions)} on this machine")


def environment(peer: Peer, timeout: float = 600.0) -> Path:
    """The Python of the peer's environment, made if there is none yet."""
    home = folder() / peer.name.replace(" ", "-").lower()
    python, ready = home / "bin" / "python", home / "installed"
    wanted = "\n".join(peer.packages)
    if ready.exists() and ready.read_text() == wanted:
        return python
    base = interpreter(peer.pythons)
    shutil.rmtree(home, ignore_errors=True)
    print(f"installing {peer.name} into {home}", flush=True)
    for step in (
        [base, "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.packages],
    ):
        try:
            done = subprocess.run(step, capture_output=True, text=True, timeout=timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotInstalled(f"{type(error).__name__} while installing") from None
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise NotInstalled((lines or done.stderr.splitlines() or ["pip failed"])[-1][:200])
    ready.write_text(wanted)
    return python


def command(peer: Peer) -> list[str]:
    """How to start the peer's script."""
    return [str(environment(peer)), "-W", "ignore", str(HERE / peer.script)]
