"""What was told is counted still after its master has died, if replicas were waited for."""

import signal
from functools import partial
from pathlib import Path

from tests.integration.redis_cluster.asking import Asker, load, remaining, until
from tests.servers.cluster import ClusterServers, info, slot_of
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

LIMIT = 1_000_000
POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: 1000000 per 365 days, algorithm: fixed_window,
         on_store_failure: closed}        # what is let pass would be charged afterwards
"""
OPTIONS = ("--store-timeout", "2s", "--store-wait-replicas", "1")
ROUNDS = 3


def test_no_charge_that_was_told_is_lost_with_its_master(
    replicated: ClusterServers, tmp_path: Path
) -> None:
    slot = slot_of("shop|tenant-0")
    others = (f"tenant-{at}" for at in range(1, 1000))
    home = replicated.master_of(slot)
    near = (name for name in others if replicated.master_of(slot_of(f"shop|{name}")) is home)
    tenants = ["tenant-0", *(next(near) for _ in range(5))]
    with Tidegate(POLICY, tmp_path, replicated.url, OPTIONS) as node, Asker(node) as asker:

        def counted(tenant: str) -> int:
            return LIMIT - remaining(asker.peek(tenant=tenant), "each")

        until(lambda: not asker.peek(tenant="tenant-0")["degraded"], "the connections")
        for _ in range(ROUNDS):
            lost = replicated.master_of(slot)
            until(partial(has_replica, lost), "a replica to be there")
            until(partial(waits_for_it, node), "the node to wait for it again")
            before = {tenant: counted(tenant) for tenant in tenants}
            behind = unreplicated(node)
            with load(node, tenants, clients=8) as tally:
                until(lambda: tally.asked > 300, "the load")
                lost.stop(signal.SIGKILL)
            until(lambda: not asker.peek(tenant="tenant-0")["degraded"], "the fail-over")
            # A replica that was behind was told of.
            behind = unreplicated(node) - behind
            for tenant in tenants:
                taken = counted(tenant) - before[tenant]
                # What was on its way may have been counted, or not.
                most = tally.allowed[tenant] + tally.degraded
                assert tally.allowed[tenant] - behind <= taken <= most
            lost.start()


def waits_for_it(node: Tidegate) -> bool:
    """Whether charges are held until it has them, by each worker."""
    before, decided = unreplicated(node), 0
    for _ in range(8):
        with Asker(node) as asker:
            decided += not asker.check(tenant="tenant-0")["degraded"]
    return decided == 8 and unreplicated(node) == before


def unreplicated(node: Tidegate) -> int:
    """The metric."""
    with Asker(node) as asker:
        rows = asker.metrics().splitlines()
    row = next(row for row in rows if row.startswith("tidegate_store_unreplicated_total"))
    return int(row.split()[-1])


def has_replica(master: StoreServer) -> bool:
    """Whether one follows that is up to date."""
    said = info(master, "replication")
    first = said.get("slave0", {})
    is_whole = first.get("state") == "online" and first.get("lag", 9) <= 1
    return said["role"] == "master" and bool(is_whole)
