"""Stands between a client and a server on loopback, and does what a bad network does."""

import select
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_CHUNK = 65536


class Proxy:
    """Passes bytes on to 127.0.0.1:`server` until told otherwise. Use it as a context manager."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._is_swallowing = threading.Event()
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]

    def swallow(self) -> None:
        """From now on a connection ends where an answer would come."""
        self._is_swallowing.set()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        with (
            suppress(OSError),
            client,
            socket.create_connection(("127.0.0.1", self._server)) as server,
        ):
            other = {client: server, server: client}
            while True:
                for side in select.select(list(other), [], [])[0]:
                    said = side.recv(_CHUNK)
                    if not said or (side is server and self._is_swallowing.is_set()):
                        return
                    other[side].sendall(said)
