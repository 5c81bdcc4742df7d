"""Stands between a client and a server on loopback, and does what a bad network does."""

import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_CHUNK = 65536
_SMALL_WINDOW = 4096
_SMALL_SEGMENT = 536


class Proxy:
    """Passes bytes on to 127.0.0.1:`server` until told otherwise. Use it as a context manager."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._is_swallowing = threading.Event()
        self._may_read = threading.Event()
        self._may_read.set()
        self._door = socket.socket()
        # What is not read stays with who wrote it, not in a buffer here.
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW)
        # The system sizes a client's buffer by the segments that it may send.
        self._door.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SMALL_SEGMENT)
        self._door.bind(("127.0.0.1", 0))
        self._door.listen()
        self.port: int = self._door.getsockname()[1]

    def swallow(self) -> None:
        """From now on a connection ends where an answer would come."""
        self._is_swallowing.set()

    def hold(self) -> None:
        """Reads nothing more from clients."""
        self._may_read.clear()

    def release(self) -> None:
        """Reads from clients again."""
        self._may_read.set()

    def unsent_bytes(self) -> int:
        """What clients have handed to the system and it cannot pass on (Linux)."""
        rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
        queues = [row.split()[4].split(":") for row in rows if self._is_of_client(row.split())]
        return sum(int(sent, 16) for sent, _ in queues)

    def _is_of_client(self, row: list[str]) -> bool:
        return int(row[2].split(":")[1], 16) == self.port

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._may_read.set()
        self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client,), daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            other = {client: server, server: client}
            with suppress(OSError):
                while self._pass_on(other, client):
                    pass

    def _pass_on(self, other: dict[socket.socket, socket.socket], client: socket.socket) -> bool:
        for side in select.select(list(other), [], [])[0]:
            if side is client:
                self._may_read.wait()
            said = side.recv(_CHUNK)
            if not said or (side is not client and self._is_swallowing.is_set()):
                return False
            other[side].sendall(said)
        return True
