"""Writes what gRPC reflection tells: the descriptors of the messages that are spoken here.

`descriptors.py` writes crates/server/src/grpc/reflection/descriptors.bin, a `FileDescriptorSet`,
`descriptors.py --check` fails if it differs from that. The protocols (names, numbers and types) are
those of Envoy's API 1.40, gRPC's health and reflection, and protobuf's well-known types; written
down here are the messages that a caller may meet, without options and annotations, so that every
import is one of these files. Imports follow from the types used.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

DESCRIPTORS = Path(__file__).parents[1] / "crates/server/src/grpc/reflection/descriptors.bin"

SOURCE = """\
file google/protobuf/duration.proto google.protobuf
message Duration
  1 seconds int64
  2 nanos int32

file google/protobuf/timestamp.proto google.protobuf
message Timestamp
  1 seconds int64
  2 nanos int32

file google/protobuf/wrappers.proto google.protobuf
message UInt64Value
  1 value uint64
message UInt32Value
  1 value uint32

file google/protobuf/struct.proto google.protobuf
enum NullValue
  0 NULL_VALUE
message Struct
  1 fields map google.protobuf.Value
message Value
  oneof kind
  1 null_value google.protobuf.NullValue
  2 number_value double
  3 string_value string
  4 bool_value bool
  5 struct_value google.protobuf.Struct
  6 list_value google.protobuf.ListValue
message ListValue
  1 values repeated google.protobuf.Value

file envoy/type/v3/ratelimit_unit.proto envoy.type.v3
enum RateLimitUnit
  0 UNKNOWN
  1 SECOND
  2 MINUTE
  3 HOUR
  4 DAY
  5 MONTH
  6 YEAR

file envoy/config/core/v3/base.proto envoy.config.core.v3
message HeaderValue
  1 key string
  2 value string
  3 raw_value bytes

file envoy/extensions/common/ratelimit/v3/ratelimit.proto envoy.extensions.common.ratelimit.v3
message RateLimitDescriptor
  1 entries repeated .Entry
  2 limit .RateLimitOverride
  3 hits_addend google.protobuf.UInt64Value
  4 is_negative_hits bool
message RateLimitDescriptor.Entry
  1 key string
  2 value string
message RateLimitDescriptor.RateLimitOverride
  1 requests_per_unit uint32
  2 unit envoy.type.v3.RateLimitUnit
  3 unit_multiplier google.protobuf.UInt32Value

file envoy/service/ratelimit/v3/rls.proto envoy.service.ratelimit.v3
service RateLimitService
  ShouldRateLimit envoy.service.ratelimit.v3.RateLimitRequest \
envoy.service.ratelimit.v3.RateLimitResponse
message RateLimitRequest
  1 domain string
  2 descriptors repeated envoy.extensions.common.ratelimit.v3.RateLimitDescriptor
  3 hits_addend uint32
message RateLimitResponse
  1 overall_code .Code
  2 statuses repeated .DescriptorStatus
  3 response_headers_to_add repeated envoy.config.core.v3.HeaderValue
  4 request_headers_to_add repeated envoy.config.core.v3.HeaderValue
  5 raw_body bytes
  6 dynamic_metadata google.protobuf.Struct
  7 quota .Quota
enum RateLimitResponse.Code
  0 UNKNOWN
  1 OK
  2 OVER_LIMIT
message RateLimitResponse.RateLimit
  1 requests_per_unit uint32
  2 unit .Unit
  3 name string
  4 unit_multiplier google.protobuf.UInt32Value
enum RateLimitResponse.RateLimit.Unit
  0 UNKNOWN
  1 SECOND
  2 MINUTE
  3 HOUR
  4 DAY
  5 MONTH
  6 YEAR
  7 WEEK
message RateLimitResponse.Quota
  oneof expiration_specifier
  2 valid_until google.protobuf.Timestamp
  oneof -
  1 requests uint32
  3 id string
message RateLimitResponse.DescriptorStatus
  1 code envoy.service.ratelimit.v3.RateLimitResponse.Code
  2 current_limit envoy.service.ratelimit.v3.RateLimitResponse.RateLimit
  3 limit_remaining uint32
  4 duration_until_reset google.protobuf.Duration
  5 quota envoy.service.ratelimit.v3.RateLimitResponse.Quota

file grpc/health/v1/health.proto grpc.health.v1
service Health
  Check grpc.health.v1.HealthCheckRequest grpc.health.v1.HealthCheckResponse
  Watch grpc.health.v1.HealthCheckRequest stream grpc.health.v1.HealthCheckResponse
message HealthCheckRequest
  1 service string
message HealthCheckResponse
  1 status .ServingStatus
enum HealthCheckResponse.ServingStatus
  0 UNKNOWN
  1 SERVING
  2 NOT_SERVING
  3 SERVICE_UNKNOWN
"""

REFLECTION = """
file grpc/reflection/{version}/reflection.proto grpc.reflection.{version}
service ServerReflection
  ServerReflectionInfo stream grpc.reflection.{version}.ServerReflectionRequest \
stream grpc.reflection.{version}.ServerReflectionResponse
message ServerReflectionRequest
  1 host string
  oneof message_request
  3 file_by_filename string
  4 file_containing_symbol string
  5 file_containing_extension grpc.reflection.{version}.ExtensionRequest
  6 all_extension_numbers_of_type string
  7 list_services string
message ExtensionRequest
  1 containing_type string
  2 extension_number int32
message ServerReflectionResponse
  1 valid_host string
  2 original_request grpc.reflection.{version}.ServerReflectionRequest
  oneof message_response
  4 file_descriptor_response grpc.reflection.{version}.FileDescriptorResponse
  5 all_extension_numbers_response grpc.reflection.{version}.ExtensionNumberResponse
  6 list_services_response grpc.reflection.{version}.ListServiceResponse
  7 error_response grpc.reflection.{version}.ErrorResponse
message FileDescriptorResponse
  1 file_descriptor_proto repeated bytes
message ExtensionNumberResponse
  1 base_type_name string
  2 extension_number repeated int32
message ListServiceResponse
  1 service repeated grpc.reflection.{version}.ServiceResponse
message ServiceResponse
  1 name string
message ErrorResponse
  1 error_code int32
  2 error_message string
"""

SCALARS = {
    "double": 1,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
MESSAGE, ENUM = 11, 14
OPTIONAL, REPEATED = 1, 3


@dataclass
class Type:
    """A message or an enum: its lines, and what lies inside of it."""

    name: str
    is_enum: bool
    lines: list[list[str]] = field(default_factory=list)
    inner: list["Type"] = field(default_factory=list)


@dataclass
class File:
    """One file: where it lies, its package and what it declares."""

    path: str
    package: str
    types: dict[str, Type] = field(default_factory=dict)
    services: dict[str, list[list[str]]] = field(default_factory=dict)


def main() -> int:
    """Writes the set, or compares it."""
    data = descriptor_set()
    if "--check" in sys.argv[1:]:
        return 0 if DESCRIPTORS.read_bytes() == data else 1
    DESCRIPTORS.write_bytes(data)
    return 0


def descriptor_set() -> bytes:
    """All files, each after those that it imports."""
    source = SOURCE + "".join(REFLECTION.format(version=version) for version in ("v1", "v1alpha"))
    files = list(_files(source))
    homes = {f"{file.package}.{name}": file for file in files for name in file.types}
    return b"".join(_bytes(1, _file(file, homes)) for file in files)


def _files(source: str) -> Iterator[File]:
    for part in source.split("file ")[1:]:
        head, *lines = [line.split() for line in part.splitlines() if line.strip()]
        file = File(head[0], head[1])
        rows: list[list[str]] = []
        for kind, *rest in lines:
            if kind == "service":
                rows = file.services.setdefault(rest[0], [])
            elif kind in {"message", "enum"}:
                declared = file.types[rest[0]] = Type(rest[0].rpartition(".")[2], kind == "enum")
                rows = declared.lines
            else:
                rows.append([kind, *rest])
        for name, declared in file.types.items():
            outer = name.rpartition(".")[0]
            if outer:
                file.types[outer].inner.append(declared)
        yield file


def _file(file: File, homes: dict[str, File]) -> bytes:
    used: dict[str, None] = {}
    outermost = [(name, one) for name, one in file.types.items() if "." not in name]
    body = b""
    for name, one in outermost:
        if not one.is_enum:
            body += _bytes(4, _message(one, f"{file.package}.{name}", homes, used))
    body += b"".join(_bytes(5, _enum(one)) for _, one in outermost if one.is_enum)
    for service, methods in file.services.items():
        body += _bytes(6, _text(1, service) + b"".join(_bytes(2, _method(*row)) for row in methods))
    imports = [path for path in used if path != file.path]
    head = _text(1, file.path) + _text(2, file.package) + b"".join(_text(3, it) for it in imports)
    return head + body + _text(12, "proto3")


def _message(one: Type, whole: str, homes: dict[str, File], used: dict[str, None]) -> bytes:
    out, inner = _text(1, one.name), b""
    choices: list[str] = []
    choice: int | None = None
    for number, *words in one.lines:
        if number == "oneof":
            choice = None if words == ["-"] else len(choices)
            choices += words if choice is not None else []
            continue
        name, kind = words[0], words[-1]
        if kind.startswith("."):
            kind = whole + kind
        label = REPEATED if {"repeated", "map"} & set(words[1:-1]) else OPTIONAL
        if "map" in words[1:-1]:
            entry = Type(
                f"{name.title()}Entry", False, [["1", "key", "string"], ["2", "value", kind]]
            )
            encoded = _message(entry, f"{whole}.{entry.name}", homes, used)
            inner += _bytes(3, encoded + _bytes(7, _int(7, 1)))
            reference = _int(5, MESSAGE) + _text(6, f".{whole}.{entry.name}")
        elif kind in SCALARS:
            reference = _int(5, SCALARS[kind])
        else:
            home = homes[kind]
            used[home.path] = None
            declared = home.types[kind.removeprefix(f"{home.package}.")]
            reference = _int(5, ENUM if declared.is_enum else MESSAGE) + _text(6, f".{kind}")
        head = _text(1, name) + _int(3, int(number)) + _int(4, label)
        tail = b"" if choice is None else _int(9, choice)
        out += _bytes(2, head + reference + tail + _text(10, _json_name(name)))
    for nested in one.inner:
        if nested.is_enum:
            inner += _bytes(4, _enum(nested))
        else:
            inner += _bytes(3, _message(nested, f"{whole}.{nested.name}", homes, used))
    return out + inner + b"".join(_bytes(8, _text(1, name)) for name in choices)


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _enum(one: Type) -> bytes:
    values = (_text(1, name) + _int(2, int(number)) for number, name in one.lines)
    return _text(1, one.name) + b"".join(_bytes(2, value) for value in values)


def _method(name: str, *words: str) -> bytes:
    types = [f".{word}" for word in words if word != "stream"]
    streams_in, streams_out = words[0] == "stream", words[-2] == "stream"
    flags = (_int(5, 1) if streams_in else b"") + (_int(6, 1) if streams_out else b"")
    return _text(1, name) + _text(2, types[0]) + _text(3, types[1]) + flags


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def _tag(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _int(number: int, value: int) -> bytes:
    return _tag(number, 0) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _tag(number, 2) + _varint(len(value)) + value


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


if __name__ == "__main__":
    sys.exit(main())
