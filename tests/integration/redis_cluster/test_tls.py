"""A Cluster behind TLS, asked by threads that block and by the service."""

from pathlib import Path

from tests.contract.tls.certificates import Authority
from tests.integration.redis_cluster.asking import CLIENTS, Asker, load, more, remaining, until
from tests.integration.redis_cluster.conftest import TlsCluster
from tests.integration.redis_store.doors import Way, exact, refused
from tests.servers.cluster import info, slot_of, told
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer
from tidegate import Limiter

PATIENT_S = 2.0
LIMIT = 1_000_000
POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: 1000000 per 365 days, algorithm: fixed_window}
"""
TENANTS = [f"tenant-{at}" for at in range(24)]


def test_hits_are_counted_on_all_masters_over_tls(tls_cluster: TlsCluster, way: Way) -> None:
    tls_cluster.start()
    door = way(tls_cluster.url())
    assert [exact(door), door.left(), door.left()] == [999, 998, 997]
    assert exact(way(tls_cluster.url().replace("rediss", "valkeys"))) < 997
    limit = Limiter(tls_cluster.url(), store_timeout=PATIENT_S, prefix="many").limit(
        "2/hour", id="posts"
    )
    decisions = limit.hit_many([(f"t{at % 30}", 1) for at in range(90)])
    assert [bool(decision) for decision in decisions] == [True] * 60 + [False] * 30
    assert all(told(server, "KEYS", "many:*") for server in tls_cluster.servers.servers)
    # Nobody came in by the plain ports but this test, which asks and goes.
    for server in tls_cluster.servers.servers:
        listed = told(server, "CLIENT", "LIST", "TYPE", "normal").decode()
        port = server.options["tls-port"]
        assert f"laddr=127.0.0.1:{port} " in listed
        assert f"laddr=127.0.0.1:{server.port} " in listed, "this question's own"
        assert listed.count(f"laddr=127.0.0.1:{server.port} ") == 1


def test_nodes_are_met_by_the_host_names_that_they_announce(
    tls_cluster: TlsCluster, tmp_path: Path
) -> None:
    # The certificate names no address, which is what peers and redirections call a node.
    named = tls_cluster.authority.named("localhost")
    tls_cluster.start(named, replicas=3, cluster_announce_hostname="localhost")
    servers = tls_cluster.servers
    replica = servers.servers[3]
    # While roles change the old master holds writers back for as long as it takes.
    options = ("--store-timeout", "10s")
    with Tidegate(POLICY, tmp_path, tls_cluster.url("localhost"), options) as node:
        with load(node, TENANTS) as tally:
            until(lambda: tally.asked > 200, "the load")
            for tenant in TENANTS[:4]:
                slot = slot_of(f"shop|{tenant}")
                masters = servers.servers[:3]
                to = masters[(masters.index(servers.master_of(slot)) + 1) % 3]
                servers.move(slot, to)
            assert tally.degraded == 0, "redirections name nodes that are known"
            told(replica, "CLUSTER", "FAILOVER")
            until(lambda: info(replica, "replication")["role"] == "master", "the fail-over")
            more(tally, 400, "requests to the new master")
        assert tally.degraded <= 2 * CLIENTS, "one request a client, or two"
        with Asker(node) as asker:
            for tenant in TENANTS:
                counted = LIMIT - remaining(asker.peek(tenant=tenant), "each")
                assert 0 <= counted - tally.allowed[tenant] <= tally.degraded


def test_a_replica_is_met_by_the_name_that_it_has_announced_since(
    tls_cluster: TlsCluster, tmp_path: Path
) -> None:
    named = tls_cluster.authority.named("localhost")
    tls_cluster.start(named, replicas=3, cluster_announce_hostname="localhost")
    masters, replica = tls_cluster.servers.servers[:3], tls_cluster.servers.servers[3]

    def announce(name: str) -> None:
        told(replica, "CONFIG", "SET", "cluster-announce-hostname", name)
        replica_id = told(replica, "CLUSTER", "MYID")
        until(
            lambda: all(_announced(master, replica_id) == name.encode() for master in masters),
            f"all masters to know that the replica announces {name!r}",
        )

    announce("")
    options = ("--store-timeout", "10s")
    with Tidegate(POLICY, tmp_path, tls_cluster.url("localhost"), options) as node:
        with load(node, TENANTS) as tally:
            until(lambda: tally.asked > 200, "the load")
            # What the node has read of the Cluster says nothing of this.
            announce("localhost")
            told(replica, "CLUSTER", "FAILOVER")
            until(lambda: info(replica, "replication")["role"] == "master", "the fail-over")
            more(tally, 400, "requests to the new master")
        assert tally.degraded <= 2 * CLIENTS, "one request a client, or two"


def _announced(server: StoreServer, node_id: bytes) -> bytes:
    """The host name that a server knows of another, as `CLUSTER NODES` tells it."""
    lines = told(server, "CLUSTER", "NODES").splitlines()
    address = next(line.split()[1] for line in lines if line.startswith(node_id))
    return bytes(address.partition(b",")[2].partition(b",")[0])


def test_a_node_without_a_host_name_must_show_a_certificate_of_its_address(
    tls_cluster: TlsCluster, way: Way
) -> None:
    tls_cluster.start(tls_cluster.authority.named("localhost"))
    refused(way(tls_cluster.url("localhost")), "another host", "127.0.0.1")
    assert exact(way(tls_cluster.url("localhost", ssl_check_hostname="false"))) == 999


def test_a_client_certificate_is_shown_to_every_node(tls_cluster: TlsCluster, way: Way) -> None:
    tls_cluster.start(tls_auth_clients="yes")
    refused(way(tls_cluster.url()), "client certificate", "ssl_certfile")
    folder = tls_cluster.folder
    certificate, key = Authority("other").client().write(folder, "client")
    door = way(tls_cluster.url(ssl_certfile=certificate, ssl_keyfile=key))
    refused(door, "refused the client certificate")
    # Files are read anew at each attempt: the door that was refused comes in.
    tls_cluster.authority.client().write(folder, "client")
    assert exact(door) == 999


def test_an_authority_that_changes_is_followed_by_the_next_connections(
    tls_cluster: TlsCluster, way: Way
) -> None:
    tls_cluster.start()
    door = way(tls_cluster.url())
    assert exact(door) == 999
    following = Authority("following")
    tls_cluster.show(following.server())
    refused(door, "not trusted")
    following.write(tls_cluster.ca)
    assert exact(door) == 998


def test_a_plain_scheme_at_a_port_with_tls_is_told(tls_cluster: TlsCluster, way: Way) -> None:
    tls_cluster.start()
    refused(way(f"redis+cluster://{tls_cluster.servers.nodes()}"), "use rediss://")
