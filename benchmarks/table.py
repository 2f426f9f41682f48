"""The table in words: for the terminal, and the same rows for the file and the figure."""

from benchmarks.compare import Measured

PEER_NAMES = ("River", "SMPyBandits", "MABWiser", "Vowpal Wabbit", "scikit-learn")


def duration(ns: float) -> str:
    """Nanoseconds in the unit that reads best.

    >>> duration(98.1), duration(163084.0), duration(4.2e6)
    ('98 ns', '163 us', '4.2 ms')
    """
    for size, unit in ((1e6, "ms"), (1e3, "us"), (1.0, "ns")):
        if ns >= size:
            value = ns / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{ns:.2g} ns"


def cells(measured: Measured) -> list[str]:
    """One line of the table."""
    peers = []
    for name in PEER_NAMES:
        if name in measured.peers:
            peers.append(f"{duration(measured.peers[name].best)} ({measured.to_peer(name)})")
        else:
            peers.append("skipped" if name in measured.skipped else "")
    return [
        measured.row.work,
        duration(measured.ours.best),
        duration(measured.ours.median),
        f"{measured.ours.spread:.0%}",
        duration(measured.floor.best),
        str(measured.to_floor),
        *peers,
        f"{measured.peak_mb:.0f} MB",
    ]


HEADER = ["work", "ours", "median", "spread", "floor", "to floor", *PEER_NAMES, "peak"]


def lines(rows: list[list[str]]) -> list[str]:
    """Columns of equal width."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def text(found: list[Measured]) -> str:
    """The whole table, what was skipped, and the goals."""
    parts = lines([HEADER, *(cells(one) for one in found)])
    parts.append("CPU time per round, best of the repetitions; a peer's ratio is its time over ours.")
    parts.append("? marks a ratio with a spread (median over best, less one) above 15 %.")
    reasons = sorted({(name, reason) for one in found for name, reason in one.skipped.items()})
    parts += [f"skipped: {name}: {reason}" for name, reason in reasons]
    for one in found:
        for words, met in one.goals():
            parts.append(f"{'met   ' if met else 'MISSED'} {one.row.work}: {words}")
    return "\n".join(parts)
