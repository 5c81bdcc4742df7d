"""The Cluster changes under load: slots move, masters change, and the numbers stay exact."""

import signal
import time
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import CLIENTS, Asker, load, more, remaining, until
from tests.servers.cluster import ClusterServers, info, slot_of, told
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: 1000000 per 365 days, algorithm: fixed_window}
      - {id: second, per: [tenant], rate: 1000000/day}
"""
LIMIT = 1_000_000
TENANTS = [f"tenant-{at}" for at in range(24)]


def counted(node: Tidegate, tenant: str) -> int:
    """What the store holds of a tenant."""
    with Asker(node) as asker:
        return LIMIT - remaining(asker.peek(tenant=tenant), "each")


@pytest.fixture
def slots() -> list[int]:
    return [slot_of(f"shop|{tenant}") for tenant in TENANTS]


def test_slots_move_under_load_and_no_unit_is_lost(
    cluster: ClusterServers, tmp_path: Path, slots: list[int]
) -> None:
    with Tidegate(POLICY, tmp_path, cluster.url) as node:
        with load(node, TENANTS) as tally:
            until(lambda: tally.asked > 200, "the load")
            for slot in slots[:12]:
                homes = cluster.servers
                to = homes[(homes.index(cluster.master_of(slot)) + 1) % len(homes)]
                for _ in cluster.steps_of_move(slot, to):
                    # Some requests in each state of the move. Those that need both sides wait.
                    time.sleep(0.01)
        assert tally.degraded == 0
        assert {tenant: counted(node, tenant) for tenant in TENANTS} == dict(tally.allowed)


def test_a_master_is_added_and_takes_slots(
    cluster: ClusterServers, tmp_path: Path, slots: list[int]
) -> None:
    with Tidegate(POLICY, tmp_path, cluster.url) as node:
        with load(node, TENANTS) as tally:
            until(lambda: tally.asked > 100, "the load")
            fourth = cluster.add_server()
            cluster.introduce(fourth)
            for slot in slots[:6]:
                cluster.move(slot, fourth)
            more(tally, 200, "requests to the new master")
        assert tally.degraded == 0
        assert told(fourth, "DBSIZE") > 0
        assert {tenant: counted(node, tenant) for tenant in TENANTS} == dict(tally.allowed)


def test_failover_by_command_goes_unnoticed(replicated: ClusterServers, tmp_path: Path) -> None:
    master, replica = replicated.servers[0], replicated.servers[3]
    # While roles change the old master holds writers back for as long as it takes.
    options = ("--store-timeout", "10s")
    with Tidegate(POLICY, tmp_path, replicated.url, options) as node:
        with load(node, TENANTS) as tally:
            until(lambda: tally.asked > 200, "the load")
            told(replica, "CLUSTER", "FAILOVER")
            until(lambda: info(replica, "replication")["role"] == "master", "the failover")
            more(tally, 400, "requests to the new master")
        assert tally.degraded <= 2 * CLIENTS, "one request a client, or two"
        for tenant in TENANTS:
            assert 0 <= counted(node, tenant) - tally.allowed[tenant] <= tally.degraded
    assert info(master, "replication")["role"] == "slave"


def test_a_killed_master_is_replaced_and_the_others_serve_on(
    replicated: ClusterServers, tmp_path: Path, slots: list[int]
) -> None:
    lost = replicated.master_of(slots[0])
    others = [
        tenant
        for tenant, slot in zip(TENANTS, slots, strict=True)
        if replicated.master_of(slot) is not lost
    ]
    # Long enough that no pause of the machine is taken for a store that does not answer.
    options = ("--store-timeout", "500ms")
    with Tidegate(POLICY, tmp_path, replicated.url, options) as node, Asker(node) as asker:
        with load(node, others) as tally:
            asker.check(tenant=TENANTS[0])
            lost.stop(signal.SIGKILL)
            until(lambda: asker.check(tenant=TENANTS[0])["degraded"], "the loss to be noticed")
            assert asker.check(tenant=TENANTS[0])["allowed"], "open by default"
            assert tally.degraded == 0, "another shard's loss"
            until(
                lambda: not asker.check(tenant=TENANTS[0])["degraded"],
                "the replica to take over",
            )
        # A Cluster that has lost a master serves nobody until a replica is chosen.
        assert tally.asked > 0
        taken = counted(node, TENANTS[0])
        assert asker.check(tenant=TENANTS[0])["allowed"]
        assert counted(node, TENANTS[0]) == taken + 1


def test_replicas_are_never_asked(replicated: ClusterServers, tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path, replicated.url) as node, load(node, TENANTS) as tally:
        until(lambda: tally.asked > 300, "the load")
    for replica in replicated.servers[3:]:
        assert "cmdstat_evalsha" not in info(replica, "commandstats")


def test_scripts_are_loaded_again_where_they_were_flushed(
    cluster: ClusterServers, tmp_path: Path
) -> None:
    with Tidegate(POLICY, tmp_path, cluster.url) as node:
        with load(node, TENANTS) as tally:
            for server in cluster.servers:
                more(tally, 50, "the load")
                told(server, "SCRIPT", "FLUSH")
            more(tally, 50, "the load")
        assert tally.degraded == 0
        assert {tenant: counted(node, tenant) for tenant in TENANTS} == dict(tally.allowed)
