"""Hostile messages at the rate limit service: the right status, and nobody else feels it."""

from collections.abc import Iterator
from random import Random

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.rls.wire import (
    SHOULD_RATE_LIMIT,
    Answer,
    Descriptor,
    answer,
    bytes_field,
    number_field,
    request,
)
from tests.servers.native import Native
from tests.servers.valkey import StoreServer

LARGEST = 2**53 - 1
POLICY = f"""
version: 1
domains:
  shop:
    limits:
      - {{id: search, per: [tenant], rate: 100/h, algorithm: fixed_window}}
      - {{id: largest, per: [big], rate: {LARGEST}/h, algorithm: fixed_window}}
      - {{id: after, per: [late], rate: {LARGEST}/h, algorithm: fixed_window, count_denied: true}}
"""
STATUS = grpc.StatusCode


@pytest.fixture(scope="module", params=["memory", "redis"])
def node(request: pytest.FixtureRequest, shared_valkey: StoreServer) -> Iterator[Native]:
    store = None if request.param == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/8"
    with Native(POLICY, store=store) as node:
        yield node


@pytest.fixture
def channel(node: Native) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(node.server.grpc_address) as channel:
        yield channel
        looked = ask(channel, request([Descriptor([("tenant", "other")], hits=0)]))
        assert looked.code == 1, "others are served all the while"


def ask(channel: grpc.Channel, message: bytes) -> Answer:
    return answer(channel.unary_unary(SHOULD_RATE_LIMIT)(message, timeout=10))


def refused(channel: grpc.Channel, message: bytes) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as failed:
        ask(channel, message)
    assert len(failed.value.details() or "") <= 1024
    return failed.value.code()


@pytest.mark.parametrize("cost", [2**53, 2**63, 2**64 - 1])
def test_a_cost_above_every_limit_is_denied_alike_in_both_stores(
    channel: grpc.Channel, cost: int
) -> None:
    told = ask(channel, request([Descriptor([("big", "x")], hits=cost)]))
    assert (told.code, told.statuses[0].remaining) == (2, 2**32 - 1)
    assert b"cost_exceeds_limit" in told.body


def test_the_largest_cost_of_a_request_fits_the_largest_limit(channel: grpc.Channel) -> None:
    told = ask(channel, request([Descriptor([("big", f"u32-{id(channel)}")])], hits=2**32 - 1))
    assert told.code == 1


def test_the_largest_cost_of_all_may_be_charged_after_the_fact(channel: grpc.Channel) -> None:
    key = f"late-{id(channel)}"
    told = ask(channel, request([Descriptor([("late", key)], hits=2**64 - 1)]))
    assert (told.code, told.statuses[0].remaining) == (2, 0)
    assert ask(channel, request([Descriptor([("late", key)], hits=0)])).code == 2


def test_a_negative_cost_needs_the_word_and_the_token(channel: grpc.Channel) -> None:
    refund = request([Descriptor([("tenant", "acme")], hits=5, is_negative=True)])
    assert refused(channel, refund) is STATUS.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (request([Descriptor([("tenant", "a")])], domain=""), STATUS.INVALID_ARGUMENT),
        (request([]), STATUS.INVALID_ARGUMENT),
        (b"", STATUS.INVALID_ARGUMENT),
        (request([Descriptor([("tenant", "a")])] * 100_000), STATUS.INVALID_ARGUMENT),
        (request([Descriptor([("k", "v")] * 140_000)]), STATUS.INVALID_ARGUMENT),
        (bytes_field(1, b"x" * 10_000_000), STATUS.RESOURCE_EXHAUSTED),
        (b"\x0a\xff", STATUS.INTERNAL),
        (b"\x07", STATUS.INTERNAL),
        (b"\x0b" * 1000, STATUS.INTERNAL),
        (b"\xff" * 20, STATUS.INTERNAL),
        (number_field(1, 5) + number_field(2, 5), STATUS.INVALID_ARGUMENT),
        (bytes_field(1, b"shop") + bytes_field(2, b"\x0a\x05ab"), STATUS.INTERNAL),
    ],
    ids=lambda it: repr(it[:24]) if isinstance(it, bytes) else "",
)
def test_what_is_no_question_has_its_status(
    channel: grpc.Channel, message: bytes, status: grpc.StatusCode
) -> None:
    assert refused(channel, message) is status


def test_a_hundred_thousand_entries_are_one_descriptor(channel: grpc.Channel) -> None:
    entries = [(f"k{number}", "v") for number in range(100_000)]
    told = ask(channel, request([Descriptor([("tenant", f"wide-{id(channel)}"), *entries])]))
    assert told.statuses[0].remaining == 99


def test_bytes_that_are_no_text_and_repeated_keys_are_counted(channel: grpc.Channel) -> None:
    mine = f"{id(channel)}".encode()
    for value, left in ((b"\xff\xfe", 99), (b"\xff\xfd", 99), (b"\xff\xfe", 98)):
        told = ask(channel, request([Descriptor([("tenant", value + mine), ("tenant", "b")])]))
        assert told.statuses[0].remaining == left
    assert ask(channel, request([Descriptor([("tenant", "a")])], domain="nope")).code == 1
    assert ask(channel, bytes_field(1, b"\xff\xfe") + bytes_field(2, b"")).code == 1


def test_random_and_truncated_messages_never_stop_the_server(channel: grpc.Channel) -> None:
    rng = Random(5)
    whole = request([Descriptor([("tenant", "fuzz"), ("route", "/x")], hits=3)], hits=7)
    call = channel.unary_unary(SHOULD_RATE_LIMIT)
    allowed = {STATUS.INTERNAL, STATUS.INVALID_ARGUMENT, STATUS.PERMISSION_DENIED}
    for number in range(600):
        if number < len(whole):
            message = whole[:number]
        else:
            mutable = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                mutable[rng.randrange(len(mutable))] = rng.randrange(256)
            message = bytes(mutable)
        try:
            call(message, timeout=10)
        except grpc.RpcError as error:
            assert error.code() in allowed, (message, error.details())  # noqa: PT017
