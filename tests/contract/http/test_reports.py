"""Reports about the answers and keys of other limiters at their HTTP doors, each by its id."""

import http.client
import json
import urllib.request

import pytest

from tests.servers.native import Native

LIMITS = """
version: 1
domains:
  shop:
    limits:
      - {id: app, per: [client], rate: 10/min, algorithm: fixed_window}
      - {id: route, when: {route: /x}, per: [client], rate: 5/min, algorithm: fixed_window}
"""
CODES = """
version: 1
domains:
  shop:
    limits:
      - {id: guesses, when: {route: "/verify/*"}, per: [ip], rate: 5/min}
"""
DOOR = {
    "web": {
        "domain": "shop",
        "cost": 1,
        "descriptors": [{"ip": "{address}", "route": "{path}"}],
        "trusted_proxies": ["127.0.0.1"],
        "address": None,
        "uri": None,
        "method": None,
        "request_id": None,
        "ipv4_prefix": 32,
        "ipv6_prefix": 64,
        "fold_case": False,
        "keep_trailing_slash": False,
        "deny_status": 429,
    }
}
SLOW = """
version: 1
domains:
  shop:
    limits: [{id: slow, per: [client], rate: 1 per 10s, algorithm: %s}]
"""


def headers_of(node: Native, descriptors: list[dict[str, str]]) -> list[tuple[str, str]]:
    """The headers of a check as they came, doubled ones too."""
    host, port = node.server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    body = json.dumps({"domain": "shop", "descriptors": descriptors})
    connection.request("POST", "/v1/check", body, {"content-type": "application/json"})
    response = connection.getresponse()
    response.read()
    connection.close()
    return [(name.lower(), value) for name, value in response.getheaders()]


def test_each_header_comes_once_for_the_tightest_limit_and_each_limit_is_charged_once_b54() -> None:
    meets = {"client": "a", "route": "/x"}
    with Native(LIMITS) as node:
        answers = [headers_of(node, [meets, meets, {"client": "a"}]) for _ in range(6)]
        looked = node.check(meets, cost=0)
    for headers in answers:
        names = [name for name, _ in headers]
        assert len(names) == len(set(names)), headers
    told = [dict(headers) for headers in answers]
    assert [headers["x-ratelimit-resource"] for headers in told] == ["route"] * 6
    assert [headers["x-ratelimit-remaining"] for headers in told] == list("432100")
    assert ["retry-after" in headers for headers in told] == [False] * 5 + [True]
    assert [limit["remaining"] for limit in looked["limits"]] == [5, 0]


@pytest.mark.parametrize("algorithm", ["fixed_window", "sliding_log", "token_bucket"])
@pytest.mark.parametrize("late_us", [9_700_000, 9_999_900, 9_999_999, 200_001, 5_000_000])
def test_retry_after_is_whole_seconds_rounded_up_and_true_b50(algorithm: str, late_us: int) -> None:
    client = {"client": "a"}
    began_us = 200_000 if algorithm == "fixed_window" else 0
    with Native(SLOW % algorithm) as node:
        node.at(began_us)
        assert node.check(client)["allowed"]
        node.at(late_us)
        headers = dict(headers_of(node, [client]))
        assert int(headers["retry-after"]) == max(1, -(-(10_000_000 - late_us) // 1_000_000))
        node.at(late_us + int(headers["retry-after"]) * 1_000_000)
        assert node.check(client)["allowed"]


def test_what_a_client_writes_into_a_path_opens_no_counter_b65() -> None:
    with Native(CODES, forward_auth=json.dumps(DOOR).encode()) as node:
        host, port = node.server.http_address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        statuses = []
        for code in range(1000):
            connection.request("GET", f"/v1/forward-auth/web/verify/{code}")
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
        connection.close()
        with urllib.request.urlopen(f"http://{node.server.http_address}/metrics") as answer:
            metrics = answer.read().decode().splitlines()
    assert statuses.count(200) == 5
    assert statuses.count(429) == 995
    assert "tidegate_counters 1" in metrics
