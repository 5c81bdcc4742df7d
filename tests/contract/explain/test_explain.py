"""The node that denied says why, on either store; what would apply is said without asking it."""

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from tests.servers.native import START_US, TOKEN, Native
from tests.servers.valkey import StoreServer
from tidegate import Limiter

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: all, per: [tenant], rate: 100/min}
      - {id: search, when: {route: /s}, per: [tenant], rate: 2/min, algorithm: fixed_window}
      - {id: trial, when: {route: /s}, per: [tenant], rate: 1/min, on_exceed: shadow}
    plans:
      pro: {all: {rate: 1k/min}}
    tenants:
      acme:
        plan: pro
        overrides:
          - {limit: search, rate: 4/min, until: 2100-01-01T00:00:00Z}
"""
ACME = {"tenant": "acme", "route": "/s"}


def decision(node: Native, name: str) -> tuple[int, dict[str, Any]]:
    host, port = node.server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    connection.request("GET", f"/v1/decisions/{name}", headers={"authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    return answer.status, document


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_a_denial_is_told_again_as_it_was_told(shared_valkey: StoreServer, store: str) -> None:
    url = None if store == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/6"
    with Native(POLICY, store=url) as node:
        node.post("/v1/reset", {"domain": "shop", "descriptors": [ACME]}, TOKEN)
        assert node.check(ACME, cost=3)["allowed"]
        told = node.check(ACME, cost=2)
        assert not told["allowed"]
        status, kept = decision(node, told["decision_id"])
    assert status == 200
    for name in ("decision_id", "allowed", "reason", "retry_after_ms", "revision", "degraded"):
        assert kept[name] == told[name], name
    by_id = {limit["id"]: limit for limit in kept["limits"]}
    for limit in told["limits"]:
        for name in ("allowed", "limit", "remaining", "reset_ms", "window_ms", "shadow"):
            assert by_id[limit["id"]][name] == limit[name], (limit["id"], name)
    assert (by_id["search"]["used"], by_id["search"]["limit"]) == (3, 4)
    denied = {name for name, limit in by_id.items() if limit["denied"]}
    assert denied == {"search"}, "a shadow is not what denied"
    assert not by_id["trial"]["allowed"], "but what it would have done is told"
    assert kept["limits"][0]["id"] == "search", "those that denied come first"


def test_what_passes_is_not_kept_and_the_answer_says_so() -> None:
    with Native(POLICY) as node:
        told = node.check(ACME)
        status, document = decision(node, told["decision_id"])
        assert status == 404
        assert "What was allowed is not kept" in document["detail"]


def test_only_the_last_denials_are_kept() -> None:
    with Native(POLICY) as node:
        checks = [{"domain": "shop", "descriptors": [ACME], "cost": 5}] * 1000
        first = node.post("/v1/check", {"checks": checks}).body["decisions"][0]["decision_id"]
        assert decision(node, first)[0] == 200
        for second in range(1, 6):
            node.at(second * 1_000_000)
            node.post("/v1/check", {"checks": checks})
        status, document = decision(node, first)
    assert status == 404
    assert "its last 4096 denials" in document["detail"]


def test_service_and_file_explain_alike(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    here = Limiter(clock=lambda: START_US / 1e6).policy(file, domain="shop")
    with Native(POLICY) as node:
        for descriptor in (ACME, {"tenant": "other"}, {"route": "/s"}, {"tenant": "é\x1b"}):
            body = {"domain": "shop", "descriptors": [descriptor]}
            there = node.post("/v1/explain", body, TOKEN).body
            assert there == here.explain(descriptor)
        assert node.check(ACME)["limits"][0]["remaining"] == 999, "nothing was taken"


def test_numbers_say_where_they_come_from() -> None:
    with Native(POLICY) as node:
        body = {"domain": "shop", "descriptors": [ACME, {"tenant": "b"}]}
        acme, other = node.post("/v1/explain", body, TOKEN).body["descriptors"]
    numbers = {limit["id"]: (limit["rate"]["n"], limit["source"]) for limit in acme["applies"]}
    assert numbers["all"] == (1000, {"kind": "plan", "plan": "pro"})
    until = {"kind": "override", "from": None, "until": "2100-01-01T00:00:00.000Z"}
    assert numbers["search"] == (4, until)
    assert [limit["id"] for limit in other["applies"]] == ["all"]
    assert other["applies"][0]["source"] == {"kind": "limit"}
    problem = "the request has no route; it wants /s"
    assert {limit["id"]: limit["problems"] for limit in other["nearest"]} == {
        "search": [problem],
        "trial": [problem],
    }
