"""The same transport seen by grpcio, the client library of most callers."""

from collections.abc import Iterator

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.grpc_transport.floor import SERVICE, Floor


@pytest.fixture
def channel(floor: Floor) -> Iterator[grpc.Channel]:
    """A channel to the server."""
    with grpc.insecure_channel(f"127.0.0.1:{floor.port}") as opened:
        yield opened


def call(channel: grpc.Channel, method: str, message: bytes, **options: object) -> bytes:
    """One unary call with bytes in and out."""
    answer: bytes = channel.unary_unary(f"{SERVICE}/{method}")(message, timeout=5, **options)
    return answer


def test_unary_call(channel: grpc.Channel) -> None:
    assert call(channel, "Echo", b"hello") == b"hello"
    assert call(channel, "Echo", b"") == b""


def test_gzip_with_a_short_message(channel: grpc.Channel) -> None:
    assert call(channel, "Echo", b"hello", compression=grpc.Compression.Gzip) == b"hello"


def test_gzip_with_a_long_message_is_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call(channel, "Echo", b"a" * 5000, compression=grpc.Compression.Gzip)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_error_text_keeps_its_characters(channel: grpc.Channel) -> None:
    text = "Grenze überschritten: 100 % von 5 €\n\t☂"
    with pytest.raises(grpc.RpcError) as refused:
        call(channel, "Fail", text.encode())
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == text


def test_binary_metadata(channel: grpc.Channel) -> None:
    assert call(channel, "Echo", b"x", metadata=[("x-id-bin", b"\0\xff\xfe")]) == b"x"


def test_message_over_the_limit(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        call(channel, "Echo", bytes((4 << 20) + 1))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_stream_lives_until_it_is_cancelled(channel: grpc.Channel) -> None:
    stream = channel.unary_stream(f"{SERVICE}/Watch")(b"first")
    assert next(stream) == b"first"
    stream.cancel()
    assert call(channel, "Echo", b"after") == b"after"


def test_many_calls_at_once(channel: grpc.Channel) -> None:
    echo, later = (channel.unary_unary(f"{SERVICE}/{method}") for method in ("Echo", "Later"))
    calls = [method.future(b"%d" % n, timeout=5) for n in range(300) for method in (echo, later)]
    assert [future.result() for future in calls] == [b"%d" % n for n in range(300) for _ in "ab"]
