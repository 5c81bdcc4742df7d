"""Clients that want to fill a server's memory or keep it busy."""

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from tests.contract.grpc_transport.client import Client, framed
from tests.contract.grpc_transport.floor import SERVICE, Floor
from tests.contract.grpc_transport.test_connections import (
    CONTINUATION,
    HEADERS,
    PING,
    PREFACE,
    SETTINGS,
    WATCH,
    frame,
    raw,
    read_all,
)

GOAWAY, ENHANCE_YOUR_CALM, CANCEL = 7, 11, 8
RESOURCE_EXHAUSTED = 8
MIB = 1 << 20
IDLE_CONNECTIONS = 1000
IDLE_BYTES = 20_000


def frames(received: bytes) -> Iterator[tuple[int, bytes]]:
    """The kinds and contents of frames."""
    while len(received) >= 9:
        end = 9 + int.from_bytes(received[:3], "big")
        yield received[3], received[9:end]
        received = received[end:]


def is_closed_by(connection: socket.socket, again: bytes) -> bool:
    """Whether a server closes on somebody who sends that 8 million times and reads nothing."""
    try:
        for _ in range(2000):
            connection.sendall(again * 4000)
    except ConnectionError:
        return True
    return False


def test_endless_continuation_is_told_to_calm_down(floor: Floor) -> None:
    with raw(floor.port) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        connection.sendall(frame(HEADERS, 0, 1, b"\x00\x01a\x01b"))
        connection.sendall(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b") * 10)
        goaways = [content for kind, content in frames(read_all(connection)) if kind == GOAWAY]
    assert [struct.unpack(">II", content[:8])[1] for content in goaways] == [ENHANCE_YOUR_CALM]


def test_pings_whose_answers_nobody_reads_are_not_kept(impatient: Floor) -> None:
    before = impatient.memory()
    with raw(impatient.port) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        assert is_closed_by(connection, frame(PING, 0, 0, b"12345678"))
    assert impatient.memory() - before < 8 * MIB


def test_settings_whose_answers_nobody_reads_are_not_kept(impatient: Floor) -> None:
    before = impatient.memory()
    with raw(impatient.port) as connection:
        connection.sendall(PREFACE)
        assert is_closed_by(connection, frame(SETTINGS, 0, 0, b""))
    assert impatient.memory() - before < 8 * MIB


def test_answers_that_nobody_takes_are_given_up(own_floor: Callable[..., Floor]) -> None:
    floor = own_floor("--send-ms", "300")
    with Client(floor.port, window=0) as client:
        sizes = []
        for _ in range(4):
            streams = [client.open() for _ in range(500)]
            for stream in streams:
                client.h2.send_data(stream, framed(b"x" * 100), end_stream=True)
            client.read_until(
                lambda opened=streams: all(  # type: ignore[misc]
                    client.answers[stream].reset == CANCEL for stream in opened
                )
            )
            sizes.append(floor.memory())
        assert sizes[-1] - sizes[0] < 4 * MIB


def test_unfinished_messages_have_one_room_together(own_floor: Callable[..., Floor]) -> None:
    floor = own_floor("--buffered", "1000000")
    piece = framed(b"x" * 30_000, length=100_000)
    with Client(floor.port) as client:
        # Its answer comes behind the server's windows.
        assert client.call().grpc == 0
        streams = [client.open() for _ in range(40)]
        for stream in streams:
            for at in range(0, len(piece), 10_000):
                client.h2.send_data(stream, piece[at : at + 10_000])
            client.flush()
        client.read_until(lambda: any(client.answers[stream].is_ended for stream in streams))
        refused = next(stream for stream in streams if client.answers[stream].is_ended)
        assert client.answers[refused].grpc == RESOURCE_EXHAUSTED
    with Client(floor.port) as client:
        assert client.call().grpc == 0
        stream = client.open()
        whole = framed(b"x" * 40_000)
        client.h2.send_data(stream, whole[:10_000])
        client.flush()
        for at in range(10_000, len(whole), 10_000):
            client.h2.send_data(
                stream, whole[at : at + 10_000], end_stream=at + 10_000 >= len(whole)
            )
        answer = client.answer(stream)
        assert (answer.grpc, len(answer.data)) == (0, len(whole))


def test_old_connection_has_a_time_to_finish(own_floor: Callable[..., Floor]) -> None:
    floor = own_floor("--age-ms", "300", "--grace-ms", "400")
    with Client(floor.port) as client:
        start = time.monotonic()
        watched = client.open(WATCH)
        client.h2.send_data(watched, framed(b"first"), end_stream=True)
        client.read_until(lambda: client.goaways)
        later = client.open(f"{SERVICE}/Later")
        client.h2.send_data(later, framed(b"slow"), end_stream=True)
        client.read_to_end()
        assert 0.6 < time.monotonic() - start < 3
        assert client.answers[watched].data == framed(b"first")
        assert client.answers[later].data in {framed(b"slow"), b""}


def test_request_taken_back_while_it_waits_is_dropped(floor: Floor) -> None:
    with Client(floor.port) as client:
        later = client.open(f"{SERVICE}/Later")
        client.h2.send_data(later, framed(b"slow"), end_stream=True)
        client.flush()
        assert client.call().grpc == 0
        client.h2.reset_stream(later, error_code=CANCEL)
        client.flush()
        time.sleep(0.2)
        assert client.call().grpc == 0
        assert not client.answers[later].headers


def test_idle_connections_are_cheap(own_floor: Callable[..., Floor]) -> None:
    floor = own_floor()
    with ExitStack() as opened:

        def connect() -> socket.socket:
            connection = opened.enter_context(raw(floor.port))
            connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
            assert connection.recv(65536)
            return connection

        for _ in range(50):
            connect()
        before = floor.memory()
        for _ in range(IDLE_CONNECTIONS):
            connect()
        each = (floor.memory() - before) / IDLE_CONNECTIONS
    assert each < IDLE_BYTES
