"""Clusters for tests: one for all that leave it as it was, and fresh ones for those that do not."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.tls.certificates import Authority, Pair
from tests.integration.redis_store.doors import Way
from tests.servers.cluster import ClusterServers, told
from tests.servers.valkey import tls_binary


@pytest.fixture(scope="session")
def steady(valkey_path: str) -> Iterator[ClusterServers]:
    """Three masters that keep their slots; tests keep to their own keys."""
    with ClusterServers(valkey_path) as cluster:
        yield cluster


@pytest.fixture
def cluster(valkey_path: str) -> Iterator[ClusterServers]:
    """Three masters of this test alone."""
    with ClusterServers(valkey_path) as cluster:
        yield cluster


@pytest.fixture
def replicated(valkey_path: str) -> Iterator[ClusterServers]:
    """Three masters and three replicas of this test alone."""
    with ClusterServers(valkey_path, replicas=3) as cluster:
        yield cluster


@dataclass
class TlsCluster:
    """A Cluster whose nodes show one certificate, and the files that they and clients use."""

    binary: str
    folder: Path
    stack: ExitStack
    authority: Authority = field(default_factory=lambda: Authority("store"))
    servers: ClusterServers = field(init=False)

    @property
    def ca(self) -> Path:
        """What clients and nodes trust."""
        return self.folder / "ca.pem"

    def start(self, shown: Pair | None = None, replicas: int = 0, **settings: str) -> None:
        """Starts three masters; more of their settings by name, with `_` for `-`."""
        self.authority.write(self.ca)
        certificate, key = (shown or self.authority.server()).write(self.folder, "server")
        options = {
            "tls-cert-file": str(certificate),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(self.ca),
            "tls-auth-clients": "no",
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }
        servers = ClusterServers(self.binary, replicas=replicas, options=options, is_tls=True)
        self.servers = self.stack.enter_context(servers)

    def url(self, host: str = "127.0.0.1", **query: object) -> str:
        """The store URL that trusts the authority; more of its query by name."""
        pairs = {"ssl_ca_certs": self.ca, **query}
        said = "&".join(f"{name}={value}" for name, value in pairs.items())
        return f"rediss+cluster://{self.servers.nodes(host)}?{said}"

    def show(self, pair: Pair) -> None:
        """New connections meet this certificate; those of clients end."""
        certificate, key = pair.write(self.folder, "server")
        for server in self.servers.servers:
            words = ("tls-cert-file", certificate, "tls-key-file", key)
            told(server, "CONFIG", "SET", *map(str, words))
            told(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


@pytest.fixture
def tls_cluster(tmp_path: Path) -> Iterator[TlsCluster]:
    """A Cluster of this test alone, which the test starts."""
    binary = tls_binary()
    if binary is None:
        pytest.skip("no redis-server with TLS on this machine: apt-get install redis-server")
    with ExitStack() as stack:
        yield TlsCluster(binary, tmp_path, stack)


@pytest.fixture(params=["blocking", "service"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """Opens doors to stores, of both kinds one after the other."""
    with ExitStack() as stack:
        yield Way(request.param, stack)
