"""What the transport demands of one request, and how it answers."""

import pytest

from tests.contract.grpc_transport.client import ECHO, Client, framed
from tests.contract.grpc_transport.floor import RATE_LIMIT, SERVICE

CALLS = f"{SERVICE}/Calls"
MIB = 1 << 20


def calls(client: Client) -> int:
    """How many probe calls reached the service before this one."""
    answer = client.call(framed(b""), CALLS)
    return int(answer.data[5:])


def test_answer_is_headers_data_and_trailers(client: Client) -> None:
    answer = client.call()
    assert answer.http == 200
    assert answer.headers["content-type"] == "application/grpc"
    assert answer.data == framed(b"hello")
    assert answer.trailers == {"grpc-status": "0"}
    assert answer.reset is None


def test_empty_message_is_five_zero_bytes(client: Client) -> None:
    answer = client.call(framed(b""))
    assert (answer.grpc, answer.data) == (0, bytes(5))


def test_rate_limit_answer_is_constant(client: Client) -> None:
    assert client.call(framed(b"anything"), RATE_LIMIT).data.startswith(b"\0\0\0\0\x16\x08\x01")


def test_one_byte_in_each_data_frame(client: Client) -> None:
    stream = client.open()
    body = framed(b"hello")
    for index, byte in enumerate(body):
        client.h2.send_data(stream, bytes([byte]), end_stream=index == len(body) - 1)
        client.flush()
    assert client.answer(stream).data == body


def test_request_ended_by_an_empty_frame(client: Client) -> None:
    stream = client.open()
    client.h2.send_data(stream, framed(b"hello"))
    client.flush()
    client.h2.send_data(stream, b"", end_stream=True)
    assert client.answer(stream).data == framed(b"hello")


def test_request_ended_by_trailers(client: Client) -> None:
    stream = client.open()
    client.h2.send_data(stream, framed(b"hello"))
    client.h2.send_headers(stream, [("x-more", "1")], end_stream=True)
    assert client.answer(stream).data == framed(b"hello")


def test_padded_data(client: Client) -> None:
    stream = client.open()
    client.h2.send_data(stream, framed(b"hello"), end_stream=True, pad_length=200)
    assert client.answer(stream).data == framed(b"hello")


def test_large_message_travels_whole(client: Client) -> None:
    body = framed(bytes(range(256)) * 2048)
    client.call()  # The server's settings and window have arrived with the answer.
    stream = client.open()
    for start in range(0, len(body), 16384):
        chunk = body[start : start + 16384]
        client.h2.send_data(stream, chunk, end_stream=start + 16384 >= len(body))
        client.flush()
    client.h2.increment_flow_control_window(MIB, stream)
    client.h2.increment_flow_control_window(MIB)
    assert client.answer(stream).data == body


@pytest.mark.parametrize(
    ("body", "extra", "code"),
    [
        pytest.param(framed(b"x", flag=1), (), 13, id="compressed, encoding not named"),
        pytest.param(framed(b"x", flag=1), (("grpc-encoding", "identity"),), 13, id="identity"),
        pytest.param(framed(b"x", flag=2), (("grpc-encoding", "gzip"),), 13, id="flag 2"),
        pytest.param(framed(b"abc", length=4), (), 13, id="ends inside the message"),
        pytest.param(b"\0\0\0", (), 13, id="ends inside the prefix"),
        pytest.param(framed(b"a") + framed(b"b"), (), 13, id="two messages"),
        pytest.param(b"", (), 13, id="no message"),
    ],
)
def test_malformed_message(
    client: Client, body: bytes, extra: tuple[tuple[str, str], ...], code: int
) -> None:
    answer = client.call(body, extra=extra)
    assert (answer.http, answer.grpc, answer.data) == (200, code, b"")
    assert answer.headers["grpc-message"]
    assert not answer.trailers
    assert client.call().grpc == 0


def test_unknown_compression_is_unimplemented_and_names_what_is(client: Client) -> None:
    answer = client.call(framed(b"x", flag=1), extra=[("grpc-encoding", "gzip")])
    assert answer.grpc == 12
    assert answer.headers["grpc-accept-encoding"] == "identity"


def test_named_compression_that_is_not_used_is_legal(client: Client) -> None:
    assert client.call(extra=[("grpc-encoding", "gzip")]).grpc == 0


def test_too_long_message_is_refused_from_its_prefix(client: Client) -> None:
    stream = client.open()
    client.h2.send_data(stream, framed(b"", length=4 * MIB + 1))
    client.flush()
    answer = client.answer(stream)
    assert (answer.http, answer.grpc) == (200, 8)
    client.read_until(lambda: answer.reset is not None)
    assert answer.reset == 0
    assert client.call().grpc == 0


@pytest.mark.parametrize("path", [f"{ECHO}/", f"{ECHO}?x=1", ECHO.lower(), "/", f"{SERVICE}/No"])
def test_path_is_compared_whole(client: Client, path: str) -> None:
    answer = client.call(path=path)
    assert (answer.http, answer.grpc) == (200, 12)
    assert answer.headers["content-type"] == "application/grpc"


@pytest.mark.parametrize("kind", ["text/plain", "application/grpc-web", "application/grpcx", ""])
def test_other_content_types_are_415(client: Client, kind: str) -> None:
    answer = client.call(content_type=kind)
    assert (answer.http, "grpc-status" in answer.headers) == (415, False)


@pytest.mark.parametrize("kind", ["application/grpc+proto", "application/grpc;charset=utf-8"])
def test_content_type_may_have_a_suffix(client: Client, kind: str) -> None:
    assert client.call(content_type=kind).grpc == 0


def test_other_methods_are_405(client: Client) -> None:
    answer = client.call(method="GET")
    assert (answer.http, answer.headers["allow"]) == (405, "POST")


def test_missing_te_is_accepted(client: Client) -> None:
    assert client.call(drop=["te"]).grpc == 0


def test_bare_binary_metadata_is_accepted(client: Client) -> None:
    assert client.call(extra=[("x-trace-bin", "AAEC"), ("x-id-bin", "AA")]).grpc == 0


@pytest.mark.parametrize("value", ["123456789S", "5x", "", "S", "-1S", "1.5S"])
def test_malformed_timeout_is_internal(client: Client, value: str) -> None:
    assert client.call(extra=[("grpc-timeout", value)]).grpc == 13


def test_expired_timeout_never_reaches_the_service(client: Client) -> None:
    before = calls(client)
    for timeout in ("1n", "0S"):
        assert client.call(extra=[("grpc-timeout", timeout)]).grpc == 4
    assert calls(client) == before + 1


@pytest.mark.parametrize("value", ["99999999H", "20m", "5S"])
def test_generous_timeout_changes_nothing(client: Client, value: str) -> None:
    assert client.call(path=f"{SERVICE}/Later", extra=[("grpc-timeout", "2S")]).grpc == 0
    assert client.call(extra=[("grpc-timeout", value)]).grpc == 0


def test_timeout_is_kept_while_the_service_waits(client: Client) -> None:
    answer = client.call(path=f"{SERVICE}/Later", extra=[("grpc-timeout", "10m")])
    assert (answer.http, answer.grpc) == (200, 4)


def test_late_answers_do_not_hold_others_up(client: Client) -> None:
    later = client.open(f"{SERVICE}/Later")
    client.h2.send_data(later, framed(b"slow"), end_stream=True)
    assert client.call().grpc == 0
    assert not client.answers[later].is_ended
    assert client.answer(later).data == framed(b"slow")


def test_request_taken_back_at_once_never_reaches_the_service(client: Client) -> None:
    before = calls(client)
    stream = client.open()
    client.h2.send_data(stream, framed(b"hello"), end_stream=True)
    client.h2.reset_stream(stream, error_code=8)
    client.flush()
    assert calls(client) == before + 1


def test_panic_is_one_internal_answer(client: Client) -> None:
    answer = client.call(path=f"{SERVICE}/Panic")
    assert (answer.http, answer.grpc) == (200, 13)
    assert client.call().grpc == 0


def test_metadata_of_17_kib_passes_and_70_kib_is_431(client: Client) -> None:
    assert client.call(extra=[("x-large", "a" * 17 * 1024)]).grpc == 0
    refused = client.call(extra=[("x-large", "a" * 70 * 1024)])
    assert refused.http == 431
    assert client.call().grpc == 0
