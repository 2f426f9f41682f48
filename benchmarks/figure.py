"""The table as a picture: our time per round, the floor and the peers, on one logarithmic scale."""

from pathlib import Path

from benchmarks.compare import Measured
from benchmarks.table import PEER_NAMES, duration

# Okabe and Ito's colours and a shape each, so that neither alone carries the meaning
STYLES = {
    "River": ("#0072B2", "s"),
    "SMPyBandits": ("#D55E00", "^"),
    "MABWiser": ("#009E73", "D"),
    "Vowpal Wabbit": ("#CC79A7", "v"),
    "scikit-learn": ("#E69F00", "P"),
}


def draw(found: list[Measured], folder: Path) -> list[Path]:
    """Write bench.png and bench.svg."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 1.6 + 0.34 * len(found)), layout="constrained")
    for y, one in enumerate(found):
        axes.plot([one.floor.best, one.ours.best], [y, y], color="#000000", linewidth=1, zorder=1)
        axes.plot(one.floor.best, y, marker="|", color="#000000", markersize=12, linestyle="none")
        axes.plot(one.ours.best, y, marker="o", color="#000000", markersize=7, linestyle="none")
        for name, timing in one.peers.items():
            colour, shape = STYLES[name]
            axes.plot(timing.best, y, marker=shape, color=colour, markersize=7, linestyle="none")
        fastest = one.fastest
        if fastest is not None:
            words = f"{one.to_peer(fastest)} x {fastest}"
            axes.annotate(
                words,
                (1.005, y),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                annotation_clip=False,
            )
    handles = [pyplot.Line2D([], [], color="#000000", marker="o", linestyle="none", label="weakfeedback")]
    handles.append(
        pyplot.Line2D([], [], color="#000000", marker="|", markersize=12, linestyle="none", label="floor")
    )
    seen = {name for one in found for name in one.peers}
    handles += [
        pyplot.Line2D([], [], color=STYLES[name][0], marker=STYLES[name][1], linestyle="none", label=name)
        for name in PEER_NAMES
        if name in seen
    ]
    axes.set_xscale("log")
    axes.set_yticks(
        range(len(found)), [f"{one.row.work}  ({duration(one.ours.best)})" for one in found], fontsize=8
    )
    axes.invert_yaxis()
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("CPU nanoseconds per round; at the right the fastest peer's time over ours")
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8, frameon=False)
    paths = [folder / f"bench.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return paths
