"""Hostile bytes at the HTTP door: the right status, nothing charged, and nobody else feels it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.http.raw import Raw, post, statuses
from tests.servers.native import Native

POLICY = """
version: 1
domains:
  shop:
    limits:
      - {id: search, per: [tenant], rate: 1000/h, algorithm: fixed_window}
      - {id: largest, per: [big], rate: 9007199254740991/h, algorithm: fixed_window}
"""
CLOSE = "connection: close"
CHECK = {"domain": "shop", "descriptors": [{"tenant": "acme"}]}


@pytest.fixture(scope="module")
def node() -> Iterator[Native]:
    with Native(POLICY) as node:
        yield node


@pytest.fixture(autouse=True)
def others_are_served(node: Native) -> Iterator[None]:
    yield
    assert node.check({"tenant": "other"})["allowed"]


def answer(node: Native, *parts: bytes) -> tuple[list[int], bytes]:
    """Sends these bytes and then no more; what comes back until the server closes."""
    with Raw(node.server.http_address) as raw:
        raw.send(*parts)
        received = raw.until_closed()
        return statuses(received), received


def body(**changes: object) -> bytes:
    return json.dumps({**CHECK, **changes}).encode()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        body().replace(b"acme", b"\xff\xfe"),
        body().replace(b"acme", b"\\ud800"),
        body()[:-1] + b', "domain": "other"}',
        body(descriptors=[{"tenant": ["acme"]}]),
        body(descriptors=[{"tenant": {"a": 1}}]),
        body(descriptors=[]),
        body(descriptors=[[]]),
        body(descriptors="acme"),
        body(domain=""),
        body(domain=5),
        body(cost=-1),
        body(cost=1.5),
        body(cost="1"),
        body(cost=2**64),
        body(cost={"tokens": -1}),
        body(nonsense=1),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        body(descriptors=[{"tenant": "acme"}] * 100_000)[: 1 << 20],
    ],
    ids=lambda sent: repr(sent[:48]),
)
def test_a_body_that_is_no_question_is_a_400_that_says_why(node: Native, sent: bytes) -> None:
    codes, received = answer(node, post("/v1/check", sent, CLOSE))
    assert codes == [400], received[:500]
    assert b"application/problem+json" in received
    assert len(received) < 4096, "a long mistake makes no long answer"


@pytest.mark.parametrize("cost", [2**53, 2**63, 2**64 - 1])
def test_a_cost_above_all_limits_is_denied_and_takes_nothing(node: Native, cost: int) -> None:
    sent = body(descriptors=[{"big": "x"}], cost=cost)
    codes, received = answer(node, post("/v1/check", sent, CLOSE))
    if codes == [200]:
        decision = json.loads(received.partition(b"\r\n\r\n")[2])
        assert (decision["allowed"], decision["reason"]) == (False, "cost_exceeds_limit")
    else:
        assert codes == [400]
    assert node.check({"big": "x"}, cost=0)["limits"][0]["remaining"] == 2**53 - 1


def test_repeated_keys_and_unknown_domains_are_no_way_around_a_limit(node: Native) -> None:
    twice = b'{"domain": "shop", "descriptors": [{"tenant": "dup", "tenant": "else"}]}'
    codes, received = answer(node, post("/v1/check", twice, CLOSE))
    assert codes == [400], received
    codes, received = answer(node, post("/v1/check", body(domain="nope"), CLOSE))
    assert codes == [200]


def test_ten_megabytes_are_refused_before_they_are_read(node: Native) -> None:
    before = resident_kib()
    for framing in ("content-length: 10485760", "transfer-encoding: chunked"):
        head = post("/v1/check", b"", framing)
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n" if "chunked" in framing else b" " * 65536
        codes, _ = answer(node, head, *[chunk] * 160)
        assert codes in ([413], []), "an answer may be lost with the connection"
    assert resident_kib() - before < 20_000


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        post("/v1/check", body(), f"content-length: {len(body())}", "content-length: 4"),
        post("/v1/check", body(), f"content-length: {len(body())}, 4"),
        post("/v1/check", body(), "content-length: +5"),
        post("/v1/check", body(), "content-length: -1"),
        post("/v1/check", body(), "content-length: 0x10"),
        post("/v1/check", body(), "content-length: 99999999999999999999"),
        post("/v1/check", b"zz\r\n" + body() + b"\r\n0\r\n\r\n", "transfer-encoding: chunked"),
        post("/v1/check", b"-1\r\n\r\n0\r\n\r\n", "transfer-encoding: chunked"),
        post("/v1/check", b"ffffffffffffffffff\r\nx", "transfer-encoding: chunked"),
        post("/v1/check", b"5\r\nabcdefgh\r\n0\r\n\r\n", "transfer-encoding: chunked"),
        post("/v1/check", b"0\r\n\r\n", "transfer-encoding: gzip"),
        post("/v1/check", b"0\r\n\r\n", "transfer-encoding: chunked, identity"),
        post("/v1/check", b"0\r\n\r\n", "transfer-encoding: xchunked"),
        post("/v1/check", body(), "content-length : 5"),
        b"POST /v1/check HTTP/1.1\r\nhost: x\r\n content-length: 5\r\n\r\nabcde",
        b"POST /v1/check HTTP/1.1\nhost: x\r\ncontent\x00-length: 5\r\n\r\n",
        b"GET  /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"\r\n" * 1000 + b"nonsense\r\n\r\n",
    ],
    ids=lambda sent: repr(sent[60:140]),
)
def test_no_second_request_hides_behind_a_broken_one(node: Native, request_bytes: bytes) -> None:
    codes, received = answer(node, request_bytes, SMUGGLED)
    assert len(codes) <= 1, received
    assert all(400 <= code < 500 or code == 501 for code in codes), received


def test_of_two_kinds_of_length_the_chunks_count_or_the_request_is_refused(node: Native) -> None:
    sent = body()
    chunked = f"{len(sent):x}\r\n".encode() + sent + b"\r\n0\r\n\r\n"
    both = post("/v1/check", chunked, "transfer-encoding: chunked", "content-length: 4", CLOSE)
    codes, received = answer(node, both, SMUGGLED)
    assert codes in ([200], [400]), received


def test_headers_have_bounds(node: Native) -> None:
    many = [f"x-{number}: y" for number in range(1000)]
    codes, _ = answer(node, post("/v1/check", body(), CLOSE, *many))
    assert codes == [431]
    codes, _ = answer(node, post("/v1/check", body(), "x: " + "y" * 1_000_000))
    assert codes in ([431], [])
    line = b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    codes, _ = answer(node, line)
    assert codes in ([414], [431], [404], [])


def test_pipelined_requests_are_answered_in_order(node: Native) -> None:
    count = 200
    sent = post("/v1/check", body(descriptors=[{"tenant": "pipe"}]))
    with Raw(node.server.http_address) as raw:
        raw.send(sent * count)
        assert raw.statuses_until(count) == [200] * count
    assert node.check({"tenant": "pipe"}, cost=0)["limits"][0]["remaining"] == 1000 - count


def test_slow_and_silent_connections_cost_the_others_nothing(node: Native) -> None:
    slow = [Raw(node.server.http_address).__enter__() for _ in range(300)]
    try:
        for at, raw in enumerate(slow):
            raw.send([b"", b"P", post("/v1/check", b"{", "content-length: 99")][at % 3])
        began = time.monotonic()
        for _ in range(50):
            assert node.check({"tenant": "busy"})["allowed"]
        assert time.monotonic() - began < 5
        for raw in slow[1::3][:3] + slow[2::3][:3]:
            raw.socket.settimeout(30)
            codes = statuses(raw.until_closed())
            assert codes in ([], [408], [400]), "cut once its time is over"
    finally:
        for raw in slow:
            raw.socket.close()


def resident_kib() -> int:
    """Memory of this process, in which the server runs."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
