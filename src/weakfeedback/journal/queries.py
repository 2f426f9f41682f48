"""The commands that all SQL stores share, each by its name, with "?" for values."""

_ENDS = "kind IN ('feedback', 'cancel', 'expire')"  # must match the text of the index
_OPENS = "kind IN ('decide', 'begin')"  # likewise

ADD_LEARNER = "INSERT INTO learner VALUES (?, ?, ?, ?)"
LEARNER_NAMED = "SELECT id FROM learner WHERE name = ?"
NEXT_LEARNER = "SELECT coalesce(max(id), 0) + 1 FROM learner"
ARCHIVE = "UPDATE learner SET archived = ? WHERE id = ?"
LAST_EVENT = "SELECT seq, at FROM event WHERE learner = ? ORDER BY seq DESC LIMIT 1"
LATE_EVENT = "SELECT seq FROM event WHERE learner = ? AND seq < ? AND at >= ? ORDER BY seq LIMIT 1"
HIGHEST_DECISION = "SELECT max(decision) FROM event WHERE learner = ? AND seq < ?"
FORGET_EVENTS = "DELETE FROM event WHERE learner = ? AND seq < ?"
FIRST_AND_LAST = (
    "SELECT id, (SELECT min(seq) FROM event WHERE learner = learner.id), "
    "(SELECT max(seq) FROM event WHERE learner = learner.id) FROM learner"
)
ROWS_OF_NOBODY = "SELECT 1 FROM {} WHERE learner NOT IN (SELECT id FROM learner) LIMIT 1"
SNAPSHOTS = "SELECT seq FROM snapshot WHERE learner = ? ORDER BY seq DESC"
ADD_SNAPSHOT = (
    "INSERT INTO snapshot VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (learner, seq) DO UPDATE SET "
    "at = excluded.at, package = excluded.package, body = excluded.body, checksum = excluded.checksum"
)
FORGET_SNAPSHOTS = (
    "DELETE FROM snapshot WHERE learner = ? AND seq NOT IN "
    "(SELECT seq FROM snapshot WHERE learner = ? ORDER BY seq DESC LIMIT ?)"
)
SET_META = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
COUNT_SYNC = (
    "INSERT INTO meta VALUES ('syncs', '1') ON CONFLICT (key) "
    "DO UPDATE SET value = CAST(CAST(meta.value AS BIGINT) + 1 AS TEXT)"
)


class Reading:
    """The commands that read texts, as bytes: a damaged text then becomes a named bad event.

    ``text`` is how a dialect reads a text column as bytes.
    """

    def __init__(self, text: str) -> None:
        kind, key, body, name, value, package, checksum = map(
            text.format, ("kind", "key", "body", "name", "value", "package", "checksum")
        )
        event = f"SELECT learner, seq, at, {kind}, decision, {key}, {body} FROM event WHERE learner = ? AND"
        self.events = f"{event} seq > ? ORDER BY seq LIMIT ?"
        self.end = f"{event} decision = ? AND {_ENDS} ORDER BY seq LIMIT 1"
        self.opening = f"{event} decision = ? AND {_OPENS} ORDER BY seq LIMIT 1"
        self.by_key = f"{event} key = ? ORDER BY seq LIMIT 1"
        self.learners = f"SELECT id, {name}, created, archived FROM learner ORDER BY id"
        self.snapshot = (
            f"SELECT seq, at, {package}, {body}, {checksum} FROM snapshot WHERE learner = ? AND seq = ?"
        )
        self.meta = f"SELECT {value} FROM meta WHERE key = ?"
        self.metas = f"SELECT {key}, {value} FROM meta WHERE key LIKE ?"
