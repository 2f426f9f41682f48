"""The slow twin of DLC-LIX with early moves on cases computed by hand."""

import pytest
from tests.reference.players import Diary, SlowTable
from tests.reference.players_early import Mind, good_enough, slow_early, whom_to_visit
from tests.reference.players_lix import LixRules


class Given:
    """A generator that always draws the same."""

    def __init__(self, draw):
        self.draw = draw

    def random(self):
        return self.draw


def after_opening(rules, rewards, slots):
    """Two players on arms 0 and 1 of three; their choices after one slot of seating and five of indexing."""
    minds = []
    table = SlowTable(slow_early(rules, minds), [Given(0.1), Given(0.5)])
    for _ in range(6 + slots):
        table.slot(rewards)
    return table, [list(arms) for arms in zip(*table.choices[6:], strict=True)], minds[0]


def test_a_final_word_from_slot_to_slot():
    rules = LixRules(3, 2.0, 0.5, tolerance="eps", seating_rounds=1)
    table, (one, two), mind = after_opening(rules, [0.0, 1.0, 0.5], 15)
    # c = 1, 2: arms 0, 2; c = 3, 4: u = 0, l = 2. B <= 2 always, so a signal in slot 5: T_c = 4, R = 4 = 100.
    # 1 > .5, it stays; U - L <= 2, so the word is final: 1 and 00. One more pair, then the leader settles.
    assert one == [0, 2, 0, 2, 1, 1, 1, 1, 1, 2, 2, 0, 2, 2, 2]
    assert two == [1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1, 1, 1, 1]
    assert table.settled()
    assert [(word.moved, word.final) for word in mind.words] == [(False, True)]


def test_a_provisional_move_from_slot_to_slot():
    rules = LixRules(3, 0.0, 0.5, seating_rounds=1)
    table, (one, two), mind = after_opening(rules, [0.0, 0.5, 1.0], 47)
    # Fourteen pairs do not separate means 0 and 1: beta = 13.3, U = 1 - exp(-13.3 / 15) > L = exp(-13.3 / 15).
    # Slot 31 is the first after 10 K at which a pair is due: T_c = 30, R = 15 = 01111. 1 > .5: the word is 0 and
    # 2 - 1 = 01. The follower plays arm 2 from slot 40 on; the leader has arms 0 and 1.
    assert one[:30] == [0, 2] * 15
    assert one[30:39] == [1] * 6 + [2, 2, 1]
    assert one[39:] == [0, 1] * 4
    assert two[:39] == [1] * 31 + [-1, 1, 1, 1, 1] + [1] * 3
    assert two[39:] == [2] * 8
    assert (mind.check, mind.since, mind.open_arms) == (90, {1: 40}, {0, 1})
    assert not table.diaries[1].settled
    assert (table.diaries[0].pulls[1], table.diaries[0].sums[1]) == (30 + 4, 15.0 + 2.0)


@pytest.mark.parametrize(
    ("c", "played", "separated", "hold", "served", "ranks", "check"),
    [
        (30, True, False, False, 1, None, 30),  # not yet
        (31, True, False, False, 1, [1, 2], 90),
        (31, True, True, True, 1, [1, 2], 90),
        (31, False, False, False, 1, None, 30),  # a call has to play a pair first
        (271, True, False, False, 2, [2], 810),
        (270, True, False, False, 2, [2], 270),
        (20, True, True, False, 1, [1], 30),
        (20, True, True, True, 1, None, 30),
        (31, True, True, False, 3, [], 30),
        (31, True, False, False, 3, None, 30),
    ],
)
def test_when_to_visit_whom(c, played, separated, hold, served, ranks, check):
    mind = Mind(30, {0, 1}, {1: 1, 2: 1}, served=served, hold=hold)
    found = whom_to_visit(Diary(N=3, c=c), mind, played, separated)
    assert (found if found is None else list(found)) == ranks
    assert mind.check == check
    if ranks:
        assert (mind.sure, mind.hold) == (separated, False)
    else:
        assert mind.hold == hold


def test_an_arm_kept_for_good_is_separated_from_the_others():
    # K = 3, delta = .5, s = 1: x = ln 3033 = 8.017, beta = 10.099. U(0) = 1 - exp(-10.099 / 20) = .3965 and
    # L(1) = exp(-10.099 / 20) = .6035
    me = Diary(N=2, pulls={0: 20, 1: 20}, sums={0: 0.0, 1: 20.0})
    assert good_enough(me, LixRules(3, 0.0, 0.5), 1, 0)
    assert not good_enough(me, LixRules(3, 1.2, 0.5), 0, 1)  # U(1) - L(0) = 1 > .6
    assert good_enough(me, LixRules(3, 1.2, 0.5, tolerance="eps"), 0, 1)
