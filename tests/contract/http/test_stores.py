"""The same questions over HTTP on both stores: the same answers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.servers.native import TOKEN, Native
from tests.servers.valkey import StoreServer

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: bucket, per: [tenant], rate: 60/min, burst: 10}
      - {id: window, when: {route: "/w*"}, per: [tenant], rate: 5/min, algorithm: fixed_window}
      - {id: sliding, when: {route: /w/s}, per: [tenant], rate: 4/min, algorithm: sliding_window}
      - {id: log, when: {route: /log}, per: [ip], rate: 3/10s, algorithm: sliding_log}
      - {id: trial, per: [tenant], rate: 2/min, on_exceed: shadow}
      - {id: tokens, per: [tenant], rate: 100/min, counts: tokens}
      - {id: shut, when: {route: /shut}, rate: 0/min}
"""

Start = Callable[..., Native]


@pytest.fixture
def start(shared_valkey: StoreServer) -> Iterator[Start]:
    """Starts nodes that end with the test; "redis" counts in a database of this test alone."""
    with ExitStack() as stack:

        def start(store: str) -> Native:
            url = None if store == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/7"
            node = stack.enter_context(Native(POLICY, store=url))
            whole = {"tenant": "a", "ip": "::1", "route": "/w/s"}
            for route in ("/w/s", "/log"):
                node.post("/v1/reset", body({**whole, "route": route}), TOKEN)
            return node

        yield start


def body(descriptor: dict[str, str], **more: object) -> dict[str, object]:
    return {"domain": "shop", "descriptors": [descriptor], **more}


HISTORY: list[tuple[int, str, dict[str, object]]] = [
    (0, "/w/s", {"cost": 2}),
    (100_000, "/log", {"cost": 2}),
    (200_000, "/w/s", {"cost": {"requests": 1, "tokens": 90}}),
    (300_000, "/w/s", {"cost": {"requests": 1, "tokens": 20}}),
    (400_000, "/w/s", {}),
    (500_000, "/w/s", {}),
    (600_000, "/log", {}),
    (700_000, "/log", {}),
    (800_000, "/w/s", {"cost": 0}),
    (900_000, "/shut", {"cost": 3}),
    (1_000_000, "/w/s", {"refund": True, "cost": 1}),
    (1_100_000, "/w/s", {"cost": 9}),
    (11_000_000, "/log", {"cost": 3}),
    (70_000_000, "/w/s", {"cost": 2}),
    (200_000_000, "/w/x", {"cost": 5}),
]


def told(decision: dict[str, Any]) -> dict[str, Any]:
    """What does not differ from call to call."""
    return {name: value for name, value in decision.items() if name != "decision_id"}


def test_both_stores_answer_alike(start: Start) -> None:
    memory, redis = start("memory"), start("redis")
    reasons = set()
    for at_us, route, more in HISTORY:
        descriptor = {"tenant": "a", "ip": "::1", "route": route}
        decisions = []
        for node in (memory, redis):
            node.at(at_us)
            decisions.append(told(node.check(descriptor, **more)))
        assert decisions[0] == decisions[1], (at_us, route, more)
        assert not decisions[0]["degraded"]
        reasons.add(decisions[0]["reason"])
    assert reasons == {"ok", "over_limit", "cost_exceeds_limit", "blocked"}


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_batch_is_decided_in_order_each_for_itself(start: Start, store: str) -> None:
    node = start(store)
    checks = [body({"tenant": "a"}, cost=cost) for cost in (4, 7, 6, 1, 0)]
    checks += [body({"tenant": "a", "route": "/shut"}), body({"tenant": "b"}, cost=10)]
    answer = node.post("/v1/check", {"checks": checks})
    allowed = [decision["allowed"] for decision in answer.body["decisions"]]
    assert allowed == [True, False, True, False, False, False, True]
    node.post("/v1/reset", body({"tenant": "b"}), TOKEN)


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_long_batch_is_answered_whole(start: Start, store: str) -> None:
    node = start(store)
    checks = [body({"tenant": "a"}) for _ in range(300)]
    decisions = node.post("/v1/check", {"checks": checks}).body["decisions"]
    assert [decision["allowed"] for decision in decisions] == [True] * 10 + [False] * 290
    assert len({decision["decision_id"] for decision in decisions}) == 300


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_reset_forgets_on_the_store(start: Start, store: str) -> None:
    node = start(store)
    descriptor = {"tenant": "a"}
    assert node.check(descriptor, cost=10)["limits"][0]["remaining"] == 0
    reset = node.post("/v1/reset", body(descriptor), TOKEN)
    assert reset.body == {"reset": ["bucket", "trial", "tokens"]}
    assert node.check(descriptor, cost=0)["limits"][0]["remaining"] == 10
