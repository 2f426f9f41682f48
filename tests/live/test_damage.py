"""Files of live objects that were cut, altered, swapped or come from the future: refused, never silently wrong."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.live.kinds import KINDS, play, state

from weakfeedback.live import StateError, storage


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    """A kind, a file of it and what it holds, with rounds behind it and one decision open."""
    kind = KINDS[request.param]
    thing = kind.make()
    play(kind, thing, 40)
    kind.decide(thing)
    path = tmp_path_factory.mktemp("saved") / "state.json"
    thing.save(path)
    return kind, path, path.read_bytes(), state(thing)


@pytest.mark.parametrize("places", [300, pytest.param(10**6, marks=pytest.mark.slow)])
def test_every_truncation_is_refused(saved, places):
    kind, path, content, _ = saved
    for length in range(0, len(content), max(1, len(content) // places)):
        path.write_bytes(content[:length])
        with pytest.raises(StateError, match="damaged or of another origin"):
            kind.load(path)
    path.write_bytes(content[:-1])
    with pytest.raises(StateError):
        kind.load(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_flipped_bits_are_refused_or_change_nothing(saved, data):
    flip_and_load(saved, data)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_many_flipped_bits_are_refused_or_change_nothing(saved, data):
    flip_and_load(saved, data)


def flip_and_load(saved, data):
    kind, path, content, whole = saved
    altered = bytearray(content)
    places = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 7))
    for place, bit in data.draw(st.lists(places, min_size=1, max_size=3)):
        altered[place] ^= 1 << bit
    path.write_bytes(altered)
    try:
        loaded = kind.load(path)
    except StateError:
        return
    assert state(loaded) == whole  # as with 1E-3 for 1e-3


def test_parts_of_files_do_not_mix(saved):
    # The first half of a state and the second half of a later one, as a disk that reorders its writes might leave it.
    kind, path, content, _ = saved
    path.write_bytes(content)
    thing = kind.load(path)
    if thing.pending:
        thing.cancel(thing.pending[0])
    play(kind, thing, 3)
    thing.save(path)
    later = path.read_bytes()
    for cut in range(0, min(len(content), len(later)), 397):
        mixed = content[:cut] + later[cut:]
        if mixed in (content, later):
            continue
        path.write_bytes(mixed)
        with pytest.raises(StateError):
            kind.load(path)


def test_other_kinds_and_later_formats_are_refused(saved):
    kind, path, content, _ = saved
    document = json.loads(content)
    for other in KINDS.values():
        path.write_bytes(content)
        name = other.make().kind
        if name != document["kind"]:
            with pytest.raises(StateError, match=f"holds the state of '{document['kind']}', not of '{name}'"):
                other.load(path)
    for change, message in (
        (
            {"format": storage.FORMAT + 1, "package": "99.0"},
            f"has format {storage.FORMAT + 1}, written by",
        ),
        ({"format": 0}, "checksum does not match"),
        ({"format": "1"}, "checksum does not match"),
        ({"body": {}}, "checksum does not match"),
        ({"more": 1}, "checksum does not match"),
    ):
        path.write_text(json.dumps({**document, **change}))
        with pytest.raises(StateError, match=message):
            kind.load(path)
    for missing in document:
        path.write_text(json.dumps({key: value for key, value in document.items() if key != missing}))
        with pytest.raises(StateError, match="damaged or of another origin"):
            kind.load(path)
