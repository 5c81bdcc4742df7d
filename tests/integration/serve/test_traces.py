"""What a node sends to a collector, and what becomes of it where the collector fails.

The collector is a stand-in: see `tests.servers.collector`.
"""

import http.client
import json
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, request
from tests.contract.tls.certificates import Authority
from tests.servers.collector import Collector, attributes
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: posts, per: [user], rate: 1/h}
"""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
CHECK = {"domain": "shop", "descriptors": [{"user": "ada"}]}
_DROPPED = re.compile(r"^tidegate_spans_dropped_total (\d+)$", re.MULTILINE)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def node(folder: Path, url: str, *options: str) -> Tidegate:
    return Tidegate(POLICY, folder, options=("--otlp-endpoint", url, *options))


def check(node: Tidegate, traceparent: str, times: int = 1) -> list[dict[str, Any]]:
    """The decisions on some checks over one connection, one after another."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    headers = {"content-type": "application/json", "traceparent": traceparent}
    decisions = []
    for _ in range(times):
        connection.request("POST", "/v1/check", json.dumps(CHECK), headers)
        decisions.append(json.loads(connection.getresponse().read()))
    connection.close()
    return decisions


def dropped(node: Tidegate) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as answer:
        found = _DROPPED.search(answer.read().decode())
    assert found is not None
    return int(found[1])


def test_sampled_requests_of_both_doors_reach_the_collector_and_others_do_not(
    tmp_path: Path, collector: Collector
) -> None:
    with node(tmp_path, collector.url) as running:
        check(running, UNSAMPLED)
        (denied,) = check(running, SAMPLED)
        with grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
            call = channel.unary_unary(SHOULD_RATE_LIMIT)
            message = request([Descriptor([("user", "grace")])])
            for traceparent in (SAMPLED, UNSAMPLED):
                call(message, timeout=5, metadata=[("traceparent", traceparent)])
            call(message, timeout=5)
        wait_for(lambda: len(collector.spans()) >= 2, "the spans")
        assert dropped(running) == 0
    over_http, over_grpc = collector.spans()
    for span in (over_http, over_grpc):
        assert (span["traceId"], span["parentSpanId"]) == (TRACE, SPAN)
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert span["flags"] == 0x301
        start, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert 0 < end - start < 10**10
        assert abs(start / 10**9 - time.time()) < 60
    assert attributes(over_http) == {
        "http.request.method": "POST",
        "http.route": "/v1/check",
        "http.response.status_code": "200",
        "tidegate.store": "memory",
        "tidegate.domain": "shop",
        "tidegate.allowed": False,
        "tidegate.reason": "over_limit",
        "tidegate.limit": "posts",
        "tidegate.degraded": False,
        "tidegate.decision_id": denied["decision_id"],
    }
    told = attributes(over_grpc)
    assert (told["rpc.response.status_code"], told["tidegate.allowed"]) == ("OK", True)
    assert collector.paths == {"/v1/traces"}
    resource = collector.batches[0]["resourceSpans"][0]["resource"]
    assert attributes(resource)["service.name"] == "tidegate"
    text = json.dumps(collector.batches)
    assert "ada" not in text
    assert "grace" not in text


def test_what_waits_when_the_node_stops_is_still_sent(tmp_path: Path, collector: Collector) -> None:
    with node(tmp_path, collector.url) as running:
        check(running, SAMPLED, times=700)
        assert running.stop() == 0
    assert len(collector.spans()) == 700


def test_a_collector_is_sent_the_headers_that_it_wants(
    tmp_path: Path, collector: Collector
) -> None:
    headers = "authorization=Bearer%20s3same, x-team=limits"
    with node(tmp_path, collector.url, "--otlp-headers", headers) as running:
        check(running, SAMPLED)
        wait_for(collector.spans, "a span")
        assert "s3same" not in running.log()
    (sent,) = collector.headers
    assert (sent["authorization"], sent["x-team"]) == ("Bearer s3same", "limits")


def test_a_collector_with_a_certificate_is_sent_to_if_its_authority_is_trusted(
    tmp_path: Path,
) -> None:
    authority = Authority("collectors")
    ca = str(authority.write(tmp_path / "ca.pem"))
    with Collector(tls=authority.server().write(tmp_path, "collector")) as collector:
        with node(tmp_path, collector.url, "--otlp-ca", ca) as running:
            check(running, SAMPLED)
            wait_for(collector.spans, "a span")
        with node(tmp_path, collector.url) as running:
            check(running, SAMPLED)
            wait_for(lambda: dropped(running) == 1, "a span that is lost")
            wait_for(lambda: "certificate verify failed" in running.log(), "the log to say why")
        assert len(collector.spans()) == 1


def test_the_state_of_a_trace_is_handed_on(tmp_path: Path, collector: Collector) -> None:
    with node(tmp_path, collector.url) as running:
        metadata = [("traceparent", SAMPLED), ("tracestate", "rojo=1"), ("tracestate", "t=2")]
        with grpc.insecure_channel(f"127.0.0.1:{running.grpc_port}") as channel:
            message = request([Descriptor([("user", "grace")])])
            channel.unary_unary(SHOULD_RATE_LIMIT)(message, timeout=5, metadata=metadata)
        wait_for(collector.spans, "the span")
    (span,) = collector.spans()
    assert span["traceState"] == "rojo=1,t=2"


def test_a_dead_collector_costs_spans_alone(tmp_path: Path) -> None:
    with node(tmp_path, f"http://127.0.0.1:{closed_port()}") as running:
        decisions = check(running, SAMPLED, times=4000)
        assert len(decisions) == 4000
        assert all("decision_id" in decision for decision in decisions)
        wait_for(lambda: dropped(running) >= 4000 - 2048, "spans that find no room")
        wait_for(lambda: "collector fails" in running.log(), "the log to tell of it")
        assert running.stop() == 0
        assert running.log().count("collector fails") == 1


def test_a_collector_that_comes_back_is_sent_to_again(tmp_path: Path, collector: Collector) -> None:
    collector.status = 503
    with node(tmp_path, collector.url) as running:
        check(running, SAMPLED)
        wait_for(lambda: dropped(running) == 1, "a span that is lost")
        collector.status = 200
        check(running, SAMPLED)
        wait_for(collector.spans, "a span")
        wait_for(lambda: "collector answers" in running.log(), "the log to tell of it")
        assert 'reason="it answered 503"' in running.log()
        assert dropped(running) == 1


def test_a_collector_that_never_answers_holds_neither_requests_nor_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(10)
        with node(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}") as running:
            check(running, SAMPLED)
            asking, _ = silent.accept()
            with asking:
                assert len(check(running, SAMPLED, times=100)) == 100
                begun = time.monotonic()
                assert running.stop() == 0
                assert time.monotonic() - begun < 10


def test_without_a_collector_nothing_is_kept(tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path) as running:
        check(running, SAMPLED, times=3000)
        assert dropped(running) == 0
