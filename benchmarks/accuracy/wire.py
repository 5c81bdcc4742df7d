"""One connection that asks the same question many times: HTTP/2 frames by hand, every answer timed.

A library would cost more than the server that is asked.
"""

import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct

from benchmarks.accuracy.rule import Exchange

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_HEAD = Struct(">BHBBL")
_HEAD_LEN = 9
_MAX_STREAMS, _ENABLE_PUSH = 3, 2
_DEFAULT_WINDOW, _WIDE_WINDOW = 65_535, 1 << 30
_PATH = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
_OK, _OVER_LIMIT = 1, 2
_DEGRADED = b"degraded\x12\x02\x20\x01"
_CODE = 0x08
"""The tag of `overall_code`, the first field of an answer."""
_MOST_STREAMS = 500
"""Of one connection, whatever the server allows: what waits here is not sent yet."""


def now_us() -> int:
    """The time of this machine, which is that of a store on it."""
    return time.time_ns() // 1000


def question(domain: str, entries: Sequence[tuple[str, str]]) -> bytes:
    """A RateLimitRequest with one descriptor, behind its prefix."""
    descriptor = b"".join(
        _field(1, _field(1, key.encode()) + _field(2, value.encode())) for key, value in entries
    )
    message = _field(1, domain.encode()) + _field(2, descriptor)
    return b"\0" + len(message).to_bytes(4, "big") + message


@dataclass
class Recording:
    """What was asked and answered, and what went wrong."""

    exchanges: list[Exchange] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    degraded: int = 0


class Asker:
    """One connection to a node, which asks one question as often as it is told to.

    Args:
        port: The gRPC door of a node on this machine.
        asked: The question.
        recording: Where answers go.
    """

    def __init__(self, port: int, asked: bytes, recording: Recording) -> None:
        self.waiting = 0
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._recording = recording
        self._before, self._between, self._after = _request(port, asked)
        self._cost = len(asked)
        self._sent: list[int] = []
        self._codes: dict[int, int] = {}
        self._in_flight = 0
        self._most = _MOST_STREAMS
        self._window = _DEFAULT_WINDOW
        self._received = 0
        self._input = b""
        self._output = bytearray(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(_SETTINGS, 0, 0, Struct(">HL").pack(_ENABLE_PUSH, 0))
            + _frame(_WINDOW, 0, 0, (_WIDE_WINDOW - _DEFAULT_WINDOW).to_bytes(4, "big"))
        )

    @property
    def unanswered(self) -> int:
        """Questions that wait here or are in flight."""
        return self.waiting + self._in_flight

    def send(self) -> None:
        """Sends what may go of what waits."""
        count = min(self.waiting, self._most - self._in_flight, self._window // self._cost)
        if count > 0:
            first = 2 * len(self._sent) + 1
            before, between, after = self._before, self._between, self._after
            parts: list[bytes] = []
            for stream in range(first, first + 2 * count, 2):
                name = stream.to_bytes(4, "big")
                parts += (before, name, between, name, after)
            self._output += b"".join(parts)
            self._sent += [now_us()] * count
            self.waiting -= count
            self._in_flight += count
            self._window -= count * self._cost
        while self._output:
            try:
                done = self.socket.send(self._output)
            except BlockingIOError:
                return
            del self._output[:done]

    def receive(self) -> None:
        """Takes what has come."""
        try:
            arrived = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        now = now_us()
        if not arrived:
            self._lose("closed by the server")
            return
        data = self._input + arrived
        at, end = 0, len(data)
        while at + _HEAD_LEN <= end:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            start = at + _HEAD_LEN
            stop = start + (high << 16 | low)
            if stop > end:
                break
            at = stop
            if kind == _DATA:
                self._take_data(stream, data[start:stop])
            elif kind != _HEADERS:
                self._control(kind, flags, stream, data[start:stop])
                continue
            if flags & _END_STREAM:
                self._finish(stream, now)
        self._input = data[at:]

    def close(self) -> None:
        """Ends the connection."""
        self.socket.close()

    def _take_data(self, stream: int, payload: bytes) -> None:
        self._received += len(payload)
        if self._received > _WIDE_WINDOW // 2:
            self._output += _frame(_WINDOW, 0, 0, self._received.to_bytes(4, "big"))
            self._received = 0
        if len(payload) > 6 and payload[5] == _CODE:
            self._codes[stream] = payload[6]
            self._recording.degraded += _DEGRADED in payload

    def _finish(self, stream: int, now: int) -> None:
        self._in_flight -= 1
        code = self._codes.pop(stream, 0)
        if code not in (_OK, _OVER_LIMIT):
            self._recording.errors["no right answer"] += 1
            return
        sent = self._sent[stream // 2]
        self._recording.exchanges.append(Exchange(sent, now, code == _OK))

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for name, value in Struct(">HL").iter_unpack(payload):
                if name == _MAX_STREAMS:
                    self._most = min(value, _MOST_STREAMS)
            self._output += _frame(_SETTINGS, _ACK, 0, b"")
        elif kind == _PING and not flags & _ACK:
            self._output += _frame(_PING, _ACK, 0, payload)
        elif kind == _WINDOW and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == _RESET:
            self._in_flight -= 1
            self._recording.errors["stream reset"] += 1
        elif kind == _GOAWAY:
            self._lose("GOAWAY")

    def _lose(self, why: str) -> None:
        self._recording.errors[f"connection: {why}"] += 1
        self.waiting = self._in_flight = 0


def _request(port: int, asked: bytes) -> tuple[bytes, bytes, bytes]:
    """The two frames of a request, cut where the number of its stream belongs."""
    # Indexes of the static table; other fields as literals that no table keeps.
    block = b"\x83\x86" + b"\x04" + _text(_PATH)
    block += b"\x01" + _text(f"127.0.0.1:{port}".encode())
    block += b"\x0f\x10" + _text(b"application/grpc")
    block += b"\x00" + _text(b"te") + _text(b"trailers")
    head = _frame(_HEADERS, _END_HEADERS, 0, block)
    body = _frame(_DATA, _END_STREAM, 0, asked)
    return head[:5], head[9:] + body[:5], body[9:]


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def _text(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _field(number: int, value: bytes) -> bytes:
    if len(value) >= 0x80:
        raise ValueError("names and values are shorter than 128 bytes here")
    return bytes([number << 3 | 2, len(value)]) + value
