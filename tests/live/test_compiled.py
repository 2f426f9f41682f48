"""Compiled or interpreted, a live object is the same to the bit, whatever is done to it."""

import numpy as np
import pytest
from tests.live import inside
from tests.live.games import GAMES, SLOW, Game, text

from weakfeedback import Cascade

MARKS = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in GAMES]


@pytest.mark.parametrize("name", MARKS)
def test_any_course_of_things(name, tmp_path):
    learned = [GAMES[name].play(seed, 60, tmp_path / "state.json") for seed in range(3)]
    assert sum(learned) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", GAMES)
def test_any_long_course_of_things(name, tmp_path):
    for seed in range(10, 20):
        GAMES[name].play(seed, 400, tmp_path / "state.json")


def test_many_rounds_late_and_in_another_order():
    things = [
        Cascade(7, [0.03] * 7, 1, policy="USS-TS", seed=3, compiled=compiled) for compiled in (True, False)
    ]
    rng, stopped = np.random.default_rng(7), set()
    for t in range(300):
        one, other = (thing.decide() for thing in things)
        assert one == other
        if t < 5:  # some wait for a while
            continue
        id = int(rng.choice(things[0].pending))
        arm = inside.decided(things[0], id)
        stopped.add(arm)
        outputs = (rng.random(arm + 1) < np.linspace(0.05, 0.01, 7)[: arm + 1]).astype(int).tolist()
        assert [thing.feedback(id, outputs) for thing in things] == ["accepted"] * 2
        assert [thing.feedback(id, outputs) for thing in things] == ["duplicate"] * 2
    assert text(things[0]) == text(things[1])
    assert len(stopped) > 1


def test_the_games_would_notice_a_difference(tmp_path):
    game = GAMES["USS-TS"]

    def make(compiled):
        thing = game.make(compiled)
        if compiled:
            thing.warm_start([[0, 1, 0]])
        return thing

    with pytest.raises(AssertionError):
        Game(make, game.again, game.moves, game.often).play(0, 5, tmp_path / "state.json")


@pytest.mark.parametrize("compiled", [1, None, "yes"])
def test_compiled_must_be_a_bool(compiled):
    with pytest.raises(ValueError, match="compiled must be True or False"):
        Cascade(2, [1, 2], 10, compiled=compiled)


def test_a_policy_that_cannot_be_compiled_is_refused_in_one_line():
    class Talks:
        delay_safe = True

        def __init__(self):
            self.seen = 0

        def select(self, rng):
            return len(f"{self.seen:>3}") % 2

        def update_pairs(self, arm, differ, rng):
            self.seen += 1

    with pytest.raises(
        ValueError, match="compiled must be False for Talks, which cannot be compiled"
    ) as caught:
        Cascade(2, [1, 2], policy=Talks(), compiled=True)
    assert "\n" not in str(caught.value)
