"""Charges that are told once replicas have them."""

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.redis_cluster.asking import Asker
from tests.servers.counters import counters
from tests.servers.process import wait_for
from tests.servers.sentinels import client
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer
from tidegate import Limiter

PATIENT_S = 2.0
POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: hits, per: [tenant], rate: 1000 per 365 days, algorithm: fixed_window}
"""
OPTIONS = ("--store-wait-replicas", "1")


@dataclass
class Pair:
    """A master and its replica."""

    master: StoreServer
    replica: StoreServer

    def held(self) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """What each of them holds of counters."""
        both = []
        for server in (self.master, self.replica):
            store = client(server)
            both.append({key: store.get(key) for key in counters(store)})
        return both[0], both[1]

    def waits(self) -> int:
        """How often the master was asked for its replica."""
        said: int = client(self.master).info("commandstats").get("cmdstat_wait", {}).get("calls", 0)
        return said

    @contextmanager
    def replica_paused(self) -> Iterator[None]:
        """It stands still until the block ends."""
        os.kill(self.replica.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.replica.pid, signal.SIGCONT)


@pytest.fixture
def pair(valkey_path: str) -> Iterator[Pair]:
    settings = {"repl-diskless-sync-delay": "0"}
    with ExitStack() as stack:
        master = stack.enter_context(StoreServer(valkey_path, dict(settings)))
        of = {"replicaof": f"127.0.0.1 {master.port}"}
        replica = stack.enter_context(StoreServer(valkey_path, {**settings, **of}))
        wait_for(
            lambda: client(replica).info("replication")["master_link_status"] == "up",
            "the replica to follow",
        )
        yield Pair(master, replica)


@pytest.fixture(params=["blocking", "service"])
def hit(request: pytest.FixtureRequest, pair: Pair, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """Takes one, by a thread that blocks or by a node; says whether the store decided it."""
    if request.param == "blocking":
        limiter = Limiter(pair.master.url, store_timeout=PATIENT_S, store_wait_replicas=1)
        limit = limiter.limit("1000 per 365 days", id="hits", algorithm="fixed_window")
        yield lambda: not limit.hit("acme").degraded
        return
    with (
        Tidegate(POLICY, tmp_path, pair.master.url, OPTIONS) as node,
        Asker(node) as asker,
    ):
        yield lambda: not asker.check(tenant="acme")["degraded"]


def test_the_replica_has_a_charge_when_it_is_told(pair: Pair, hit: Callable[[], Any]) -> None:
    wait_for(hit, "the store to decide")
    waits = pair.waits()
    for _ in range(40):
        assert hit()
        ours, theirs = pair.held()
        assert len(ours) == 1
        assert theirs == ours
    assert pair.waits() == waits + 40


def test_a_script_that_the_master_has_lost_changes_nothing(
    pair: Pair, hit: Callable[[], Any]
) -> None:
    wait_for(hit, "the store to decide")
    client(pair.master).script_flush()
    assert hit()
    ours, theirs = pair.held()
    assert theirs == ours


def test_a_connection_that_ends_before_the_replica_answers_is_a_failure(
    pair: Pair, hit: Callable[[], Any]
) -> None:
    wait_for(hit, "the store to decide")
    with pair.replica_paused():
        watch = client(pair.master)

        def cut() -> bool:
            blocked: list[Any] = [
                one for one in watch.client_list() if "wait" in one["cmd"] and "b" in one["flags"]
            ]
            for one in blocked:
                watch.client_kill_filter(_id=one["id"])
            return bool(blocked)

        with ExitStack() as stack:
            asked = stack.enter_context(ThreadPoolExecutor(1)).submit(hit)
            wait_for(cut, "the master to wait for its replica")
            assert not asked.result(), "nobody knows whether it survives"


def test_many_at_once_wait_once(pair: Pair) -> None:
    limiter = Limiter(pair.master.url, store_timeout=PATIENT_S, store_wait_replicas=1)
    limit = limiter.limit("2 per 365 days", id="hits", algorithm="fixed_window")
    limit.peek("t0")  # which brings the script
    decisions = limit.hit_many([(f"t{at % 100}", 1) for at in range(300)])
    assert [bool(decision) for decision in decisions] == [True] * 200 + [False] * 100
    ours, theirs = pair.held()
    assert len(ours) == 100
    assert theirs == ours
    assert pair.waits() == 1
    limit.peek("t1")
    assert pair.waits() == 1, "what takes nothing waits for nothing"


def test_a_replica_that_is_behind_is_told_of_and_the_decision_stands(
    pair: Pair, tmp_path: Path
) -> None:
    options = (*OPTIONS, "--store-timeout", f"{PATIENT_S:g}s")
    with (
        Tidegate(POLICY, tmp_path, pair.master.url, options) as node,
        Asker(node) as asker,
    ):
        wait_for(lambda: not asker.peek(tenant="acme")["degraded"], "the store to decide")
        with pair.replica_paused():
            began = time.monotonic()
            decisions = [asker.check(tenant="acme") for _ in range(3)]
            # The first waits, and finds out that the others would in vain.
            assert PATIENT_S * 0.4 <= time.monotonic() - began < 3 * PATIENT_S / 2
            assert [one["limits"][0]["remaining"] for one in decisions] == [999, 998, 997]
            assert not any(one["degraded"] for one in decisions)
            assert "fail-over may lose counts" in " ".join(
                ask(node, "/readyz")["store"]["warnings"]
            )
        assert unreplicated(node) == 3
        wait_for(
            lambda: (
                not asker.check(tenant="acme")["degraded"]
                and not ask(node, "/readyz")["store"]["warnings"]
            ),
            "the replica to have caught up",
        )


def test_a_store_that_may_not_be_asked_for_replicas_says_so(pair: Pair, tmp_path: Path) -> None:
    client(pair.master).execute_command(
        "ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-wait"
    )
    url = pair.master.url.replace("//", "//app:pw@")
    with (
        Tidegate(POLICY, tmp_path, url, OPTIONS) as node,
        Asker(node) as asker,
    ):
        wait_for(lambda: not asker.check(tenant="acme")["degraded"], "the store to decide")
        assert "wait" in " ".join(ask(node, "/readyz")["store"]["warnings"])
        assert unreplicated(node) == 1


def ask(node: Tidegate, path: str) -> Any:
    """A document of the node."""
    return json.loads(text(node, path))


def unreplicated(node: Tidegate) -> int:
    """The metric."""
    rows = text(node, "/metrics").splitlines()
    row = next(row for row in rows if row.startswith("tidegate_store_unreplicated_total"))
    return int(row.split()[-1])


def text(node: Tidegate, path: str) -> str:
    """What the node says there."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    connection.request("GET", path)
    said = connection.getresponse().read().decode()
    connection.close()
    return said
