"""Saving and loading an allocator."""

import json

import pytest
from tests.live.allocations import CASES, IDS, SAME, SEARCH, OneAtATime, make, outcomes, shown, snapshot

from weakfeedback.allocation import CsbDu, CsbSu
from weakfeedback.live import Allocator, StateError, storage


def drive(allocator, rounds, waiting, setting, thresholds):
    """Late feedback and cancellations: return everything that can be seen."""
    seen = []
    for t in rounds:
        outcome = outcomes(1, seed=t, fractions=t % 2 == 0)[0]
        decision = allocator.decide()
        seen.append((decision.id, decision.allocation.tolist()))
        waiting.append((decision.id, shown(decision.allocation, outcome, thresholds, setting)))
        if len(waiting) > 4:
            id, observed = waiting.pop(t % 3)
            if t % 11 == 0:
                allocator.cancel(id)
            else:
                seen.append(allocator.feedback(id, observed))
    return seen


@pytest.mark.parametrize(("name", "setting", "thresholds", "options"), CASES, ids=IDS)
def test_stopping_in_the_middle_makes_no_difference(tmp_path, name, setting, thresholds, options):
    through, stopped = (make(name, setting, seed=2, **options) for _ in range(2))
    waiting, waiting_too = [], []
    path = tmp_path / "allocator.json"
    for start in range(0, 150, 50):
        rounds = range(start, start + 50)
        first = drive(through, rounds, waiting, setting, thresholds)
        assert drive(stopped, rounds, waiting_too, setting, thresholds) == first
        stopped.save(path)
        stopped = Allocator.load(path)
        assert stopped.pending == through.pending
        assert len(stopped.pending) > 0
    assert snapshot(stopped) == snapshot(through)
    assert str(stopped.report()) == str(through.report())


def test_policies_given_as_objects_are_loaded(tmp_path):
    path = tmp_path / "a.json"
    make(CsbSu(4, 1.3)).save(path)
    assert type(Allocator.load(path).policy) is CsbSu
    # The options of this one cannot be read off its fields, so a fresh object is needed.
    make(CsbDu(4, 1.3, gamma=0.1, every=7)).save(path)
    with pytest.raises(ValueError, match="pass policy=, a fresh CsbDu"):
        Allocator.load(path)
    assert Allocator.load(path, policy=CsbDu(4, 1.3, gamma=0.1)).policy.N == 7
    make(OneAtATime(0.5)).save(path)
    with pytest.raises(ValueError, match="policy must be a OneAtATime"):
        Allocator.load(path, policy=CsbSu(4, 1.3))
    assert Allocator.load(path, policy=OneAtATime()).policy.share == 0.5


def test_forged_files_are_refused(tmp_path):
    path = tmp_path / "a.json"
    allocator = make("CSB-MK", gamma=0.05, **SEARCH)
    drive(allocator, range(30), [], "loss", SAME)
    allocator.save(path)
    good = storage.read(path, "Allocator")
    for change in (
        lambda body: body.update(arms=5),
        lambda body: body.update(budget=-1.0),
        lambda body: body.update(budget=2.0),
        lambda body: body.update(setting="reward"),
        lambda body: body.update(setting="x"),
        lambda body: body.update(more=1),
        lambda body: body["counts"].update(rounds=3),
        lambda body: body["counts"]["seen"]["data"].__setitem__(0, -1),
        lambda body: body["counts"].pop("given"),
        lambda body: body["core"]["ledger"]["pending"][0].__setitem__(1, [1.3, 1.3, 0.0, 0.0]),
        lambda body: body["core"]["ledger"]["pending"][0].__setitem__(1, [0.1]),
        lambda body: body["core"]["ledger"]["pending"][0].__setitem__(1, None),
        lambda body: body["core"]["fields"].update(K=3),
        lambda body: body["core"]["options"].update(gamma="x"),
        lambda body: body["core"].update(policy="NUM-MK"),
    ):
        body = json.loads(json.dumps(good))
        change(body)
        storage.write(path, "Allocator", body)
        with pytest.raises(StateError):
            Allocator.load(path)
    storage.write(path, "Player", good)
    with pytest.raises(StateError, match="'Player', not of 'Allocator'"):
        Allocator.load(path)
