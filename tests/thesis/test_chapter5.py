"""Chapter 5 as data: every claim is there, every experiment serves one, and verdicts follow the results."""

import math

import numpy as np
import pandas as pd
import pytest

from weakfeedback import Results
from weakfeedback.engine.seeds import POLICY, generator
from weakfeedback.experiments import judge, run_experiment, run_experiments
from weakfeedback.multiplayer import Dlc, MultiplayerProblem, instances
from weakfeedback.multiplayer.opening import INDEXING, Opening
from weakfeedback.thesis.chapter5 import CLAIMS, EXPERIMENTS, TABLES
from weakfeedback.thesis.chapter5.evidence import share, trend
from weakfeedback.thesis.chapter5.experiments import DLC, DLC_N, LIX, LIX_N, MC, ROUNDED, ROUNDED_N, SIC
from weakfeedback.thesis.chapter5.protocol import follow, traces, unseated

LINES = {
    84: "4212, 4264, 4732",
    85: "4167",
    86: "4167",
    87: "4222",
    88: "4382",
    89: "4391",
    90: "4398",
    91: "4413",
    92: "4424",
    93: "4370-4376, 4434, 4443",
    94: "4448",
    95: "4454",
    96: "4456",
    97: "4456",
    98: "4456",
    99: "4351",
    100: "4461, 4604",
    101: "4525, 4557-4583",
    102: "4339, 4521",
    103: "4473",
    104: "4617",
    105: "4619",
    106: "4619",
    107: "4654",
    108: "4654",
    109: "4654",
    110: "4654",
    111: "4656",
    112: "4658",
    113: "4658",
    114: "4678",
    115: "4678",
}
COMPUTED = (88, 89, 91, 92, 95, 96, 103)


def some(*numbers):
    return [claim for claim in CLAIMS if claim.number in numbers]


def verdict(number, run):
    ((_, found),) = judge(some(number), run)
    return found


def results(finals, facts, horizon=1_000, measures=None):
    """Results with two marks: half of the final values, then the final values plus a little noise."""
    rng, rows = np.random.default_rng(0), []
    for policy, final in finals.items():
        for replication in range(20):
            regret = final * (1.0 + 0.02 * rng.standard_normal())
            for at, part in ((horizon // 2, 0.5), (horizon, 1.0)):
                row = {"policy": policy, "replication": replication, "round": at, "regret": part * regret}
                rows.append({**row, **{name: value[policy] for name, value in (measures or {}).items()}})
    frame = pd.DataFrame(rows).astype({"policy": pd.CategoricalDtype(list(finals))})
    return Results(frame, dict.fromkeys(finals, True), {"facts": facts, "horizon": horizon})


def test_every_claim_is_there_with_its_lines():
    assert {claim.number: claim.lines for claim in CLAIMS} == LINES
    assert len(CLAIMS) == len(LINES)


def test_claims_and_experiments_need_each_other():
    used = {name for claim in CLAIMS for name in claim.experiments}
    assert used == set(EXPERIMENTS)
    assert [claim.number for claim in CLAIMS if not claim.experiments] == list(COMPUTED)
    assert {name for table in TABLES for name in table.experiments} <= set(EXPERIMENTS)


def test_the_experiments_are_those_of_the_thesis():
    """Its horizons, at least its 20 replications, and every named instance."""
    for name in instances.names():
        stated = instances.describe(name)
        experiment = EXPERIMENTS[f"ch5-compare-{name}" if name in ("e1", "e2") else f"ch5-{name}"]
        assert (experiment.instance, experiment.horizon) == (name, stated.horizon)
        assert experiment.replications >= 20
        assert {DLC, DLC_N, LIX, LIX_N} <= set(experiment.policies)
    assert {MC: 3_000} == {MC: EXPERIMENTS["ch5-compare-e1"].policies[MC](instances.load("e1")).T0}
    assert all(experiment.replications >= 20 for experiment in EXPERIMENTS.values())


def test_labels_say_what_the_policies_are():
    problem = instances.load("e2")
    made = {label: make(problem) for label, make in EXPERIMENTS["ch5-compare-e2"].policies.items()}
    assert {label for label, player in made.items() if getattr(player, "shared", False)} == {
        DLC_N,
        LIX_N,
        ROUNDED_N,
    }
    assert {label for label, player in made.items() if not getattr(player, "exact", True)} == {
        ROUNDED,
        ROUNDED_N,
    }


@pytest.mark.parametrize(("arms", "players", "rounds"), [(3, 3, 4), (5, 4, 3), (6, 2, 2)])
def test_risk_of_orthogonalisation_against_players(arms, players, rounds):
    failed = 0
    for replication in range(3_000):
        sitting = [Opening() for _ in range(players)]
        rngs = [generator(8, replication, POLICY, n) for n in range(players)]
        for player in sitting:
            player.start_opening(arms, rounds, False)
        while sitting[0].phase != INDEXING:
            chosen = [player.opening_choice(rng) for player, rng in zip(sitting, rngs)]
            for player, arm in zip(sitting, chosen):
                player.opening_observe(arm, chosen.count(arm) > 1)
        failed += any(player.failed for player in sitting)
    risk = unseated(arms, players, rounds)
    # Four standard errors: a false alarm once in 16 000 seeds.
    assert failed / 3_000 == pytest.approx(risk, abs=4 * math.sqrt(risk * (1 - risk) / 3_000))


def test_a_trace_by_hand():
    """Two players on two arms: orthogonalisation, three slots of indexing with one meeting, and nothing to learn."""
    trace = follow(lambda: Dlc(2, 0.5, 0.5, seating_rounds=9), MultiplayerProblem([0.9, 0.4], 2), 0)
    assert trace.slots == {"seating": 9, "indexing": 3}
    assert trace.collisions["indexing"] == 2
    assert trace.seats == [0, 1]


def test_computed_claims():
    outcomes = {claim.number: v.outcome for claim, v in judge(some(*COMPUTED), {})}
    assert outcomes == {
        88: "reproduced",
        89: "with-reading",
        91: "with-reading",
        92: "with-reading",
        95: "reproduced",
        96: "not-reproduced",
        103: "reproduced",
    }
    assert all(trace.counted and not trace.failed for _, trace, _ in traces())


@pytest.mark.parametrize(
    ("finals", "outcome"),
    [
        ({DLC: 50.0, LIX: 20.0, SIC: 100.0}, "reproduced"),
        ({DLC: 100.0, LIX: 20.0, SIC: 50.0}, "not-reproduced"),  # DLC and SIC-MMAB swapped
        ({DLC: 50.0, LIX: 100.0, SIC: 100.0}, "not-reproduced"),  # equal regret contradicts, too
    ],
)
def test_below_sic_on_made_up_results(finals, outcome):
    run = {"ch5-compare-e2": results({**finals, DLC_N: 500.0, LIX_N: 500.0}, {"N": 6})}
    found = verdict(105, run)
    assert found.outcome == outcome
    # what is shown beside does not count, whatever it is
    assert [part.outcome for part in found.parts if not part.counts] == ["not-reproduced"] * 2


def sweep_over_players(dlc):
    run = {}
    for n in range(1, 11):
        other = 1_000.0 * (n if n <= 5 else 10 - n)
        finals = {DLC: dlc(n), LIX: other, DLC_N: other, LIX_N: other}
        run[f"ch5-players-{n}"] = results(finals, {"N": n})
    return run


def test_rise_and_fall_on_made_up_results():
    assert (
        verdict(113, sweep_over_players(lambda n: 100.0 * (n if n <= 5 else 10 - n))).outcome == "reproduced"
    )
    rising = verdict(113, sweep_over_players(lambda n: 100.0 * n))
    assert rising.outcome == "not-reproduced"
    assert [part.name for part in rising.parts if part.outcome == "not-reproduced"] == [
        f"{DLC}: falls after K/2"
    ]
    swapped = sweep_over_players(lambda n: 100.0 * (10 - n))
    assert "rises to K/2" in next(
        p.name for p in verdict(113, swapped).parts if p.outcome == "not-reproduced"
    )


def test_wrong_ends_on_made_up_results():
    """Claim 108: DLC must miss somewhere in each place, DLC-LIX as printed nowhere."""

    def ends(**optimal):
        right = {DLC: optimal["dlc"], ROUNDED: optimal["lix"], LIX: 1}
        measures = {"optimal": right, "settled_players": dict.fromkeys(right, 5)}
        return results(dict.fromkeys(right, 10.0), {"N": 5}, measures=measures)

    def outcome(**optimal):
        return verdict(108, {"ch5-arms-6": ends(**optimal), "ch5-ends-e1": ends(**optimal)}).outcome

    assert outcome(dlc=0, lix=1) == "reproduced"
    assert outcome(dlc=1, lix=0) == "not-reproduced"
    assert outcome(dlc=1, lix=1) == "not-reproduced"


def test_linear_in_players_and_arms_is_judged_by_the_bound():
    """Claim 94: the regret that was met stands beside, whatever it is."""
    run = {f"ch5-players-{n}": results({DLC: 100.0 * n**3, DLC_N: 100.0 * n**3}, {"N": n}) for n in (1, 2)}
    found = verdict(94, run)
    assert found.outcome == "with-reading"
    assert [part.outcome for part in found.parts if part.counts] == ["reproduced"] * 3
    beside = {part.name: part.outcome for part in found.parts if not part.counts}
    assert beside[f"{DLC}: players-1 to players-2"] == "not-reproduced"


def test_share_and_trend():
    part = share("", np.array([True] * 30), 0.9)
    assert part.p_for == pytest.approx(0.9**30)
    assert share("", np.array([False] * 30), 0.9).p_against == pytest.approx(0.1**30)
    run = {f"ch5-players-{n}": results({DLC: 100.0 * n}, {"N": n}) for n in range(1, 4)}
    found = trend("", run, run, "N", lambda r: r.values(DLC)[:, -1])
    assert found.effect == pytest.approx(100.0, rel=0.05)
    assert trend("", {}, ["ch5-players-1"], "N", lambda r: r.values(DLC)[:, -1]).outcome == "skipped"


def test_quick_comparison_with_musical_chairs():
    """Far fewer collisions, but no tenth of the regret: differences of many standard errors."""
    run = {"ch5-compare-e1": run_experiment(EXPERIMENTS["ch5-compare-e1"], replications=6)}
    outcomes = {claim.number: v.outcome for claim, v in judge(some(86, 97, 115), run)}
    assert outcomes == {
        86: "reproduced",
        97: "not-reproduced",
        115: "reproduced",
    }


@pytest.mark.slow
def test_all_of_chapter_5_at_full_size():
    """What is known of the claims."""
    outcomes = {c.number: v.outcome for c, v in judge(CLAIMS, run_experiments(EXPERIMENTS.values()))}
    assert {n for n, word in outcomes.items() if word == "not-reproduced"} == {
        *(96, 97, 102, 105, 106),
        *(108, 109, 111, 112, 113),
    }
    assert {n for n, word in outcomes.items() if word == "with-reading"} == {
        *(84, 89, 90, 91, 92, 93, 94),
        *(100, 101, 104, 110),
    }
    assert not {n for n, word in outcomes.items() if word == "inconclusive"}
