"""A raw HTTP/2 client that sends what it is told to, legal or not."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import h2.config
import h2.connection
import h2.events
import h2.settings

from tests.contract.grpc_transport.floor import SERVICE

DEADLINE_S = 5.0
ECHO = f"{SERVICE}/Echo"
HEAD_LEN, GOAWAY = 9, 7

Headers = Sequence[tuple[str, str]]


def framed(message: bytes, flag: int = 0, length: int | None = None) -> bytes:
    """A message behind its prefix; flag and length may lie."""
    told = len(message) if length is None else length
    return bytes([flag]) + told.to_bytes(4, "big") + message


@dataclass
class Answer:
    """What came back on one stream."""

    headers: dict[str, str] = field(default_factory=dict)
    trailers: dict[str, str] = field(default_factory=dict)
    data: bytes = b""
    reset: int | None = None
    is_ended: bool = False

    @property
    def http(self) -> int:
        """The HTTP status."""
        return int(self.headers[":status"])

    @property
    def grpc(self) -> int:
        """The gRPC status, from the trailers or, where there are none, the headers."""
        return int((self.trailers or self.headers)["grpc-status"])


class Client:
    """One connection. Use it as a context manager."""

    def __init__(
        self,
        port: int,
        *,
        window: int | None = None,
        handshake: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Connects; `window` is the initial stream window that the server is given."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        config = h2.config.H2Configuration(
            header_encoding="utf-8",
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
        self.h2 = h2.connection.H2Connection(config)
        self.answers: dict[int, Answer] = {}
        self.pings = 0
        self.goaways: list[int] = []
        self.last_stream: int | None = None
        self._received = b""
        self.is_closed = False
        self.answers_pings = True
        if handshake:
            self.h2.initiate_connection()
            if window is not None:
                code = h2.settings.SettingCodes.INITIAL_WINDOW_SIZE
                self.h2.update_settings({code: window})
            self.flush()

    def flush(self) -> None:
        """Sends what the library has waiting."""
        self.socket.sendall(self.h2.data_to_send())

    def open(
        self, path: str = ECHO, extra: Headers = (), drop: Iterable[str] = (), **pseudo: str
    ) -> int:
        """Queues a request's head and returns its stream."""
        head = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
        }
        head |= {name.replace("_", "-"): value for name, value in pseudo.items()}
        if "method" in pseudo:
            head[":method"] = head.pop("method")
        for name in drop:
            del head[name]
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [*head.items(), *extra])
        self.answers[stream] = Answer()
        return stream

    def call(self, body: bytes | None = None, path: str = ECHO, **head: object) -> Answer:
        """Sends a whole request and waits for its answer."""
        stream = self.open(path, **head)  # type: ignore[arg-type]
        self.h2.send_data(stream, framed(b"hello") if body is None else body, end_stream=True)
        return self.answer(stream)

    def answer(self, stream: int) -> Answer:
        """Waits until a stream has ended or was reset."""
        answer = self.answers[stream]
        self.read_until(lambda: answer.is_ended or answer.reset is not None)
        return answer

    def read_until(self, is_done: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
        """Reads until the condition holds.

        Raises:
            TimeoutError: It does not hold in time, or the server closed first.
        """
        self.flush()
        deadline = time.monotonic() + deadline_s
        while not is_done():
            self.socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                received = self.socket.recv(65536)
            except ConnectionError:
                received = b""
            if not received:
                self.is_closed = True
                if is_done():
                    return
                raise TimeoutError("the server closed the connection")
            for event in self.h2.receive_data(self._without_goaways(received)):
                self._take(event)
            if self.answers_pings:
                self.flush()

    def read_to_end(self, deadline_s: float = DEADLINE_S) -> None:
        """Reads until the server closes."""
        self.read_until(lambda: self.is_closed, deadline_s)

    def _without_goaways(self, received: bytes) -> bytes:
        """Whole frames but GOAWAY: after one, the library takes no frame of any stream."""
        self._received += received
        whole = b""
        while len(self._received) >= HEAD_LEN:
            end = HEAD_LEN + int.from_bytes(self._received[:3], "big")
            if len(self._received) < end:
                break
            frame, self._received = self._received[:end], self._received[end:]
            if frame[3] == GOAWAY:
                self.goaways.append(int.from_bytes(frame[13:17], "big"))
                self.last_stream = int.from_bytes(frame[9:13], "big")
            else:
                whole += frame
        return whole

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived(stream_id=int(stream), headers=headers):
                self.answers[stream].headers = dict(headers or [])  # type: ignore[arg-type]
            case h2.events.TrailersReceived(stream_id=int(stream), headers=headers):
                self.answers[stream].trailers = dict(headers or [])  # type: ignore[arg-type]
            case h2.events.DataReceived(stream_id=int(stream), data=data):
                self.answers[stream].data += data or b""
            case h2.events.StreamEnded(stream_id=int(stream)):
                self.answers[stream].is_ended = True
            case h2.events.StreamReset(stream_id=int(stream), error_code=code):
                self.answers[stream].reset = int(code or 0)
            case h2.events.PingReceived():
                self.pings += 1
            case _:
                pass

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()
