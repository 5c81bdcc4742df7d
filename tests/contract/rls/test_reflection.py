"""What a client that knows nothing of the protocol learns, and that it can then ask."""

from collections.abc import Iterator, Sequence
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf.descriptor_pool import (  # type: ignore[import-untyped]
    DescriptorPool,
)
from google.protobuf.message_factory import (  # type: ignore[import-untyped]
    GetMessageClass,
)
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (  # type: ignore[import-untyped]
    ProtoReflectionDescriptorDatabase,
)

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, bytes_field, fields
from tests.servers.native import Native
from tools.descriptors import DESCRIPTORS, descriptor_set

POLICY = """
version: 1
domains:
  shop:
    limits:
      - {id: search, per: [tenant], rate: 3/min, algorithm: fixed_window}
"""
SERVICES = [
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
]
RLS = "envoy.service.ratelimit.v3"


@pytest.fixture
def node() -> Iterator[Native]:
    with Native(POLICY) as node:
        yield node


@pytest.fixture
def channel(node: Native) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(node.server.grpc_address) as channel:
        yield channel


def ask(channel: grpc.Channel, questions: Sequence[bytes], version: str = "v1") -> list[bytes]:
    call = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    )
    return list(call(iter(questions), timeout=10))


def test_the_descriptors_are_those_that_the_tool_writes() -> None:
    assert DESCRIPTORS.read_bytes() == descriptor_set(), "run: python tools/descriptors.py"


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_services_are_listed_in_both_versions(channel: grpc.Channel, version: str) -> None:
    (answer,) = ask(channel, [bytes_field(7, b"")], version)
    (listed,) = (value for number, value in fields(answer) if number == 6)
    assert isinstance(listed, bytes)
    names = [dict(fields(one)).get(1) for _, one in fields(listed) if isinstance(one, bytes)]
    assert names == [name.encode() for name in SERVICES]


def test_a_stream_carries_many_questions_and_unknown_ones_do_not_end_it(
    channel: grpc.Channel,
) -> None:
    questions = [
        bytes_field(4, b"nobody.knows"),
        bytes_field(3, b"nowhere.proto"),
        bytes_field(5, b""),
        bytes_field(6, b"nobody.knows"),
        b"",
        bytes_field(7, b""),
    ]
    answers = [dict(fields(answer)) for answer in ask(channel, questions)]
    errors = [answer[7] for answer in answers[:-1]]
    codes = [dict(fields(error))[1] for error in errors if isinstance(error, bytes)]
    assert codes == [5, 5, 5, 5, 3]
    assert 6 in answers[-1]
    assert [answer[2] for answer in answers] == questions, "each names its question"


def test_a_question_that_is_none_ends_the_stream_with_a_status(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        ask(channel, [b"\xff\xff"])
    assert failed.value.code() is grpc.StatusCode.INTERNAL
    with pytest.raises(grpc.RpcError) as failed:
        ask(channel, [bytes_field(4, b"x" * 100_000)])
    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_a_client_describes_and_calls_by_reflection_alone(channel: grpc.Channel) -> None:
    database = ProtoReflectionDescriptorDatabase(channel)
    assert sorted(database.get_services()) == SERVICES
    pool: Any = DescriptorPool(database)
    method = pool.FindServiceByName(SERVICES[0]).FindMethodByName("ShouldRateLimit")
    assert (method.input_type.full_name, method.output_type.full_name) == (
        f"{RLS}.RateLimitRequest",
        f"{RLS}.RateLimitResponse",
    )
    request = GetMessageClass(method.input_type)(domain="shop")
    descriptor = request.descriptors.add()
    descriptor.entries.add(key="tenant", value="acme")
    descriptor.hits_addend.value = 2
    response = GetMessageClass(method.output_type)
    call = channel.unary_unary(SHOULD_RATE_LIMIT)
    told = response.FromString(call(request.SerializeToString(), timeout=10))
    (status,) = told.statuses
    assert told.overall_code == status.code == 1
    assert (status.current_limit.name, status.current_limit.requests_per_unit) == ("search", 3)
    assert (status.limit_remaining, status.duration_until_reset.seconds) == (1, 60)
    denied = response.FromString(call(request.SerializeToString(), timeout=10))
    assert denied.overall_code == 2
    assert denied.dynamic_metadata.fields["reason"].string_value == "over_limit"
    assert {header.key for header in denied.response_headers_to_add} >= {"retry-after"}


def test_every_import_of_every_file_resolves(channel: grpc.Channel) -> None:
    database = ProtoReflectionDescriptorDatabase(channel)
    pool: Any = DescriptorPool(database)
    for service in SERVICES:
        file = pool.FindFileContainingSymbol(service)
        left = [file]
        while left:
            one = left.pop()
            assert pool.FindFileByName(one.name)
            left.extend(one.dependencies)
