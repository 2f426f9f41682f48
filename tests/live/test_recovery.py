"""What is given again when an object is loaded or recovered: ids, prices, policies, paths; and sums that overflow."""

import re

import numpy as np
import pytest
from tests.live import inside
from tests.live.kinds import KINDS

from weakfeedback import Cascade, Costed, Router, UnknownDecision
from weakfeedback.cascade import UssTs, UssUcb
from weakfeedback.routing import PayToCompare

OLD, NEW = [1.0, 4.0, 25.0], [2.0, 3.0, 20.0]


def totals(prices):
    return np.cumsum(prices) / 70


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.db"


@pytest.mark.parametrize("name", ["Cascade", "ContextualCascade", "Allocator"])
def test_a_late_answer_for_a_lost_decision_is_never_taken_for_another(name, tmp_path):
    """A is told a decision after the last save; the process dies; B is told one; then A answers."""
    kind, path = KINDS[name], tmp_path / "state.json"
    thing = kind.make()
    kept = kind.decide(thing)
    thing.save(path)
    lost = [kind.decide(thing) for _ in range(3)]
    code = {} if name == "Allocator" else {"stages": 3}
    again = [type(thing).load(path, **code, fresh_ids=True) for _ in range(2)]
    for loaded in again:
        assert loaded.state() == type(thing).load(path, **code).state()
        for id, decided in lost:
            with pytest.raises(UnknownDecision, match=f"no decision {id}"):  # it was never given out here
                kind.feedback(loaded, id, kind.content(id, decided))
        new = [kind.decide(loaded) for _ in range(3)]
        assert [decided for _, decided in new] == [decided for _, decided in lost]  # only the ids differ
        assert np.diff([id for id, _ in new]).tolist() == [1, 1]
        for id, decided in lost:
            with pytest.raises(UnknownDecision, match=f"decision {id} was cancelled or never given out"):
                kind.feedback(loaded, id, kind.content(id, decided))
        assert kind.feedback(loaded, kept[0], kind.content(*kept)) == "accepted"
    ids = [set(loaded.pending) for loaded in again]
    assert not ids[0] & ids[1]
    with pytest.raises(ValueError, match="fresh_ids must be True or False"):
        type(thing).load(path, **code, fresh_ids=1)


def test_a_router_whose_comparison_was_lost_refuses_its_outputs(tmp_path):
    router = Router(2, [1, 20], error_cost=100)
    router.save(tmp_path / "state.json")
    lost = router.decide()
    loaded = Router.load(tmp_path / "state.json", 2, fresh_ids=True)
    new = loaded.decide()
    assert (new.call, new.id > lost.id) == (lost.call, True)
    with pytest.raises(UnknownDecision):
        loaded.feedback(lost.id, [0, 1])
    assert loaded.feedback(new.id, [0, 1]) == "accepted"


def test_one_model_alone_is_no_duplicate_however_long_ago():
    router = Router(2, [1, 20], error_cost=100, remember=0)
    while True:
        decision = router.decide()
        if len(decision.call) == 1:
            break
        router.feedback(decision.id, [0, 0])
    for _ in range(1000):
        later = router.decide()
        if len(later.call) == 2:
            router.feedback(later.id, [0, 1])
    assert router.comparisons > 10
    with pytest.raises(UnknownDecision, match="waits for no feedback"):
        router.feedback(decision.id, [0])
    assert router.feedback(1, [1, 1]) == "duplicate"


def cascade_policy(prices, **options):
    return UssTs(totals(prices), **options)


@pytest.mark.parametrize("snapshot", [False, True])
def test_new_prices_with_a_policy_made_for_them_are_taken(path, snapshot):
    with Cascade.open(path, 3, OLD, error_cost=70, policy=cascade_policy(OLD), seed=0) as cascade:
        for n in range(30):
            decision = cascade.decide()
            cascade.feedback(decision.id, [n % (k + 2) for k in range(decision.arm + 1)])
        if snapshot:
            inside.snapshot(cascade)
        learned = cascade.policy.S.copy()
    twin = Cascade.load(path, 3)
    twin.recost(NEW, 70)
    with Cascade.open(path, 3, NEW, error_cost=70, policy=cascade_policy(NEW)) as cascade:
        assert np.array_equal(cascade.policy.C, totals(NEW))
        assert np.array_equal(cascade.policy.S, learned)
        assert [cascade.decide().arm for _ in range(20)] == [twin.decide().arm for _ in range(20)]
    # and once more, with the prices of today left out
    with Cascade.open(path, 3, policy=cascade_policy(NEW)) as cascade:
        assert np.array_equal(cascade.policy.C, totals(NEW))
    with pytest.raises(
        ValueError, match=re.escape(f"policy must be made for the costs {totals(NEW).tolist()}")
    ):
        Cascade.open(path, 3, policy=cascade_policy(OLD))
    with pytest.raises(ValueError, match="policy must be made for the costs"):
        Cascade.open(path, 3, OLD, error_cost=70, policy=cascade_policy(NEW))
    Cascade.open(path, 3).close()  # what was refused has changed nothing


def test_a_router_takes_new_prices_with_a_policy_made_for_them(path):
    with Router.open(path, 2, [1.0, 20.0], error_cost=100, policy=PayToCompare([0.01, 0.2])) as router:
        first = router.decide()
        router.feedback(first.id, [0, 0])
    with Router.open(path, 2, [2.0, 10.0], error_cost=100, policy=PayToCompare([0.02, 0.1])) as router:
        assert router.policy.c.tolist() == [0.02, 0.1]
        assert router.comparisons == 1


class Own:
    """A policy whose option changes while it learns."""

    delay_safe = True

    def __init__(self, rate=0.5, arms=2):
        self.rate = rate
        self.K = arms

    def select(self, rng):
        return 1

    def update_pairs(self, arm, differ, rng):
        self.rate *= 0.9


def test_a_policy_object_with_other_options_is_refused(path, tmp_path):
    with Cascade.open(path, 3, OLD, error_cost=70, policy=UssUcb(totals(OLD), alpha=0.7), seed=0) as cascade:
        cascade.decide()
    words = rf"policy must have alpha=0.7, as in {path}, got one with alpha=0.9"
    with pytest.raises(ValueError, match=words):
        Cascade.open(path, 3, policy=UssUcb(totals(OLD), alpha=0.9))
    Cascade.open(path, 3, policy=UssUcb(totals(OLD), alpha=0.7)).close()
    with Cascade.open(tmp_path / "named.db", 3, OLD, error_cost=70, policy="USS-UCB", seed=0) as named:
        alpha = named.policy.alpha
    with pytest.raises(ValueError, match=f"policy must have alpha={alpha}"):
        Cascade.open(tmp_path / "named.db", 3, policy=UssUcb(totals(OLD), alpha=2 * alpha))
    Cascade.open(tmp_path / "named.db", 3, policy=UssUcb(totals(OLD), alpha=alpha)).close()


def test_options_of_a_policy_of_ones_own_are_its_arguments(path):
    for _ in range(3):  # created, then recovered, from events and from a snapshot
        with Cascade.open(path, 2, [1, 2], policy=Own(0.5)) as cascade:
            cascade.feedback(cascade.decide().id, [0, 1])
            rate = cascade.policy.rate
    assert rate == pytest.approx(0.5 * 0.9**3)
    with pytest.raises(ValueError, match=r"policy must have rate=0.5, as in .*, got one with rate=0.25"):
        Cascade.open(path, 2, policy=Own(0.25))


@pytest.mark.parametrize("wrong", [b"state.json", "a\0b", "", 5, None, ["x"]])
def test_what_is_no_path_is_refused_in_one_line(wrong):
    cascade = Cascade(2, [1, 2], error_cost=10)
    uses = {
        "save": lambda: cascade.save(wrong),
        "load": lambda: Cascade.load(wrong, 2),
        "open": lambda: Cascade.open(wrong, 2, [1, 2], error_cost=10),
    }
    for use in uses.values():
        with pytest.raises(ValueError, match="path must be the name of a file") as refusal:
            use()
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "make", [lambda: Cascade(2, [1, 2], error_cost=10, seed=0), lambda: Router(2, [1, 20], error_cost=100)]
)
def test_costs_whose_sum_is_no_number_are_refused(make):
    thing = make()
    first, second = thing.decide().id, thing.decide().id
    thing.cancel(first, cost=1.5e308)
    before = thing.state()
    with pytest.raises(ValueError, match=r"cost must have a finite sum with the 1.5e\+308 wasted so far"):
        thing.cancel(second, cost=1.5e308)
    assert thing.state() == before
    thing.cancel(second, cost=1.0)
    assert thing.report().wasted == 1.5e308


def test_calls_whose_costs_have_no_finite_sum_teach_nothing(tmp_path):
    huge = [lambda x: Costed(x, 1e308), lambda x: Costed(x, 0.5e308)]
    cascade = Cascade(huge, [1, 2], policy="Fixed", arm=1, seed=0)
    cascade(1)
    with pytest.raises(ValueError, match=r"costs must have a finite sum with the 1.5e\+308 spent so far"):
        cascade(2)
    assert (cascade.rounds, cascade.pending, cascade.report().wasted) == (1, [], 1.5e308)
    with pytest.raises(ValueError, match="finite sum"):
        cascade(3)  # what is wasted stays a number
    id = cascade.decide().id
    with pytest.raises(ValueError, match="finite sum"):
        cascade.feedback_pairs(id, [], costs=[1e308, 1e308])
    cascade.save(tmp_path / "state.json")
    assert Cascade.load(tmp_path / "state.json", huge).rounds == 1
