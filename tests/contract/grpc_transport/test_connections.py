"""What a connection may cost, how long it may be silent, and how it ends."""

import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contract.grpc_transport.client import Client, framed
from tests.contract.grpc_transport.floor import SERVICE, Floor

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, PING, CONTINUATION = 4, 1, 6, 9
MAX_CONCURRENT_STREAMS = 3
LATER, WATCH = f"{SERVICE}/Later", f"{SERVICE}/Watch"


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame as bytes."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def raw(port: int) -> socket.socket:
    """A connection on which bytes are sent by hand."""
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def read_all(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionError:
        pass
    return received


def test_unknown_setting_is_ignored(floor: Floor) -> None:
    with Client(floor.port, handshake=False) as client:
        client.h2.initiate_connection()
        client.flush()
        client.socket.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 0xFE03, 1)))
        assert client.call().grpc == 0


def test_stream_1025_is_refused(floor: Floor) -> None:
    with Client(floor.port) as client:
        streams = [client.open(WATCH) for _ in range(1024)]
        for stream in streams:
            client.h2.send_data(stream, framed(b""), end_stream=True)
        client.read_until(lambda: all(client.answers[stream].data for stream in streams))
        client.h2.remote_settings[MAX_CONCURRENT_STREAMS] = 2000
        client.h2.remote_settings.acknowledge()
        over = client.open()
        client.h2.send_data(over, framed(b""), end_stream=True)
        assert client.answer(over).reset == 7
    with Client(floor.port) as client:
        assert client.call().grpc == 0


def test_thousand_resets_leave_other_connections_alone(floor: Floor, client: Client) -> None:
    assert client.call().grpc == 0
    with Client(floor.port) as hostile:
        for _ in range(1000):
            stream = hostile.open()
            hostile.h2.reset_stream(stream, error_code=8)
        hostile.flush()
        assert client.call().grpc == 0
        assert hostile.call().grpc == 0


def test_endless_continuation_is_cut_off(floor: Floor) -> None:
    with raw(floor.port) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        connection.sendall(frame(HEADERS, 0, 1, b"\x00\x01a\x01b"))
        more = frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b" * 1000)
        try:
            for _ in range(2000):
                connection.sendall(more)
        except ConnectionError:
            pass
        read_all(connection)
    with Client(floor.port) as client:
        assert client.call().grpc == 0


def test_ping_flood_leaves_other_connections_alone(floor: Floor, client: Client) -> None:
    with raw(floor.port) as connection:
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        for _ in range(100):
            connection.sendall(frame(PING, 0, 0, b"12345678") * 100)
        assert client.call().grpc == 0


@pytest.mark.parametrize("sent", [b"", PREFACE[:10]], ids=["nothing", "half a preface"])
def test_slow_handshake_is_closed(impatient: Floor, sent: bytes) -> None:
    with raw(impatient.port) as connection:
        connection.sendall(sent)
        start = time.monotonic()
        read_all(connection)
        assert 0.2 < time.monotonic() - start < 3


def test_http1_is_closed(floor: Floor) -> None:
    with raw(floor.port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_all(connection)


def test_message_that_never_comes_is_given_up(impatient: Floor) -> None:
    with Client(impatient.port) as client:
        stream = client.open()
        client.h2.send_data(stream, framed(b"abc", length=10))
        answer = client.answer(stream)
        assert (answer.http, answer.grpc) == (200, 4)
        assert client.call().grpc == 0


def test_client_with_its_window_shut_loses_the_stream(impatient: Floor) -> None:
    with Client(impatient.port, window=0) as client:
        assert client.call().reset == 8
        assert client.call().reset == 8


def test_answer_waits_for_the_window(floor: Floor) -> None:
    with Client(floor.port, window=4) as client:
        stream = client.open()
        client.h2.send_data(stream, framed(b"hello"), end_stream=True)
        client.read_until(lambda: len(client.answers[stream].data) == 4)
        client.h2.increment_flow_control_window(100, stream)
        answer = client.answer(stream)
        assert (answer.data, answer.grpc) == (framed(b"hello"), 0)


def test_silent_client_is_pinged_and_kept_if_it_answers(impatient: Floor) -> None:
    with Client(impatient.port) as client:
        client.read_until(lambda: client.pings == 2)
        assert client.call().grpc == 0


def test_client_that_does_not_answer_pings_is_closed(impatient: Floor) -> None:
    with Client(impatient.port) as client:
        client.flush()
        client.answers_pings = False
        client.read_to_end()
        assert client.pings == 1


def test_old_connection_is_asked_to_leave(own_floor: Callable[..., Floor]) -> None:
    floor = own_floor("--age-ms", "300")
    with Client(floor.port) as client:
        client.read_to_end()
        assert client.goaways == [0, 0]
    with Client(floor.port) as client:
        assert client.call().grpc == 0


def test_stop_finishes_what_is_in_flight(own_floor: Callable[..., Floor]) -> None:
    floor = own_floor()
    with Client(floor.port) as client, ThreadPoolExecutor() as pool:
        watched, later = client.open(WATCH), client.open(LATER)
        client.h2.send_data(watched, framed(b"first"), end_stream=True)
        client.h2.send_data(later, framed(b"slow"), end_stream=True)
        client.read_until(lambda: client.answers[watched].data)
        start = time.monotonic()
        stopping = pool.submit(floor.process.stop)
        assert client.answer(later).data == framed(b"slow")
        assert client.answer(later).grpc == 0
        answer = client.answer(watched)
        assert (answer.data, answer.grpc) == (framed(b"first"), 14)
        client.read_to_end()
        assert client.goaways == [0, 0]
        assert stopping.result() == 0
        assert time.monotonic() - start < 3
    with pytest.raises(ConnectionRefusedError):
        raw(floor.port)


def test_stop_does_not_wait_for_a_client_that_never_reads(
    own_floor: Callable[..., Floor],
) -> None:
    floor = own_floor("--drain-ms", "300")
    with Client(floor.port, window=0) as client:
        stream = client.open()
        client.h2.send_data(stream, framed(b"hello"), end_stream=True)
        client.read_until(lambda: client.answers[stream].headers)
        start = time.monotonic()
        assert floor.process.stop() == 0
        assert time.monotonic() - start < 3
