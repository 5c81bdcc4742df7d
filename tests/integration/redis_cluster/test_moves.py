"""Slots move while their limits are being used up: everybody gets exactly what there is."""

import time
from pathlib import Path

import pytest
from redis.exceptions import MovedError

from tests.integration.redis_cluster.asking import Asker, load, more, until
from tests.servers.cluster import ClusterServers, info, slot_of, told
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: LIMIT/day, algorithm: fixed_window}
      - {id: second, per: [tenant], rate: 100000/day, algorithm: sliding_log}
"""
HELD_S = 1.0
"""How long a slot stays half moved."""


def policy(limit: int) -> str:
    return POLICY.replace("LIMIT", str(limit))


def is_denied(asker: Asker, tenant: str) -> bool:
    return not asker.peek(tenant=tenant)["allowed"]


def test_a_hundred_slots_move_under_load_and_each_limit_admits_what_it_has(
    cluster: ClusterServers, tmp_path: Path
) -> None:
    limit = 25
    tenants = [f"tenant-{at}" for at in range(100)]
    slots = {slot_of(f"shop|{tenant}") for tenant in tenants}
    with Tidegate(policy(limit), tmp_path, cluster.url) as node, Asker(node) as asker:
        with load(node, tenants, clients=8) as tally:
            until(lambda: tally.asked > 100, "the load")
            for slot in slots:
                homes = cluster.servers
                cluster.move(slot, homes[(homes.index(cluster.master_of(slot)) + 1) % 3])
            until(lambda: all(is_denied(asker, name) for name in tenants), "all to be used", 60.0)
        assert tally.degraded == 0
        assert dict(tally.allowed) == dict.fromkeys(tenants, limit)


def test_a_slot_that_stays_half_moved_is_unseen_by_callers_b10(
    cluster: ClusterServers, tmp_path: Path
) -> None:
    limit, hot = 400, "hot"
    slot = slot_of(f"shop|{hot}")
    others = [f"other-{at}" for at in range(9)]
    with Tidegate(policy(limit), tmp_path, cluster.url) as node, Asker(node) as asker:
        with load(node, [hot]) as tally, load(node, others, clients=1) as beside:
            until(lambda: tally.allowed[hot] > 50, "the load")
            home = cluster.servers.index(cluster.master_of(slot))
            steps = cluster.steps_of_move(slot, cluster.servers[(home + 1) % 3])
            # Nothing, then one of its two keys, then both have moved; the last step is the end.
            for at, _ in enumerate(steps):
                if at == 1:
                    time.sleep(HELD_S)
                more(beside, 20, "other slots to answer")
            until(lambda: is_denied(asker, hot), "the limit to be used up", 60.0)
        assert (tally.degraded, beside.degraded) == (0, 0), "no redirection reaches a caller"
        assert tally.allowed[hot] == limit


def test_a_master_that_was_demoted_sends_on_and_does_not_refuse(
    replicated: ClusterServers, tmp_path: Path
) -> None:
    slot = slot_of("shop|acme")
    old = replicated.master_of(slot)
    new = replicated.servers[replicated.servers.index(old) + 3]
    with Tidegate(policy(1000), tmp_path, replicated.url) as node, Asker(node) as asker:
        until(lambda: not asker.peek(tenant="acme")["degraded"], "the connections")
        asker.check(tenant="acme")
        told(new, "CLUSTER", "FAILOVER")
        until(lambda: info(new, "replication")["role"] == "master", "the fail-over")
        until(lambda: info(old, "replication")["role"] == "slave", "the demotion")
        # In a Cluster nobody is told READONLY by a call of ours: MOVED comes first.
        with pytest.raises(MovedError):
            told(old, "EVAL", "return redis.call('SET', KEYS[1], '')", 1, "{shop|acme}")
        decision = asker.check(tenant="acme")
        assert not decision["degraded"]
        assert decision["limits"][0]["remaining"] == 998
