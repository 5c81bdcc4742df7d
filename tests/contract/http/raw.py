"""HTTP/1.1 by hand, for what no client library would send."""

import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass
class Raw:
    """One connection. Use it as a context manager.

    Args:
        address: Host and port of the server.
        timeout_s: How long one step may take, seconds.
        source: The address of loopback to come from.
    """

    address: str
    timeout_s: float = 10
    source: str | None = None

    def __enter__(self) -> Self:
        host, port = self.address.rsplit(":", 1)
        source = (self.source, 0) if self.source else None
        self.socket = socket.create_connection((host, int(port)), self.timeout_s, source)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        """Sends bytes; that the server has left already is for the answer to tell."""
        try:
            for part in parts:
                self.socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def until_closed(self) -> bytes:
        """All that comes until the server closes."""
        received = b""
        while True:
            try:
                more = self.socket.recv(65536)
            except (ConnectionResetError, TimeoutError):
                return received
            if not more:
                return received
            received += more

    def statuses_until(self, count: int) -> list[int]:
        """The statuses of the next answers, so many of them or as many as come."""
        received = b""
        while received.count(b"HTTP/1.1 ") < count:
            more = self.socket.recv(65536)
            if not more:
                break
            received += more
        return statuses(received)


def statuses(received: bytes) -> list[int]:
    """The statuses of the answers among these bytes."""
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A request with a body of known length, unless a header says how long it is."""
    names = " ".join(headers).lower()
    lines = [f"POST {path} HTTP/1.1", "host: x", "content-type: application/json", *headers]
    if "content-length" not in names and "transfer-encoding" not in names:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body
