"""Parts fail while the gateway runs: the store, the node, the policy file."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.bootstrap import add_node, ask_for_each_request, from_header, rate_limit
from tests.e2e.conftest import StartGateway
from tests.servers.envoy import get
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

BY_TENANT = {"actions": [from_header("x-tenant", "tenant")]}
BY_MODE = {"actions": [from_header("x-mode", "mode")]}

PER_TENANT = """
version: 1
domains:
  shop:
    limits:
      - {{id: {id}, per: [tenant], missing: skip, rate: {rate}}}
"""

OPEN_AND_CLOSED = """
version: 1
domains:
  shop:
    limits:
      - {id: lenient, when: {mode: open}, rate: 1/h, on_store_failure: open}
      - {id: careful, when: {mode: closed}, rate: 1/h, on_store_failure: closed}
"""


def per_tenant(rate: str, limit_id: str = "per-tenant") -> str:
    return PER_TENANT.format(rate=rate, id=limit_id)


def by_tenant(config: dict[str, Any]) -> None:
    ask_for_each_request(config, BY_TENANT)


def test_a_lost_store_opens_or_closes_as_each_limit_says(
    start_gateway: StartGateway, valkey: StoreServer
) -> None:
    gateway = start_gateway(
        OPEN_AND_CLOSED, lambda config: ask_for_each_request(config, BY_MODE), store=valkey.url
    )
    assert gateway.statuses(2, x_mode="open") == [200, 429]
    assert gateway.statuses(2, x_mode="closed") == [200, 429]

    valkey.stop(signal.SIGKILL)
    # What is known of a denial holds for up to a second.
    wait_for(lambda: gateway.statuses(3, x_mode="open") == [200, 200, 200], "it to open")
    wait_for(lambda: gateway.get(x_mode="closed").json()["reason"] == "store_failure", "that")
    closed = gateway.get(x_mode="closed")
    assert closed.status == 429
    assert closed.json()["type"].endswith("#temporary-reduced-capacity")
    assert closed.json()["violated-policies"] == ["careful"]
    assert closed.headers["retry-after"] == "1"
    assert gateway.stat("error") == 0, "each was an answer of ours, none a failure to Envoy"

    valkey.start()
    wait_for(lambda: gateway.get(x_mode="open").status == 429, "the limit to hold again")
    assert gateway.get(x_mode="open").json()["reason"] == "over_limit"


def test_a_store_that_hangs_holds_no_request_up(
    start_gateway: StartGateway, valkey: StoreServer
) -> None:
    gateway = start_gateway(
        OPEN_AND_CLOSED,
        lambda config: ask_for_each_request(config, BY_MODE),
        store=valkey.url,
        options=("--store-timeout", "5ms"),
    )
    os.kill(valkey.pid, signal.SIGSTOP)
    try:
        assert gateway.statuses(3, x_mode="open") == [200, 200, 200]
        closed = gateway.get(x_mode="closed")
        assert (closed.status, closed.json()["reason"]) == (429, "store_failure")
        assert gateway.stat("error") == 0, "we answered before Envoy gave up"
    finally:
        os.kill(valkey.pid, signal.SIGCONT)
    wait_for(lambda: gateway.get(x_mode="open").status == 429, "the limit to hold again")


def test_a_node_starts_while_its_store_is_down(
    start_gateway: StartGateway, valkey: StoreServer
) -> None:
    valkey.stop()
    gateway = start_gateway(
        OPEN_AND_CLOSED, lambda config: ask_for_each_request(config, BY_MODE), store=valkey.url
    )
    assert gateway.statuses(2, x_mode="open") == [200, 200]
    assert gateway.get(x_mode="closed").status == 429
    valkey.start()
    wait_for(lambda: gateway.get(x_mode="closed").status == 200, "the store to be used")
    assert gateway.get(x_mode="closed").json()["reason"] == "over_limit"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize(("must_answer", "status"), [(False, 200), (True, 500)])
def test_without_a_node_envoy_decides_and_the_node_may_come_back(
    start_gateway: StartGateway, how: signal.Signals, *, must_answer: bool, status: int
) -> None:
    def configure(config: dict[str, Any]) -> None:
        by_tenant(config)
        rate_limit(config)["failure_mode_deny"] = must_answer

    gateway = start_gateway(per_tenant("1/h"), configure)
    assert gateway.statuses(2, x_tenant="acme") == [200, 429]

    code = gateway.tidegate.stop(how)
    assert code == (0 if how == signal.SIGTERM else -how)
    assert gateway.statuses(3, x_tenant="acme") == [status] * 3
    assert gateway.stat("error") == 3
    assert gateway.stat("failure_mode_allowed") == (0 if must_answer else 3)

    gateway.tidegate.start()
    back = gateway.get(x_tenant="acme")
    assert (back.status, back.headers["x-ratelimit-remaining"]) == (200, "0")
    assert gateway.get(x_tenant="acme").status == 429
    assert gateway.stat("error") == 3, "the first request found the node again"


def test_envoy_leaves_a_node_that_stops_for_the_others_b82(
    start_gateway: StartGateway, valkey: StoreServer, tmp_path: Path
) -> None:
    policy = per_tenant("100/day")
    with Tidegate(policy, tmp_path, valkey.url) as second:

        def configure(config: dict[str, Any]) -> None:
            by_tenant(config)
            add_node(config, second.grpc_port)

        gateway = start_gateway(policy, configure, store=valkey.url)
        healthy = partial(gateway.envoy.stat, "cluster.tidegate.membership_healthy")
        wait_for(lambda: healthy() == 2, "both nodes to be asked")
        assert gateway.statuses(10, x_tenant="acme") == [200] * 10

        assert second.stop() == 0
        wait_for(lambda: healthy() == 1, "the stopped node to be left")
        failed = gateway.stat("error")
        assert gateway.statuses(10, x_tenant="acme") == [200] * 10
        second.start()
        wait_for(lambda: healthy() == 2, "the node to be asked again")
        last = [gateway.get(x_tenant="acme") for _ in range(10)][-1]
        assert last.headers["x-ratelimit-used"] == "30", "all nodes count together"
        assert gateway.stat("error") == failed == 0


def test_a_new_number_holds_at_once_and_what_was_used_stays_used(
    start_gateway: StartGateway,
) -> None:
    gateway = start_gateway(per_tenant("3/h"), by_tenant)
    ask = partial(gateway.get, x_tenant="acme")
    assert gateway.statuses(4, x_tenant="acme") == [200, 200, 200, 429]

    gateway.tidegate.write(per_tenant("5/h"))
    raised = wait_for(lambda: passed if (passed := ask()).status == 200 else None, "the raise")
    assert raised.headers["x-ratelimit-limit"] == "5"
    assert raised.headers["x-ratelimit-remaining"] == "1", "three were used before"

    gateway.tidegate.write(per_tenant("1/h"))
    wait_for(lambda: ask().headers["x-ratelimit-limit"] == "1", "the lowering")
    assert ask().status == 429


@pytest.mark.parametrize(
    "bad",
    [
        per_tenant("3/h", r'"a\r\nset-cookie: forged"'),
        per_tenant("3/parsec"),
        "version: 1\ndomains: {shop: {limi",
    ],
    ids=["line break in an id", "unknown unit", "half-written"],
)
def test_a_bad_policy_changes_nothing(start_gateway: StartGateway, bad: str) -> None:
    gateway = start_gateway(per_tenant("2/h"), by_tenant)
    assert gateway.get(x_tenant="acme").status == 200
    said = len(gateway.tidegate.log())
    gateway.tidegate.write(bad)
    wait_for(lambda: "policy.yaml" in gateway.tidegate.log()[said:], "the log to say what is wrong")
    ready = get(gateway.tidegate.http_port, "/readyz")
    assert ready.status == 200, "it still serves what it has"
    assert b"policy.yaml:" in ready.body
    answers = [gateway.get(x_tenant="acme") for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 429]
    assert {answer.headers["x-ratelimit-limit"] for answer in answers} == {"2"}
    assert all("set-cookie" not in answer.headers for answer in answers)
