"""Events as text: what goes in comes out, and nothing that was changed does."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakfeedback import __version__, canonical
from weakfeedback.canonical import PIECE
from weakfeedback.journal.events import (
    Event,
    JournalError,
    StoreUnavailable,
    dump,
    event_of,
    parse,
    row_of,
    seal,
    unseal,
)
from weakfeedback.journal.sql import snapshot_text

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
bodies = st.dictionaries(st.text(max_size=5).filter(lambda key: key < "~"), values, max_size=4)


@given(bodies)
@settings(deadline=None)
def test_a_body_comes_back(body):
    text = dump(body)
    assert text.isascii()
    assert dump(parse(text)) == text
    assert text == json.dumps(body, sort_keys=True, separators=(",", ":"))


def test_a_body_is_compact_and_sorted():
    assert dump({"b": [1, 0.1], "a": {"d": "é", "c": None}}) == '{"a":{"c":null,"d":"\\u00e9"},"b":[1,0.1]}'


def test_no_encoder_is_made_for_a_body_and_a_slower_one_writes_the_same(monkeypatch):
    body = {"b": [1, 0.1, -0.0, 1e300], "a": {"d": "é\0", "c": None}, "": [True, 2**70]}
    text = dump(body)
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert canonical._make_encoder()(body) == text
    monkeypatch.setattr(json.JSONEncoder, "iterencode", None)
    assert dump(body) == text


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, object(), {1, 2}, b"x"])
def test_what_is_not_json_is_refused(wrong):
    with pytest.raises((ValueError, TypeError)):
        dump({"x": wrong})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "1",
        "null",
        '{"a":1,"a":2}',
        '{"a":{"b":1,"b":1}}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        "{} {}",
        "{'a':1}",
        pytest.param('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", id="deep"),
    ],
)
def test_reading_is_strict(text):
    with pytest.raises(JournalError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@given(
    bodies,
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 9),
    st.none() | st.text().filter(lambda k: "\0" not in k),
)
@settings(deadline=None)
def test_an_event_comes_back_from_its_row(body, number, decision, key):
    event = Event(number, number, "decide", decision, key, body)
    row = row_of(3, event)
    assert row[:6] == (3, number, number, "decide", decision, key)
    back = event_of(row)
    assert dump(back.body) == dump(body)
    assert (back.seq, back.at, back.kind, back.decision, back.key) == row[1:6]


def test_the_seal_is_the_last_key_and_the_text_stays_json():
    for body in ({}, {"stage": 1}, {"a": {"~sum": "x"}, "z": '"~sum":"'}):
        text = seal(body, 1, 2)
        assert list(json.loads(text)) == [*sorted(body), "~sum"]
        assert unseal(text, 1, 2) == body


def test_the_text_of_a_snapshot_made_in_pieces_is_the_same():
    row = [1, 0.1, None, True, "\u00e4", 2**127]
    body = {"b": {"\u00e4": {"rows": [row[: k % 7] for k in range(3 * PIECE + 1)], "a": []}}, "c": {"x": row}}
    assert snapshot_text(1, 2, 3, body) == seal(body, 1, 2, 3, __version__)
    with pytest.raises(ValueError, match="JSON"):
        snapshot_text(1, 2, 3, {"a": [float("inf")] * (PIECE + 1)})


def test_a_body_cannot_bring_a_seal():
    for key in ("~", "~sum", "é"):
        with pytest.raises(ValueError, match="must sort before"):
            seal({"a": 1, key: 2})


def test_every_changed_character_is_found():
    row = list(row_of(3, Event(7, 8, "feedback", 9, "k", {"differ": [[0, 1]], "digest": "ab"})))
    text = row[6]
    for place in range(len(text)):
        for other in {"0", "x", '"', chr(ord(text[place]) ^ 1)} - {text[place]}:
            with pytest.raises(JournalError):
                event_of([*row[:6], text[:place] + other + text[place + 1 :]])
        with pytest.raises(JournalError):
            event_of([*row[:6], text[:place] + text[place + 1 :]])


@pytest.mark.parametrize("column", range(6))
@pytest.mark.parametrize("other", [None, 0, 1, "", "1", "cancel", 1.5, b"\xff", b"9", "7"])
def test_every_changed_column_is_found(column, other):
    row = list(row_of(3, Event(7, 8, "feedback", 9, None, {})))
    changed = [*row]
    changed[column] = other
    if changed != row:
        with pytest.raises(JournalError):
            event_of(changed)


def test_no_key_is_not_an_empty_key():
    row = row_of(3, Event(7, 8, "decide", 9, "", {}))
    with pytest.raises(JournalError):
        event_of([*row[:5], None, row[6]])


@pytest.mark.parametrize(
    "change",
    [
        {"seq": -1},
        {"seq": True},
        {"at": 2**63},
        {"decision": 1.0},
        {"decision": -1},
        {"kind": ""},
        {"kind": 5},
        {"kind": "a\0"},
        {"key": "a\0b"},
        {"key": 5},
        {"key": "\ud800"},
        {"body": []},
        {"body": {1: 2}},
    ],
)
def test_what_cannot_be_stored_is_refused(change):
    fields = {"seq": 0, "at": 0, "kind": "decide", "decision": None, "key": None, "body": {}} | change
    with pytest.raises((ValueError, TypeError)):
        row_of(1, Event(**fields))


def test_an_event_cannot_be_changed():
    event = Event(0, 0, "decide", None, None, {})
    with pytest.raises(AttributeError):
        event.seq = 1
    assert not hasattr(event, "__dict__")


def test_an_unavailable_store_is_an_os_error_in_one_line():
    problem = StoreUnavailable(28, "runs.db: the disk is full")
    assert isinstance(problem, OSError)
    assert (problem.errno, str(problem)) == (28, "runs.db: the disk is full")
