"""The messages of the service, written and read by hand: PyPI's protos lack the newest fields."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SHOULD_RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A descriptor; `hits` are its own, 0 looks, None leaves them to the request.

    `limit` is one that it brings: requests, and the number of their unit.
    """

    entries: Sequence[tuple[str | bytes, str | bytes]]
    hits: int | None = None
    is_negative: bool = False
    limit: tuple[int, int] | None = None

    def encode(self) -> bytes:
        out = b""
        for key, value in self.entries:
            pair = (it.encode() if isinstance(it, str) else it for it in (key, value))
            fields = (bytes_field(number, text) for number, text in enumerate(pair, start=1))
            out += bytes_field(1, b"".join(fields))
        if self.limit is not None:
            requests, unit = self.limit
            out += bytes_field(2, number_field(1, requests) + number_field(2, unit))
        if self.hits is not None:
            out += bytes_field(3, number_field(1, self.hits) if self.hits else b"")
        return out + (number_field(4, 1) if self.is_negative else b"")


def request(descriptors: Sequence[Descriptor], domain: str = "shop", hits: int = 0) -> bytes:
    """A RateLimitRequest."""
    body = bytes_field(1, domain.encode())
    body += b"".join(bytes_field(2, descriptor.encode()) for descriptor in descriptors)
    return body + (number_field(3, hits) if hits else b"")


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of numbers, texts and messages."""
    at = 0

    def read() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = read()
        number = read()
        if tag & 7 == 0:
            yield tag >> 3, number
        else:
            assert tag & 7 == 2, tag
            yield tag >> 3, message[at : at + number]
            at += number


@dataclass(slots=True)
class Status:
    """A DescriptorStatus."""

    code: int = 0
    has_limit: bool = False
    name: str = ""
    remaining: int = 0
    reset_s: int = 0


@dataclass(slots=True)
class Answer:
    """A RateLimitResponse."""

    code: int = 0
    statuses: list[Status] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def answer(message: bytes) -> Answer:
    """Reads a RateLimitResponse."""
    read = Answer()
    for number, value in fields(message):
        if isinstance(value, int):
            read.code = value
        elif number == 2:
            read.statuses.append(_status(value))
        elif number == 3:
            header = dict(fields(value))
            read.headers[_text(header[1])] = _text(header[2])
        elif number == 5:
            read.body = value
    return read


def _status(message: bytes) -> Status:
    status = Status()
    for number, value in fields(message):
        if number == 1 and isinstance(value, int):
            status.code = value
        elif number == 2 and isinstance(value, bytes):
            status.has_limit, status.name = True, _text(dict(fields(value))[3])
        elif number == 3 and isinstance(value, int):
            status.remaining = value
        elif number == 4 and isinstance(value, bytes):
            seconds = dict(fields(value)).get(1, 0)
            assert isinstance(seconds, int)
            status.reset_s = seconds
    return status


def _text(value: int | bytes) -> str:
    assert isinstance(value, bytes)
    return value.decode()
