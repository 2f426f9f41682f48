"""A transaction pooler in a few lines: clients share the sessions of a server, each for one transaction at a time."""

import contextlib
import socket
import struct
import threading
from pathlib import Path


def _message(stream):
    """One message of the protocol: its letter, and all of it."""
    head = _exactly(stream, 5)
    return head[:1], head + _exactly(stream, struct.unpack("!i", head[1:])[0] - 4)


def _exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class Pooler:
    """Listens on a socket in ``folder`` as PostgreSQL does, and serves clients by sessions of the server at ``path``.

    A new client is greeted as the first one was, and gets a session with its first command. Sessions are lent last in,
    first out, or in turn.
    """

    def __init__(self, path: Path, folder: Path, in_turn: bool) -> None:
        self._path, self._in_turn = path, in_turn
        self._free: list[socket.socket] = []
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._said = b""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(folder / ".s.PGSQL.5432"))
        self._socket.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._open.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _session(self, startup: bytes) -> tuple[socket.socket, bytes]:
        """A new session, and what the server said when it began."""
        server = socket.socket(socket.AF_UNIX)
        self._open.append(server)
        server.connect(str(self._path))
        server.sendall(startup)
        said = b""
        while True:
            letter, data = _message(server)
            said += data
            if letter == b"Z":
                return server, said

    def _take(self, startup: bytes) -> socket.socket:
        with self._lock:
            if self._free:
                return self._free.pop(0 if self._in_turn else -1)
        return self._session(startup)[0]

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(EOFError, OSError):
            length = _exactly(client, 4)
            startup = length + _exactly(client, struct.unpack("!i", length)[0] - 4)
            with self._lock:
                if not self._said:
                    server, self._said = self._session(startup)
                    self._free.append(server)
            client.sendall(self._said)
            while True:
                letter, data = _message(client)
                if letter == b"X":
                    return
                server = self._take(startup)
                server.sendall(data)
                while not self._relay(client, server):
                    pass
                with self._lock:
                    self._free.append(server)

    def _relay(self, client: socket.socket, server: socket.socket) -> bool:
        """Pass on what both say until the server is ready; True if no transaction is open then."""
        done = threading.Event()

        def forward() -> None:
            with contextlib.suppress(EOFError, OSError):
                client.settimeout(0.05)
                while not done.is_set():
                    with contextlib.suppress(TimeoutError):
                        data = client.recv(65536)
                        if not data:
                            return
                        server.sendall(data)

        thread = threading.Thread(target=forward)
        thread.start()
        try:
            while True:
                letter, data = _message(server)
                if letter == b"Z":
                    done.set()
                    thread.join()
                    client.settimeout(None)
                    client.sendall(data)
                    if data[5:] == b"I":
                        return True
                    letter, data = _message(client)  # the transaction goes on
                    server.sendall(data)
                    return False
                client.sendall(data)
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        self._socket.close()
        for one in self._open:
            one.close()
