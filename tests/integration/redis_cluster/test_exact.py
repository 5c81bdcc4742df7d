"""On a Cluster the numbers are those of one server, wherever the counters lie."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import Asker, remaining
from tests.servers.cluster import ClusterServers, slot_of, told
from tests.servers.tidegate import Tidegate
from tidegate import Limiter, StoreError

PATIENT_S = 2.0

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: all, rate: 40/hour}
      - {id: each, per: [tenant], rate: 10/hour}
"""


def test_one_tenants_limits_lie_in_one_slot(steady: ClusterServers) -> None:
    limiter = Limiter(steady.url, store_timeout=PATIENT_S, prefix="one")
    both = limiter.limit("10/hour", id="posts")
    tenants = [f"tenant-{at}" for at in range(60)]
    with ThreadPoolExecutor(6) as threads:
        hits = threads.map(lambda at: bool(both.hit(tenants[at % 60])), range(60 * 15))
        assert sum(hits) == 60 * 10
    assert both.peek("tenant-0").limits[0].remaining == 0


def test_many_hits_go_to_all_masters_in_one_trip(steady: ClusterServers) -> None:
    limit = Limiter(steady.url, store_timeout=PATIENT_S, prefix="many").limit("2/hour", id="posts")
    decisions = limit.hit_many([(f"t{at % 30}", 1) for at in range(90)])
    assert [bool(decision) for decision in decisions] == [True] * 60 + [False] * 30
    keys = [told(server, "KEYS", "many:*") for server in steady.servers]
    assert all(keys)
    assert sum(map(len, keys)) == 30


def test_limits_in_several_slots_pass_or_fail_together(
    steady: ClusterServers, tmp_path: Path
) -> None:
    options = ("--prefix", "several")
    with Tidegate(POLICY, tmp_path, steady.url, options) as node, Asker(node) as asker:
        for tenant in ("a", "b", "c"):
            answers = [asker.check(tenant=tenant)["allowed"] for _ in range(12)]
            assert answers == [True] * 10 + [False] * 2
        # What one limit denied has taken nothing from the other.
        assert remaining(asker.peek(tenant="d"), "all") == 10
        assert [asker.check(tenant="d", cost=3)["allowed"] for _ in range(4)] == [
            *(True, True, True),
            False,
        ]
        assert remaining(asker.peek(tenant="e"), "all") == 1
        denied = asker.check(tenant="e", cost=2)
        assert (denied["allowed"], denied["limits"][denied["binding"]]["id"]) == (False, "all")
        assert remaining(asker.peek(tenant="e"), "each") == 10
    assert slot_of("shop|all") != slot_of("shop|a")


def test_a_race_for_the_last_units_admits_exactly_them(
    steady: ClusterServers, tmp_path: Path
) -> None:
    with Tidegate(POLICY, tmp_path, steady.url, ("--prefix", "race")) as node:

        def ask(client: int) -> int:
            tenants = [f"t{client}-{at % 4}" for at in range(20)]
            with Asker(node) as asker:
                return sum(bool(asker.check(tenant=tenant)["allowed"]) for tenant in tenants)

        with ThreadPoolExecutor(8) as threads:
            admitted = sum(threads.map(ask, range(8)))
        with Asker(node) as asker:
            left = remaining(asker.peek(tenant="other"), "all")
            # A charge that is taken back may turn away another for the moment, but none is lost.
            assert admitted + left == 40
            while left and asker.check(tenant=f"last-{left}")["allowed"]:
                left -= 1
            assert left == 0


def test_reset_reaches_every_slot(steady: ClusterServers, tmp_path: Path) -> None:
    options = ("--prefix", "reset", "--admin-token", "t")
    with Tidegate(POLICY, tmp_path, steady.url, options) as node, Asker(node) as asker:
        for _ in range(10):
            asker.check(tenant="a")
        assert not asker.check(tenant="a")["allowed"]
        asker.ask("/v1/reset", {"descriptors": [{"tenant": "a"}]}, token="t")
        after = asker.peek(tenant="a")
        assert (remaining(after, "all"), remaining(after, "each")) == (40, 10)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis+cluster://127.0.0.1:1", "127.0.0.1:1"),
        ("redis+cluster://127.0.0.1:{single}", "cluster support disabled"),
    ],
)
def test_what_is_no_cluster_is_named(valkey: object, url: str, said: str) -> None:
    port = getattr(valkey, "port", 0)
    limiter = Limiter(url.format(single=port), store_timeout=0.05, on_store_failure="raise")
    with pytest.raises(StoreError, match=said):
        limiter.limit("5/minute", id="posts").hit("ada")
