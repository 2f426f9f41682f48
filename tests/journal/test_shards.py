"""Several sessions on one store: each owns shards, and nobody writes what is not its own."""

import pytest
from tests.journal.stores import InPostgres
from tests.rig.threads import in_threads

from weakfeedback.journal import Event, JournalError, OwnedElsewhere, StoreUnavailable, open_store
from weakfeedback.journal.events import OwnershipLost
from weakfeedback.journal.shards import SHARDS, shard_of

ALL = range(SHARDS)
NAMES = {shard_of(f"n{k}"): f"n{k}" for k in range(400)}  # a learner of each shard


@pytest.fixture
def place(server):
    return InPostgres(server)


def shared(place, address="http://a:1", **options):
    return place.open(shared=address, **options)


def note(store, learner, seq):
    store.append([(learner, Event(seq, seq, "note", None, None, {}))])


def test_names_lie_in_all_shards_and_stay_where_they_are():
    assert sorted(NAMES) == list(ALL)
    assert [shard_of(name) for name in ("triage", "a", "b", "summaries")] == [2, 3, 9, 10]


def test_each_writes_its_own_and_a_shard_has_one_owner(place):
    with shared(place) as one, shared(place, "http://b:2") as other:
        assert one.shards.take(range(8)) == list(range(8))
        assert other.shards.take(ALL) == list(range(8, 16))
        assert one.shards.take(ALL) == []
        mine, its = one.create_learner(NAMES[0], 1), other.create_learner(NAMES[8], 1)
        assert (mine, its) == (1, 2)
        note(one, mine, 0)
        note(other, its, 0)
        members = {member.address: member for member in one.shards.look()}
        assert members["http://a:1"].shards == tuple(range(8))
        assert members["http://b:2"].shards == tuple(range(8, 16))
        with pytest.raises(OwnershipLost, match="somebody else has taken over"):
            note(one, its, 1)
    with place.open() as store:
        assert [store.last(id)[0] for id in (mine, its)] == [0, 0]
        assert store.integrity() == []


def test_a_shard_is_handed_over_and_goes_on_where_it_was(place):
    with shared(place) as one, shared(place, "http://b:2") as other:
        one.shards.take(ALL)
        id = one.create_learner(NAMES[3], 1)
        note(one, id, 0)
        one.shards.release([3])
        assert other.shards.take([3]) == [3]
        note(other, id, 1)
        with pytest.raises(OwnershipLost):
            note(one, id, 2)
        assert other.last(id)[0] == 1
        other.shards.release([3])
    with shared(place) as one:
        assert one.shards.take([3]) == [3]
        note(one, id, 2)
        assert one.shards.held == {3: 3}


def test_many_create_learners_at_the_same_time(place):
    with shared(place) as one, shared(place, "http://b:2") as other:
        one.shards.take(range(8))
        other.shards.take(range(8, 16))
        found = []

        def create(n):
            for name in [f"a{k}" for k in range(300) if shard_of(f"a{k}") // 8 == n][:40]:
                found.append((one, other)[n].create_learner(name, 1))
                (one, other)[n].learners()

        in_threads(2, create)
        assert sorted(found) == list(range(1, 81))


def test_whose_session_ends_has_no_shards_and_is_no_member(place):
    with shared(place) as one, shared(place, "http://b:2") as other:
        one.shards.take(ALL)
        assert other.shards.take(ALL) == []
        pid = one._connection.info.backend_pid
        assert place.raw("SELECT pg_terminate_backend(?, 5000)", pid) == [(True,)]
        assert [member.address for member in other.shards.look()] == ["http://b:2"]
        assert other.shards.take(ALL) == list(ALL)
        with pytest.raises(OwnershipLost):
            one.shards.look()


def test_a_silent_session_is_ended_and_writes_nothing(place):
    with shared(place) as one, shared(place, "http://b:2") as other:
        one.shards.take(ALL)
        id = one.create_learner("t", 1)
        other.shards.end(one.shards.me)
        assert other.shards.take(ALL) == list(ALL)
        with pytest.raises(OwnershipLost):
            note(one, id, 0)
        note(other, id, 0)
        assert len(other.shards.look()) == 1


def test_a_shard_whose_epoch_is_over_cannot_be_written_at_all(place):
    with shared(place) as one:
        one.shards.take(ALL)
        id = one.create_learner("t", 1)
        note(one, id, 0)
        place.raw("UPDATE shard SET epoch = epoch + 1 WHERE number = ?", shard_of("t"))
        with pytest.raises(OwnershipLost):
            one.add_snapshot(id, 0, 1, {})
    with place.open(read_only=True) as store:
        assert list(store.snapshots(id)) == []


def test_a_store_is_shared_or_has_one_owner(place, tmp_path):
    with shared(place) as one:
        one.shards.take(ALL)
        with pytest.raises(OwnedElsewhere, match="is in use by process"):
            place.open()
    with place.open() as alone:
        assert alone.shards is None
        with pytest.raises(OwnedElsewhere):
            shared(place)
    with shared(place) as one:
        assert one.shards.take([0]) == [0]
        assert one.shards.held == {0: 3}  # the owner of the whole has ended an epoch, too
    with pytest.raises(JournalError, match="a file has one owner"):
        open_store(tmp_path / "s.db", shared="http://a:1")


def test_many_begin_a_new_store_together(place):
    found = []
    in_threads(4, lambda k: found.append(shared(place, f"http://a:{k}", wait=True)))
    assert len(found[0].shards.look()) == 4
    taken = [number for store in found for number in store.shards.take(ALL)]
    assert taken == list(ALL)
    for store in found:
        store.close()


def test_nobody_waits_long_for_a_session_that_stands_still(place):
    with shared(place) as one, shared(place, "http://b:2") as other:
        one.shards.take(ALL)
        place.raw("INSERT INTO instance VALUES (1, 'http://dead:1', 0)")
        blocking = one._database
        blocking.execute("BEGIN")
        blocking.execute("DELETE FROM instance WHERE id = 1")
        blocking.execute("LOCK TABLE learner IN SHARE ROW EXCLUSIVE MODE")
        assert len(other.shards.look()) == 3  # at once: the dead one is left to who has begun
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            other.create_learner("t", 1)
        blocking.execute("ROLLBACK")
        assert other.create_learner("t", 1) == 1
        assert len(other.shards.look()) == 2
