"""Slots move while their limits are being used up: everybody gets exactly what there is."""

from pathlib import Path

import pytest
from redis.exceptions import MovedError

from tests.integration.redis_cluster.asking import Asker, load, more, remaining, until
from tests.servers.cluster import ClusterServers, info, slot_of, told
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: LIMIT per 365 days, algorithm: fixed_window}
      - {id: second, per: [tenant], rate: 100000/day, algorithm: sliding_log}
"""
HELD = 200
"""How many requests to other slots are answered while one stays half moved."""


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
    # More than can be asked for meanwhile: a denial that is remembered would answer in its place.
    limit, hot = 100_000, "hot"
    slot = slot_of(f"shop|{hot}")
    others = [f"other-{at}" for at in range(9)]
    options = ("--store-timeout", "10s")
    with Tidegate(policy(limit), tmp_path, cluster.url, options) as node, Asker(node) as asker:
        with load(node, [hot]) as tally, load(node, others, clients=1) as beside:
            until(lambda: tally.allowed[hot] > 50, "the load")
            home = cluster.servers.index(cluster.master_of(slot))
            steps = cluster.steps_of_move(slot, cluster.servers[(home + 1) % 3])
            # Nothing, then one of its two keys, then both have moved; the last step is the end.
            for at, _ in enumerate(steps):
                more(beside, HELD if at == 1 else 20, "other slots to answer")
            more(tally, 20, "the new master to answer")
        assert (tally.degraded, beside.degraded) == (0, 0), "no redirection reaches a caller"
        left = remaining(asker.peek(tenant=hot), "each")
        assert tally.allowed[hot] == tally.asked == limit - left
        assert not asker.check(left + 1, tenant=hot)["allowed"]
        assert asker.check(left, tenant=hot)["allowed"]


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
