"""The rows of the table: our work, its goal, and the nearest work of each peer."""

from dataclasses import dataclass, field
from typing import Any

Request = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One line: a case of ours, what each peer is asked to do, and what the ratios should be."""

    work: str
    peers: dict[str, Request] = field(default_factory=dict)
    nearest: str = ""  # what the peers do
    floor_at_most: float | None = None
    fastest_at_least: float | None = None  # of all peers
    peer_at_least: dict[str, float] = field(default_factory=dict)


def bandit(kind: str, arms: int) -> dict[str, Request]:
    """A stochastic bandit with as many arms."""
    rounds = max(50, 20_000 // arms)
    slow = {"work": kind, "arms": arms, "rounds": max(20, rounds // 20)}
    quick = {"work": kind, "arms": arms, "rounds": rounds}
    return {
        "River": quick,
        "SMPyBandits": quick,
        "MABWiser": slow,
        "Vowpal Wabbit": {**quick, "rounds": rounds // 4},
    }


def team(kind: str, arms: int, players: int) -> dict[str, Request]:
    """Players who collide, all rounds in the phase of learning."""
    rounds = 20_000 if arms == 10 else 1000
    horizon = rounds if kind == "musical chairs" else 10 * 100_000
    return {
        "SMPyBandits": {"work": kind, "arms": arms, "players": players, "rounds": rounds, "horizon": horizon}
    }


def contexts(features: int) -> dict[str, Request]:
    """Refits with as many observations as there are half-way through 5000 rounds, and bandits that learn online."""
    online = {"work": "contextual", "arms": 3, "features": features, "rounds": 400}
    refits = {"work": "refit", "features": features, "rounds": 2, "at": 2500}
    return {"scikit-learn": refits, "MABWiser": {**online, "rounds": 60}, "Vowpal Wabbit": online}


TEAMS = ((10, 6), (100, 50))
THOMPSON = "Thompson sampling of as many arms, one pulled"
ROWS: tuple[Row, ...] = (
    *(
        Row(f"USS-TS K={k}", bandit("thompson", k), THOMPSON, floor_at_most=1.5, fastest_at_least=20.0)
        for k in (3, 10, 100)
    ),
    *(Row(f"USS-UCB K={k}", bandit("ucb", k), "UCB1 of as many arms") for k in (3, 10, 100)),
    *(
        Row(f"CSB-SU K={k}", bandit("thompson", k), THOMPSON, floor_at_most=1.7, fastest_at_least=20.0)
        for k in (50, 1000)
    ),
    Row("CSB-MK K=10", bandit("thompson", 10), THOMPSON, fastest_at_least=20.0),
    Row("CSB-DU K=10", bandit("thompson", 10), THOMPSON, fastest_at_least=20.0),
    *(
        Row(f"{name} K={k} N={n}", team("sic-mmab", k, n), "SIC-MMAB, as it explores and communicates too")
        for k, n in TEAMS
        for name in ("DLC", "DLC-LIX")
    ),
    *(
        Row(f"{name} K={k} N={n}", team(kind, k, n), "the same", peer_at_least={"SMPyBandits": 100.0})
        for k, n in TEAMS
        for name, kind in (("MusicalChairs", "musical chairs"), ("SIC-MMAB", "sic-mmab"))
    ),
    *(
        Row(
            f"USS-PD d'={d}",
            contexts(d),
            "refits of every pair every round; LinUCB; a bag of five online",
            peer_at_least={"scikit-learn": 100.0},
        )
        for d in (10, 45, 105)
    ),
)
