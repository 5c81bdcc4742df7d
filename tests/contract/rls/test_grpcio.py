"""A stock gRPC client asks: grpcio."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request
from tests.servers.native import TOKEN, Native
from tests.servers.process import wait_for
from tests.servers.valkey import StoreServer

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, per: [tenant], rate: 100/min, algorithm: %s}
"""

Call = Callable[..., bytes]


@pytest.fixture(params=["memory", "redis"])
def store(request: pytest.FixtureRequest, shared_valkey: StoreServer) -> str | None:
    return None if request.param == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/9"


@pytest.fixture(params=["token_bucket", "fixed_window", "sliding_window", "sliding_log"])
def node(request: pytest.FixtureRequest, store: str | None) -> Iterator[Native]:
    with Native(POLICY % request.param, store=store) as node:
        body = {"domain": "shop", "descriptors": [{"tenant": "acme"}]}
        # A node starts before it has reached its store, and says so until then.
        wait_for(lambda: node.post("/v1/reset", body, TOKEN).status == 200, "the store")
        yield node


@pytest.fixture
def bucket() -> Iterator[Native]:
    with Native(POLICY % "token_bucket") as node:
        yield node


def call_on(channel: grpc.Channel) -> Call:
    """The method on raw bytes."""
    call: Call = channel.unary_unary(SHOULD_RATE_LIMIT)
    return call


def acme(**more: int | bool) -> list[Descriptor]:
    hits, is_negative = more.get("hits"), bool(more.get("is_negative", False))
    return [Descriptor([("tenant", "acme")], hits=hits, is_negative=is_negative)]


def test_answers_count_down_to_zero_and_then_deny_b53(node: Native) -> None:
    with grpc.insecure_channel(node.server.grpc_address) as channel:
        call = call_on(channel)
        answers = [answer(call(request(acme()), timeout=5)) for _ in range(110)]
    assert [it.statuses[0].remaining for it in answers] == [*range(99, -1, -1), *[0] * 10]
    assert [it.code for it in answers] == [1] * 100 + [2] * 10
    assert all(int(it.headers["retry-after"]) >= 1 for it in answers[100:])
    assert all(it.headers["content-type"] == "application/problem+json" for it in answers[100:])


def test_in_parallel_every_remaining_value_is_told_once_b53(node: Native) -> None:
    with grpc.insecure_channel(node.server.grpc_address) as channel:
        call, message = call_on(channel), request(acme())
        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(call, message, timeout=5) for _ in range(150)]
            answers = [answer(future.result()) for future in futures]
    passed = [it.statuses[0].remaining for it in answers if it.code == 1]
    assert sorted(passed) == list(range(100))
    assert {it.statuses[0].remaining for it in answers if it.code == 2} == {0}


def test_refund_and_lowered_limit_keep_remaining_within_bounds_b53(node: Native) -> None:
    admin = (("authorization", f"Bearer {TOKEN}"),)
    with grpc.insecure_channel(node.server.grpc_address) as channel:
        call = call_on(channel)
        call(request(acme(hits=60)), timeout=5)
        refund = request(acme(hits=500, is_negative=True))
        assert answer(call(refund, metadata=admin, timeout=5)).statuses[0].remaining == 100
        assert answer(call(request(acme(hits=80)), timeout=5)).statuses[0].remaining == 20


def test_statuses_and_texts_survive_the_trip(bucket: Native) -> None:
    with grpc.insecure_channel(bucket.server.grpc_address) as channel:
        call = call_on(channel)
        with pytest.raises(grpc.RpcError) as caught:
            call(request([], domain="shop"), timeout=5)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "descriptors" in caught.value.details()
        with pytest.raises(grpc.RpcError) as caught:
            call(request(acme(is_negative=True)), timeout=5)
        assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED


def test_value_that_is_no_utf8_is_a_key_of_its_own(bucket: Native) -> None:
    with grpc.insecure_channel(bucket.server.grpc_address) as channel:
        call = call_on(channel)
        for value in (b"\xff\xfe", b"\xff", "ÿþ".encode()):
            message = request([Descriptor([("tenant", value)], hits=100)])
            assert [answer(call(message, timeout=5)).code for _ in range(2)] == [1, 2]


def test_health_is_told_to_a_stock_client(bucket: Native) -> None:
    with grpc.insecure_channel(bucket.server.grpc_address) as channel:
        check: Call = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"", timeout=5) == b"\x08\x01"
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=5)
        assert next(watch) == b"\x08\x01"
        watch.cancel()
