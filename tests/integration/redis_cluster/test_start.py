"""A node that starts while most of its Cluster cannot be reached."""

from pathlib import Path

from tests.integration.redis_cluster.asking import Asker, until
from tests.servers.cluster import ClusterServers
from tests.servers.ports import free_port
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: 1000 per 365 days, algorithm: fixed_window}
"""


def test_one_seed_that_is_up_is_enough_b81(steady: ClusterServers, tmp_path: Path) -> None:
    up = steady.servers[1].port
    url = f"redis+cluster://no-such-host.invalid:6379,127.0.0.1:{free_port()},127.0.0.1:{up}"
    with (
        Tidegate(POLICY, tmp_path, url, ("--prefix", "seeds")) as node,
        Asker(node) as asker,
    ):
        # A resolver that nobody answers gives up after half a minute at most.
        until(lambda: not asker.check(tenant="acme")["degraded"], "the Cluster", 60.0)


def test_a_cluster_that_comes_later_is_found_b81(cluster: ClusterServers, tmp_path: Path) -> None:
    for server in cluster.servers:
        server.stop()
    with Tidegate(POLICY, tmp_path, cluster.url) as node, Asker(node) as asker:
        away = asker.check(tenant="acme")
        assert (away["allowed"], away["degraded"]) == (True, True), "open by default"
        for server in cluster.servers:
            server.start()
        until(cluster.is_whole, "the Cluster to serve")
        until(lambda: not asker.check(tenant="acme")["degraded"], "the node to count again")
