"""A Redis that speaks TLS, on a port beside its plain one, and what signs for it."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.contract.tls.certificates import Authority, Pair
from tests.integration.redis_store.doors import Way
from tests.servers.ports import free_port
from tests.servers.valkey import StoreServer, tls_binary


@dataclass
class TlsStore:
    """The server, and the files that it and its clients use."""

    server: StoreServer
    folder: Path
    authority: Authority = field(default_factory=lambda: Authority("store"))
    port: int = field(default_factory=free_port)

    @property
    def ca(self) -> Path:
        """What clients trust."""
        return self.folder / "ca.pem"

    @property
    def settings(self) -> dict[str, str]:
        """What a server of its kind is started with."""
        return {
            "tls-cert-file": str(self.folder / "server.pem"),
            "tls-key-file": str(self.folder / "server.key"),
            "tls-ca-cert-file": str(self.ca),
            "tls-auth-clients": "no",
        }

    def url(self, **query: object) -> str:
        """The TLS port as a store URL that trusts the authority; more of its query by name."""
        pairs = {"ssl_ca_certs": self.ca, **query}
        said = "&".join(f"{name}={value}" for name, value in pairs.items() if value is not None)
        return f"rediss://127.0.0.1:{self.port}?{said}"

    def show(self, pair: Pair) -> None:
        """New connections meet this certificate."""
        self.set(**dict(zip(("tls-cert-file", "tls-key-file"), self.write(pair), strict=True)))

    def write(self, pair: Pair, name: str = "server") -> tuple[Path, Path]:
        """Puts a certificate into files."""
        return pair.write(self.folder, name)

    def set(self, **settings: object) -> None:
        """Changes the running server's settings, all at once."""
        words = [str(word) for pair in settings.items() for word in pair]
        self.client().execute_command("CONFIG", "SET", *words)

    def cut(self) -> None:
        """Closes all connections of clients."""
        self.client().execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def client(self) -> Any:
        """A client that knows nothing of ours, on the plain port."""
        return redis.Redis(port=self.server.port)


@pytest.fixture(params=["blocking", "service"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    """Opens doors to stores, of both kinds one after the other."""
    with ExitStack() as stack:
        yield Way(request.param, stack)


@pytest.fixture
def tls_store(tmp_path: Path) -> Iterator[TlsStore]:
    """A Redis of this test alone; clients need no certificate."""
    binary = tls_binary()
    if binary is None:
        pytest.skip("no redis-server with TLS on this machine: apt-get install redis-server")
    store = TlsStore(StoreServer(binary), tmp_path)
    store.authority.write(store.ca)
    store.write(store.authority.server())
    store.server.options |= {**store.settings, "tls-port": str(store.port)}
    with store.server:
        yield store
