"""A PostgreSQL of the tests' own: a private cluster in a temporary folder, reached by a socket in that folder."""

import contextlib
import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

SETTINGS = """
listen_addresses = ''
unix_socket_permissions = 0777
shared_buffers = 16MB
max_connections = 100
max_wal_size = 128MB
fsync = on
recovery_init_sync_method = syncfs
synchronous_commit = on
log_min_messages = fatal
"""
ACCESS = """
local all secret scram-sha-256
local all all trust
"""


class Absent(Exception):
    """There is no PostgreSQL that could be started; says why."""


def programs() -> Path:
    """The folder with initdb, pg_ctl and the others."""
    found = shutil.which("initdb")
    folders = [str(Path(found).parent)] if found else sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not folders:
        raise Absent("PostgreSQL is needed (initdb was not found): install Debian's postgresql")
    return Path(folders[-1])


def _as_user() -> tuple[list[str], int | None]:
    """How commands are run, and whose the folder must be: PostgreSQL refuses to be run by root."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return [], None
    import pwd  # not on Windows

    if shutil.which("setpriv") is None:
        raise Absent("PostgreSQL refuses to be run by root, and setpriv was not found")
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return [
                "setpriv",
                f"--reuid={user.pw_uid}",
                f"--regid={user.pw_gid}",
                "--clear-groups",
            ], user.pw_uid
    raise Absent("PostgreSQL refuses to be run by root, and there is no user postgres or nobody")


class Cluster:
    """A server that can be stopped, started again, and asked for new empty schemas."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs = programs()
        self._words, owner = _as_user()
        if owner is not None:
            os.chown(folder, owner, -1)
        self._run("initdb", "--no-sync", "--auth=trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
        data = folder / "data"
        for name, text in (("postgresql.conf", SETTINGS), ("pg_hba.conf", ACCESS)):
            before = (data / name).read_text() if name == "postgresql.conf" else ""
            (data / name).write_text(
                f"{before}{text}unix_socket_directories = '{folder}'\n" if before else text
            )
        self.start()

    def _run(self, program: str, *words: str) -> None:
        command = [*self._words, str(self._programs / program), "-D", str(self.folder / "data"), *words]
        with open(self.folder / "commands", "a+") as output:  # not a pipe: the server would keep it open
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/")
            if done.returncode:
                output.seek(0)
                raise Absent(f"{program} failed: {output.read()[-500:]}")

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-t", "120", "-l", str(self.folder / "log"), "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-w", "-m", mode, "stop")

    def url(self, schema: str = "", user: str = "postgres") -> str:
        """The address of a schema, a new one unless it is named."""
        path = quote(f"-csearch_path={schema or 's' + uuid4().hex[:12]}")
        return f"postgresql:///postgres?host={quote(str(self.folder), safe='')}&user={user}&options={path}"


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """A running server; Absent if there can be none."""
    programs()
    with tempfile.TemporaryDirectory(prefix="wfpg", ignore_cleanup_errors=True) as folder:
        server = Cluster(Path(folder))
        try:
            yield server
        finally:
            with contextlib.suppress(Absent):  # a test may have stopped it
                server.stop()
