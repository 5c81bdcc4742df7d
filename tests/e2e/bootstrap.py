"""The configuration of Envoy that users are shown, with the addresses of a test put in."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXAMPLE = EXAMPLES / "envoy.yaml"

RATE_LIMIT = "envoy.filters.http.ratelimit"
PATIENCE = "10s"
"""Tests wait longer for an answer than users should: their machine may be busy."""


def bootstrap(*, app_port: int, rls_port: int) -> dict[str, Any]:
    """`examples/envoy.yaml`, on free ports, in front of this application, asking this Tidegate."""
    config: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    resources = config["static_resources"]
    for place in (config["admin"], resources["listeners"][0]):
        place["address"]["socket_address"]["port_value"] = 0
    set_port(config, "app", app_port)
    set_port(config, "tidegate", rls_port)
    rate_limit(config)["timeout"] = PATIENCE
    return config


def set_port(config: dict[str, Any], cluster: str, port: int) -> None:
    """Where a cluster's one server listens."""
    (server,) = _servers(config, cluster)
    server["endpoint"]["address"]["socket_address"]["port_value"] = port


def add_node(config: dict[str, Any], rls_port: int) -> None:
    """One more Tidegate that may be asked."""
    nodes = _servers(config, "tidegate")
    nodes.append(deepcopy(nodes[0]))
    nodes[-1]["endpoint"]["address"]["socket_address"]["port_value"] = rls_port


def rate_limit(config: dict[str, Any]) -> dict[str, Any]:
    """The rate limit filter's own part."""
    filters = _manager(config)["http_filters"]
    (found,) = (part["typed_config"] for part in filters if part["name"] == RATE_LIMIT)
    return dict_of(found)


def ask_for_each_request(config: dict[str, Any], *descriptors: dict[str, Any]) -> None:
    """Has every request, whatever its path, bring these descriptors and no others."""
    rate_limit(config)["rate_limits"] = list(descriptors)
    (host,) = _manager(config)["route_config"]["virtual_hosts"]
    host["routes"] = [{"match": {"prefix": "/"}, "route": {"cluster": "app"}}]


def add_tracing(config: dict[str, Any], port: int) -> None:
    """Has Envoy trace by OpenTelemetry, and send its own spans to a collector."""
    clusters = config["static_resources"]["clusters"]
    clusters.append(deepcopy(clusters[0]) | {"name": "collector"})
    clusters[-1]["load_assignment"]["cluster_name"] = "collector"
    set_port(config, "collector", port)
    uri = {"uri": f"http://127.0.0.1:{port}/v1/traces", "cluster": "collector", "timeout": "1s"}
    kind = "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig"
    tracer = {"@type": kind, "http_service": {"http_uri": uri}, "service_name": "envoy"}
    provider = {"name": "envoy.tracers.opentelemetry", "typed_config": tracer}
    _manager(config)["tracing"] = {"provider": provider}


def put_first(config: dict[str, Any], http_filter: dict[str, Any]) -> None:
    """Has a filter run before all others."""
    _manager(config)["http_filters"].insert(0, http_filter)


def from_header(header: str, key: str) -> dict[str, Any]:
    """The action that takes an entry's value from a request header."""
    return {"request_headers": {"header_name": header, "descriptor_key": key}}


def constant(key: str, value: str) -> dict[str, Any]:
    """The action that makes an entry of fixed text."""
    return {"generic_key": {"descriptor_key": key, "descriptor_value": value}}


def dict_of(value: Any) -> dict[str, Any]:
    """A mapping of the configuration."""
    assert isinstance(value, dict)
    return value


def _servers(config: dict[str, Any], cluster: str) -> list[dict[str, Any]]:
    (found,) = (it for it in config["static_resources"]["clusters"] if it["name"] == cluster)
    (locality,) = found["load_assignment"]["endpoints"]
    servers = locality["lb_endpoints"]
    assert isinstance(servers, list)
    return servers


def _manager(config: dict[str, Any]) -> dict[str, Any]:
    (chain,) = config["static_resources"]["listeners"][0]["filter_chains"]
    (manager,) = chain["filters"]
    return dict_of(manager["typed_config"])
