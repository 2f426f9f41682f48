"""The slow twins of chapter 5 on cases computed by hand."""

import math

import pytest
from tests.reference import players, players_baselines, players_dlc
from tests.reference.players import Diary, SlowTable
from tests.reference.players_dlc import DlcRules, slow_dlc
from tests.reference.players_lix import Code, LixRules, slow_dlc_lix


class Given:
    """A generator whose draws are given and then repeat the last."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0) if len(self.draws) > 1 else self.draws[0]


def at_table(player, seats, K, rewards, slots):
    """Players who draw their seats at once; the choices of every slot."""
    table = SlowTable(player, [Given((seat + 0.5) / K) for seat in seats])
    for _ in range(slots):
        table.slot(rewards)
    return table


def test_the_world_shuffles_and_draws_arm_by_arm():
    world = players.SlowWorld([0.1, 0.5, 0.9], Given(0.0, 0.6, 0.3, 0.3, 0.95))
    # k = 2: j = 0, order 2 1 0; k = 1: j = int(2 * 0.6) = 1, no change
    assert world.order == [2, 1, 0]
    assert world.draw() == [1.0, 1.0, 0.0]
    uniform = players.SlowWorld([0.25, 0.75], Given(1.0, 0.0), shuffle=False, rewards="uniform")
    assert uniform.draw() == [0.5, 0.5]
    assert players.SlowWorld([0.0, 1.0], Given(0.5), shuffle=False, rewards="beta").draw() == [0.0, 1.0]


def test_the_round_loop_counts_each_player_of_a_collision_and_forgets_idlers():
    def fixed(me, rng):
        arm = players.IDLE if rng.random() < 0.1 else 0
        while True:
            yield arm

    table = SlowTable(fixed, [Given(0.5), Given(0.5), Given(0.0)])
    table.slot([1.0, 1.0])
    assert table.choices == [[0, 0, -1]]
    assert table.hits == [[True, True, False]]


def test_orthogonalisation_ends_with_the_first_free_play():
    def only_opening(me, rng):
        yield from players.opening(me, rng, 3, 3)
        while True:
            yield players.IDLE

    # both on arm 0, then on arms 0 and 2: seated, the later draws are not used
    table = SlowTable(only_opening, [Given(0.0, 0.1, 0.9), Given(0.0, 0.7, 0.0)])
    for _ in range(3 + 5):
        table.slot([1.0, 1.0, 1.0])
    assert table.choices[:3] == [[0, 0], [0, 2], [0, 2]]
    # i = 1: arms 1 1 2 3 1; i = 3: arm 3 in all five slots. They meet in slot 4 = 1 + 3
    assert table.choices[3:] == [[0, 2], [0, 2], [1, 2], [2, 2], [0, 2]]
    assert [(d.N, d.rank, d.seats) for d in table.diaries] == [(2, 0, [0, 2]), (2, 1, [0, 2])]


def test_an_unseated_player_raises_the_alarm():
    def only_opening(me, rng):
        yield from players.opening(me, rng, 3, 1, alarm=True)
        while True:
            yield players.IDLE

    table = SlowTable(only_opening, [Given(0.0, 0.0), Given(0.0, 0.5), Given(0.9)])
    for _ in range(4):
        table.slot([1.0] * 3)
    # slot 1: two players on arm 0; sweep: both visit 0, 1, 2 and hit the third player on arm 2
    assert table.choices == [[0, 0, 2], [0, 0, 2], [1, 1, 2], [2, 2, 2]]
    assert [d.restarts for d in table.diaries] == [1, 1, 1]
    assert [d.failed for d in table.diaries] == [1, 1, 0]
    for _ in range(4):
        table.slot([1.0] * 3)
    assert table.choices[4:] == [[0, 1, 2]] * 4
    assert not any(d.failed for d in table.diaries)
    assert [d.restarts for d in table.diaries] == [1, 1, 1]


def test_the_length_of_orthogonalisation():
    # K = 10, delta = .05: ln(.005) / ln(.975) = 5.298 / 0.02532 = 209.3
    assert players.thesis_rounds(10, 0.05) == 210


def test_divergence_and_bounds():
    assert players.divergence(0.5, 0.5) == 0.0
    assert players.divergence(0.0, 0.5) == pytest.approx(math.log(2))
    assert players.divergence(0.5, 1.0) == math.inf
    # mean 0: d(0, q) = -ln(1 - q) <= beta / n, so U = 1 - exp(-beta / n); mean 1 likewise for L
    assert players.bound(4, 0.0, 1.0, 2.0) == pytest.approx(1 - math.exp(-0.5), abs=1e-11)
    assert players.bound(4, 1.0, 0.0, 2.0) == pytest.approx(math.exp(-0.5), abs=1e-11)
    assert players.bound(4, 0.0, 0.0, 2.0) == 0.0
    assert players.bound(4, 1.0, 1.0, 2.0) == 1.0
    x = math.log(505.5 * 3 * 7**1.1 / 0.1)
    assert players.exploration_rate(3, 0.1, 7) == pytest.approx(x + math.log(x))


def test_adaptive_explore_avoids_polls_and_repeats_collided_plays():
    me = Diary()
    polls = {1: 0, 4: 1, 6: 0, 7: 2}
    one = players.adaptive_explore(me, 3, [0, 1, 2], 1, 1.0, 0.5, lambda c: polls.get(c, -1))
    assert next(one) == 1  # arm 0 is polled
    assert one.send((0.0, True)) == 0  # arm 1 gave no sample, but arm 0 is free again
    assert one.send((1.0, False)) == 1
    assert one.send((0.0, False)) == 2
    # means 1, 0, 0: J = {0}; u = 1 by index, l = 0; l is polled in slot 6, the second of the pair: swapped
    assert one.send((0.0, False)) == 0
    assert one.send((1.0, False)) == 1


def test_the_last_unsampled_arm_waits_for_its_poll():
    me = Diary(c=5, pulls={0: 1}, sums={0: 1.0})
    one = players.adaptive_explore(me, 2, [0, 1], 1, 1.0, 0.5, lambda c: 1 if c == 5 else -1)
    assert next(one) == players.IDLE
    assert one.send((0.0, False)) == 1


def test_the_timetable_of_polls():
    me = Diary(N=3)
    rank = players_dlc.timetable(me, DlcRules(4, 0.1, 0.1))  # B = 3, T_P = 6
    assert [rank(c) for c in range(1, 16)] == [0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 1, 0, 0, 2]


def test_assignments():
    me = Diary(N=3, seats=[0, 2, 5], arm=0)
    top = [5, 1, 3]
    assert players_dlc.assignment(me, DlcRules(6, 0.1, 0.1), top) == [3, 5, 1]
    # rank 2 keeps arm 5; the vacant arms 1 and 3 go to rank 1, then to the leader
    assert players_dlc.assignment(me, DlcRules(6, 0.1, 0.1, served="keep"), top) == [3, 1, 5]


def test_dlc_with_two_players_from_slot_to_slot():
    # K = 3, seats 0 and 1, rewards 0, 1, 1: J = {1, 2}. epsilon = 2.0: one pair is enough.
    rules = DlcRules(3, 2.0, 0.5, tolerance="eps", seating_rounds=1)
    table = at_table(slow_dlc(rules), [0, 1], 3, [0.0, 1.0, 1.0], 1 + 5 + 9)
    # B = T_P = 3: rank 1 polls in slots 3, 6, ... Leader: arms 0, 1, 2, then u = 0 and l = 1 (tie of L).
    # T_AE = 5, so the signal is in slot 6; rank 1 gets arm 1 = binary 01; the leader takes arm 2.
    assert table.choices[6:] == [
        [0, -1], [1, -1], [2, 1], [0, -1], [1, -1],
        [1, 1], [2, 1], [1, 1],
        [2, 1],
    ]  # fmt: skip
    assert table.settled()
    assert [d.arm for d in table.diaries] == [2, 1]


def test_dlc_players_take_turns_when_fair():
    rules = DlcRules(2, 0.5, 0.5, seating_rounds=1, fair=True)
    table = at_table(slow_dlc(rules), [1, 0], 2, [1.0, 1.0], 1 + 3 + 4)
    # N = K: rank 1 and rank 0 play (rank + c) mod 2 from c = 1
    assert table.choices[4:] == [[0, 1], [1, 0], [0, 1], [1, 0]]
    assert [d.arm for d in table.diaries] == [0, 1]  # the arms of the coming slot c = 5


def test_dlc_lix_with_two_players_from_slot_to_slot():
    # K = 3, seats 0 and 1, rewards 0, 1, .5; open arms 0 and 2.
    rules = LixRules(3, 2.0, 0.5, tolerance="eps", seating_rounds=1)
    table = at_table(slow_dlc_lix(rules), [0, 1], 3, [0.0, 1.0, 0.5], 1 + 5 + 15)
    # c = 1, 2: arms 0, 2; c = 3, 4: u = 0, l = 2; signal in slot 5, T_c = 4, R = 4 = 100 in 3 bits (2^3 >= 5),
    # 1/4 <= 2 / 4, so g = 0. Then the word 00, as 1 > .5: the leader stays on arm 2.
    # Another pair for the leader (open arms are still 0 and 2), then it settles on 2.
    assert [a for a, _ in table.choices[6:]] == [0, 2, 0, 2, 1, 1, 1, 1, 2, 2, 0, 2, 2, 2, 2]
    assert [b for _, b in table.choices[6:]] == [1, 1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1, 1, 1, 1]
    assert table.settled()
    assert [d.arm for d in table.diaries] == [2, 1]


def test_dlc_lix_moves_a_follower_to_a_better_arm():
    rules = LixRules(3, 2.0, 0.5, tolerance="eps", seating_rounds=1)
    table = at_table(slow_dlc_lix(rules), [0, 1], 3, [0.0, 0.0, 1.0], 1 + 5 + 13)
    # (2 - 1) mod 3 = 1 = 01 in slots 9, 10; the follower moves to arm 2; arm 1 opens
    assert table.choices[6 + 8 : 6 + 10] == [[2, 1], [1, 1]]
    assert table.diaries[1].arm == 2
    assert table.diaries[0].pulls[1] >= 4


@pytest.mark.parametrize(
    ("transfer", "epsilon", "N", "T_c", "earned", "bits", "number", "back"),
    [
        ("exact", 0.0, 2, 7, 5.0, 3, 5, 5.0),
        ("exact", 0.0, 2, 8, 5.0, 4, 5, 5.0),
        ("exact", 0.5, 2, 8, 2.75, 4, 2, 2.0),  # 1/8 <= .5/4: whole numbers will do
        ("exact", 0.5, 2, 3, 1.4, 4, 5, 1.25),  # 1/(3 * 4) <= 1/8: quarters; 13 values
        ("exact", 0.5, 2, 0, 0.0, 0, 0, 0.0),
        ("eps/2", 0.5, 2, 10, 10.0, 2, 3, 7.5),
        ("eps/2", 0.3, 2, 10, 4.0, 3, 3, 3.75),
        ("eps/2", 2.0, 2, 10, 6.0, 1, 1, 5.0),
    ],
)
def test_codes(transfer, epsilon, N, T_c, earned, bits, number, back):
    code = Code(LixRules(4, epsilon, 0.1, transfer=transfer), N, T_c)
    assert (code.bits, code.number(earned), code.earned(number)) == (bits, number, back)


def test_musical_chairs_by_hand():
    assert players_baselines.estimated_players(4, 10, 10) == 4
    assert players_baselines.estimated_players(4, 10, 0) == 1
    assert players_baselines.estimated_players(2, 100, 30) == 2  # ln(.7) / ln(.5) + 1 = 1.51
    assert players_baselines.estimated_players(2, 100, 29) == 1  # 1.49
    player = players_baselines.slow_musical_chairs(2, 2)
    table = SlowTable(player, [Given(0.0, 0.6, 0.0, 0.0), Given(0.0, 0.2, 0.0, 0.9)])
    for _ in range(4):
        table.slot([0.0, 1.0])
    # half of the slots collide: N* = 2. The first ranks arm 1 before arm 0, the second saw only arm 0: tie
    assert table.choices == [[0, 0], [1, 0], [1, 0], [1, 0]]
    assert table.settled()


def test_sic_mmab_by_hand():
    # K = 2, N = 1, horizon 2: ceil(2 e ln 2) = 4 slots, 3 of indexing, then 2 * 2 of exploration
    player = players_baselines.slow_sic_mmab(2, 2, constant=0.1)
    table = at_table(player, [0], 2, [0.0, 1.0], 4 + 3 + 4 + 1)
    # indexing: 1 1 2; phase 1: arms (0 + 1 + s) mod 2; width sqrt(.1 * .693 / 2) = .186: 1 - .186 >= .186
    assert [a for (a,) in table.choices[4:]] == [0, 0, 1, 1, 0, 1, 0, 1]
    assert table.diaries[0].settled
    assert table.diaries[0].arm == 1


def test_sic_mmab_sends_sums_bit_by_bit():
    own = {0: 2, 1: 1}
    mine = players_baselines.tell_everybody([0, 1], 2, 0, own, 2)
    arms = [next(mine)]
    try:
        for slot in range(8):
            arms += [mine.send((0.0, slot in (4, 7)))]
    except StopIteration as end:
        told = end.value
    # sends 01 and 10, least significant first, on arm 1; then listens on arm 0 and hears 1 and 2
    assert arms == [0, 1, 1, 0, 0, 0, 0, 0]
    assert told == {0: 1, 1: 2}


def test_verdicts():
    means = {0: 0.9, 1: 0.5, 2: 0.1}
    assert players_baselines.verdicts([0, 1, 2], 1, means, 0.19) == ([0], [1, 2])
    assert players_baselines.verdicts([0, 1, 2], 1, means, 0.25) == ([], [2])
    assert players_baselines.verdicts([0, 1, 2], 3, means, 0.25) == ([0, 1, 2], [])
