"""Places where a store can be, for tests that hold for all of them."""

import sqlite3
from pathlib import Path
from typing import Any

from tests.rig.postgres import Cluster

from weakfeedback.journal import SqliteStore


class InFile:
    """A store in an SQLite file."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "runs.db")

    def open(self, **options: Any) -> Any:
        return SqliteStore.open(self.address, **options)

    def raw(self, command: str, *values: Any) -> list[Any]:
        """What another program does to the store."""
        connection = sqlite3.connect(self.address, isolation_level=None)
        try:
            return connection.execute(command, values).fetchall()
        finally:
            connection.close()


class InPostgres:
    """A store in a new schema of a server."""

    name = "postgres"

    def __init__(self, server: Cluster) -> None:
        self.server = server
        self.address = server.url()

    def open(self, **options: Any) -> Any:
        from weakfeedback.journal.postgres import PostgresStore

        return PostgresStore.open(self.address, **options)

    def raw(self, command: str, *values: Any) -> list[Any]:
        """What another program does to the store."""
        import psycopg

        command = command.replace("%", "%%").replace("?", "%s")
        with psycopg.connect(self.address, autocommit=True) as connection:
            cursor = connection.execute(command, values)
            return cursor.fetchall() if cursor.description else []


PLACES = (InFile.name, InPostgres.name)


def place_of(request: Any, name: str) -> InFile | InPostgres:
    """A new place of this kind."""
    if name == InFile.name:
        return InFile(request.getfixturevalue("tmp_path"))
    return InPostgres(request.getfixturevalue("server"))
