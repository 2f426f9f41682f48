"""The slow twin of DPE1 on cases computed by hand."""

import pytest
from tests.reference.players import Diary, SlowTable
from tests.reference.players_dpe1 import Opinion, look, slow_dpe1, worth_a_try


class Given:
    """A generator whose draws are given and then repeat the last."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0) if len(self.draws) > 1 else self.draws[0]


def test_two_players_from_slot_to_slot():
    opinions = []
    table = SlowTable(slow_dpe1(3, opinions), [Given(0.1, 0.75), Given(0.5)])
    for _ in range(1 + 3 + 5 + 20):
        table.slot([0.0, 0.5, 1.0])
    assert table.choices[:4] == [[0, 1]] * 4  # seats, and a sweep that finds nobody standing
    assert table.choices[4:9] == [[0, 1], [0, 1], [1, 1], [2, 1], [0, 2]]
    # The leader met reward 1 on arm 2 while indexing. Slots 1, 2: rotation over {0, 1}; then it looks: 0 out, 2 in.
    # Slot 3: it stays, rank 1 meets it. Slots 4, 5: arm 0. Slots 6 to 8: arm 2, rank 1 plays (c + 1) mod 3.
    assert table.choices[9:17] == [[1, 0], [0, 1], [0, 0], [0, 1], [0, 0], [2, 1], [2, 2], [2, 0]]
    assert [opinion.M for opinion in opinions] == [{1, 2}, {1, 2}]
    # Arm 0 was free 9 times, 9 d(0, 1/2) = 9 ln 2 = 6.24. f(c) = 5.01, 5.64, 6.13, 6.52 at c = 8, 10, 12, 14: it is
    # worth a try from slot 15 on, instead of arm 1, the worst, in slot 16. Then 10 ln 2 = 6.93 > f(16) = 6.85,
    # but f(18) = 7.14.
    assert [a for a, _ in table.choices[17:]] == [2, 1, 2, 1, 2, 1, 2, 0, 2, 1, 2, 0]
    assert [b for _, b in table.choices[17:]] == [1, 2] * 6
    assert not table.settled()


def test_as_many_players_as_arms_stay():
    table = SlowTable(slow_dpe1(2), [Given(0.6), Given(0.1)])
    for _ in range(1 + 2 + 3 + 4):
        table.slot([1.0, 0.0])
    assert table.choices[6:] == [[1, 0]] * 4
    assert table.settled()


def test_one_player_changes_her_arm_at_once():
    me = Diary(N=1, pulls={0: 4, 1: 4, 2: 2}, sums={0: 1.0, 1: 2.0, 2: 1.5})
    mine = Opinion({0})
    assert look(me, mine, 4, 100) is None
    # arm 3 was never played; f(100) = 10.7 is more than any 4 d(., .75) here
    assert (mine.M, mine.worst, mine.wanted, mine.changes) == ({2}, 2, [0, 1, 3], 1)


def test_ties_change_nothing_and_go_to_the_smaller_arm():
    me = Diary(N=2, pulls={0: 1, 1: 1, 2: 1, 3: 1}, sums={0: 0.5, 1: 0.5, 2: 0.5, 3: 0.5})
    mine = Opinion({1, 2})
    assert look(me, mine, 4, 1) is None
    assert (mine.worst, mine.wanted) == (1, [0, 3])
    me.sums.update({0: 0.75, 3: 0.75})
    assert look(me, mine, 4, 1) == (1, 0)


@pytest.mark.parametrize(("c", "worth"), [(7, False), (8, True)])
def test_the_index_reaches_the_worst_mean(c, worth):
    # 7 d(0, 1/2) = 4.85; f(7) = 1.95 + 4 ln 1.95 = 4.61, f(8) = 2.08 + 4 ln 2.08 = 5.01
    me = Diary(pulls={0: 1, 1: 7}, sums={0: 0.5, 1: 0.0})
    assert worth_a_try(me, {0: 0.5, 1: 0.0}, 0, 1, c) == worth


def test_early_slots_have_no_second_logarithm():
    # c = 2: ln 2 < 1, so f = ln 2 = d(0, 1/2) to rounding
    me = Diary(pulls={0: 1, 1: 1}, sums={0: 0.5, 1: 0.0})
    assert worth_a_try(me, {0: 0.4999, 1: 0.0}, 0, 1, 2)
    assert not worth_a_try(me, {0: 0.5001, 1: 0.0}, 0, 1, 2)
    assert not worth_a_try(me, {1: 0.0}, None, 1, 1000)
