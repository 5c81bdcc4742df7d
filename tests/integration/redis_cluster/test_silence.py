"""A master that stands still while a request needs it and another: one deadline, nothing kept that
was denied, and each limit for itself."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import Asker, remaining, until
from tests.servers.cluster import ClusterServers, slot_of
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

TIMEOUT_S = 1.0
OPTIONS = ("--store-timeout", f"{round(TIMEOUT_S * 1000)}ms")
POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: all, rate: 1000 per 365 days, algorithm: fixed_window, on_store_failure: WHEN_AWAY}
      - {id: each, per: [tenant], rate: EACH per 365 days, algorithm: fixed_window}
"""


@pytest.fixture
def cluster(valkey_path: str) -> Iterator[ClusterServers]:
    """Masters that the others do not take for dead while they stand still."""
    options = {"cluster-node-timeout": "15000"}
    with ClusterServers(valkey_path, options=options) as cluster:
        yield cluster


@contextmanager
def paused(server: StoreServer) -> Iterator[None]:
    """It stands still until the block ends."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def tenant_elsewhere(cluster: ClusterServers, silent: StoreServer) -> str:
    """One whose counters lie on another master."""
    tenants = (f"tenant-{at}" for at in range(100))
    return next(
        name for name in tenants if cluster.master_of(slot_of(f"shop|{name}")) is not silent
    )


def policy(when_away: str, each: int = 1000) -> str:
    return POLICY.replace("WHEN_AWAY", when_away).replace("EACH", str(each))


def warm(asker: Asker, tenant: str, hits: int) -> None:
    """Waits for the connections, and takes so many."""
    until(lambda: not asker.peek(tenant=tenant)["degraded"], "the connections")
    assert all(asker.check(tenant=tenant)["allowed"] for _ in range(hits))


@pytest.mark.parametrize(
    ("when_away", "allowed", "kept"), [("closed", False, 0), ("open", True, 1)]
)
def test_silence_of_one_slot_costs_one_deadline_and_what_was_denied_is_given_back(
    cluster: ClusterServers, tmp_path: Path, when_away: str, allowed: bool, kept: int
) -> None:
    silent = cluster.master_of(slot_of("shop|all"))
    tenant = tenant_elsewhere(cluster, silent)
    with (
        Tidegate(policy(when_away), tmp_path, cluster.url, OPTIONS) as node,
        Asker(node) as asker,
    ):
        # Seen far from both limits, so that the next one takes without a look.
        warm(asker, tenant, 3)
        with paused(silent):
            began = time.monotonic()
            decision = asker.check(tenant=tenant)
            took_s = time.monotonic() - began
        assert (decision["allowed"], decision["degraded"]) == (allowed, True)
        assert TIMEOUT_S / 2 < took_s < 1.9 * TIMEOUT_S, "one deadline, not one for each step"
        until(lambda: not asker.peek(tenant=tenant)["degraded"], "the master to answer again")
        until(
            lambda: remaining(asker.peek(tenant=tenant), "each") == 1000 - 3 - kept,
            "what was taken to be given back",
        )


@pytest.mark.parametrize("when_away", ["closed", "open"])
@pytest.mark.parametrize("cost", [1, 3], ids=["near", "far"])
def test_a_denial_of_a_slot_that_answers_stands_beside_one_that_is_silent(
    cluster: ClusterServers, tmp_path: Path, when_away: str, cost: int
) -> None:
    silent = cluster.master_of(slot_of("shop|all"))
    tenant = tenant_elsewhere(cluster, silent)
    # With cost 1 the limit is used up, so that it is looked at first; with 3 half of it is left.
    each = 3 if cost == 1 else 4
    with (
        Tidegate(policy(when_away, each), tmp_path, cluster.url, OPTIONS) as node,
        Asker(node) as asker,
    ):
        warm(asker, tenant, 3 if cost == 1 else 2)
        before = timeouts(asker)
        with paused(silent):
            decision = asker.check(tenant=tenant, cost=cost)
            after = timeouts(asker)
        assert (decision["allowed"], decision["degraded"]) == (False, True)
        assert decision["reason"] == "over_limit"
        assert decision["limits"][decision["binding"]]["id"] == "each"
        assert decision["limits"][0]["allowed"] is (when_away == "open")
        assert after == before + 1
        until(lambda: not asker.peek(tenant=tenant)["degraded"], "the master to answer again")
        assert remaining(asker.peek(tenant=tenant), "each") == each - (3 if cost == 1 else 2)


def test_a_limit_that_answers_counts_on_beside_one_that_is_silent(
    cluster: ClusterServers, tmp_path: Path
) -> None:
    silent = cluster.master_of(slot_of("shop|all"))
    tenant = tenant_elsewhere(cluster, silent)
    with (
        Tidegate(policy("open", 20), tmp_path, cluster.url, OPTIONS) as node,
        Asker(node) as asker,
    ):
        warm(asker, tenant, 12)
        with paused(silent):
            # At first each waits for the silent master; then the breaker is open, and they do not.
            answers = [asker.check(tenant=tenant) for _ in range(10)]
            slow = asker.check(tenant=tenant)
        assert all(answer["degraded"] for answer in [*answers, slow])
        assert [answer["allowed"] for answer in answers] == [True] * 8 + [False] * 2
        assert not slow["allowed"]
        until(lambda: not asker.peek(tenant=tenant)["degraded"], "the master to answer again")
        assert remaining(asker.peek(tenant=tenant), "each") == 0


def timeouts(asker: Asker) -> int:
    """Decisions so far for which the store did not answer in time."""
    row = re.search(
        r'^tidegate_degraded_decisions_total\{reason="timeout"\} (\d+)$',
        asker.metrics(),
        re.MULTILINE,
    )
    return int(row[1]) if row else 0
