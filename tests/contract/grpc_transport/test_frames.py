"""Frames that no honest client sends: the connection ends with the reason, others go on."""

import struct
from contextlib import suppress

import hpack
import pytest

from tests.contract.grpc_transport.client import ECHO, Client, framed
from tests.contract.grpc_transport.floor import Floor
from tests.contract.grpc_transport.test_connections import (
    CONTINUATION,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
    raw,
    read_all,
)
from tests.contract.grpc_transport.test_floods import ENHANCE_YOUR_CALM, GOAWAY, MIB, frames

DATA, PRIORITY, RST_STREAM, PUSH_PROMISE, WINDOW_UPDATE = 0, 2, 3, 5, 8
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
PROTOCOL_ERROR, FRAME_SIZE_ERROR = 1, 6
HEAD = hpack.Encoder().encode(
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", ECHO),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
)
OPEN = frame(HEADERS, END_HEADERS, 1, HEAD)
# One header of 3,900 bytes enters the table; then each byte names it again.
BOMB = HEAD + b"\x40\x05x-big\x7f" + bytes([0xBD, 0x1D]) + b"a" * 3900 + b"\xbe" * 12_000


def streams(count: int, *after: tuple[int, int, bytes]) -> bytes:
    """So many requests, each followed by these frames (kind, flags, content)."""
    parts = []
    for stream in range(1, 2 * count, 2):
        parts.append(frame(HEADERS, END_HEADERS, stream, HEAD))
        parts += [frame(kind, flags, stream, content) for kind, flags, content in after]
    return b"".join(parts)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (frame(HEADERS, END_HEADERS, 1, BOMB[:16_000]), ENHANCE_YOUR_CALM),
        (OPEN + frame(DATA, 0, 1, b"") * 100_000, ENHANCE_YOUR_CALM),
        (OPEN + frame(DATA, PADDED, 1, b"\xff" + b"\0" * 255) * 5000, ENHANCE_YOUR_CALM),
        (streams(5000, (RST_STREAM, 0, struct.pack(">I", 8))), ENHANCE_YOUR_CALM),
        (streams(20_000), ENHANCE_YOUR_CALM),
        (streams(5000, (WINDOW_UPDATE, 0, struct.pack(">I", 0))), PROTOCOL_ERROR),
        (frame(HEADERS, 0, 1, HEAD) + frame(CONTINUATION, 0, 1, b"") * 100, ENHANCE_YOUR_CALM),
        (frame(RST_STREAM, 0, 99, struct.pack(">I", 8)), PROTOCOL_ERROR),
        (OPEN + frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\2" + HEAD), PROTOCOL_ERROR),
        (OPEN + frame(DATA, 0, 1, b"x" * 20_000), FRAME_SIZE_ERROR),
        (frame(HEADERS, END_HEADERS, 2, HEAD), PROTOCOL_ERROR),
    ],
    ids=[
        "headers that unpack to much",
        "empty data",
        "padding alone",
        "rapid reset",
        "20,000 open requests",
        "resets that the server is made to send",
        "empty continuations",
        "reset of an idle stream",
        "push by a client",
        "long frame",
        "even stream",
    ],
)
def test_the_connection_ends_with_the_reason(floor: Floor, sent: bytes, reason: int) -> None:
    before = floor.memory()
    with raw(floor.port) as hostile, Client(floor.port) as other:
        with suppress(ConnectionError):
            hostile.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + sent)
        assert other.call(framed(b"hello")).grpc == 0
        goaways = [content for kind, content in frames(read_all(hostile)) if kind == GOAWAY]
        assert [struct.unpack(">II", content[:8])[1] for content in goaways] == [reason]
    assert floor.memory() - before < 16 * MIB


def test_frames_without_meaning_are_passed_over(floor: Floor) -> None:
    priorities = frame(PRIORITY, 0, 1, struct.pack(">IB", 0, 1)) * 100_000
    with Client(floor.port) as client:
        client.socket.sendall(priorities + frame(0xBB, 0, 0, b"x" * 1000) * 1000)
        assert client.call().grpc == 0
