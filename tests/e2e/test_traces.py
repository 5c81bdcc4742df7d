"""A trace goes from the client through Envoy to Tidegate: its span is a child of Envoy's."""

from typing import Any

from tests.e2e.bootstrap import add_tracing, ask_for_each_request, from_header
from tests.e2e.conftest import StartGateway
from tests.servers.collector import Collector, attributes
from tests.servers.process import wait_for

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: per-tenant, per: [tenant], rate: 1/h}
"""
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_sampled_trace_goes_on_and_one_that_is_not_ends_at_envoy(
    start_gateway: StartGateway,
) -> None:
    with Collector() as collector:

        def configure(config: dict[str, Any]) -> None:
            ask_for_each_request(config, {"actions": [from_header("x-tenant", "tenant")]})
            add_tracing(config, collector.port)

        options = ("--otlp-endpoint", collector.url)
        gateway = start_gateway(POLICY, configure, options=options)
        parents = [f"00-{TRACE}-{SPAN}-{flags}" for flags in ("00", "01")]
        answers = [gateway.get(x_tenant="acme", traceparent=parent) for parent in parents]
        assert [answer.status for answer in answers] == [200, 429]
        wait_for(collector.spans, "the span")
        assert gateway.tidegate.stop() == 0
        (span,) = collector.spans()
    assert span["traceId"] == TRACE
    assert span["parentSpanId"] != SPAN, "Envoy's own span is between"
    told = attributes(span)
    assert (told["tidegate.allowed"], told["tidegate.limit"]) == (False, "per-tenant")
    assert told["tidegate.decision_id"] == answers[1].json()["decision_id"]
