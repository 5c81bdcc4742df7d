"""A node with certificates, and those of its clients."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request
from tests.contract.tls.certificates import Authority, Pair
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, per: [tenant], rate: 1000/h}
"""


@dataclass
class Client:
    """Who asks: what it trusts, and what it shows."""

    authority: Authority
    pair: Pair | None = None
    pair_files: tuple[Path, Path] | None = None

    def context(self, alpn: list[str] | None = None) -> ssl.SSLContext:
        """For sockets of Python."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if self.pair_files:
            context.load_cert_chain(*self.pair_files)
        if alpn:
            context.set_alpn_protocols(alpn)
        return context

    def get(self, port: int, path: str = "/healthz") -> int:
        """One GET; its status."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", port, timeout=10, context=self.context()
        )
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        finally:
            connection.close()

    def ask(self, port: int) -> int:
        """One question over gRPC; the code of the answer."""
        pair = self.pair
        credentials = grpc.ssl_channel_credentials(
            self.authority.certificate,
            pair.key if pair else None,
            pair.certificate if pair else None,
        )
        with grpc.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            call = channel.unary_unary(SHOULD_RATE_LIMIT)
            told = call(request([Descriptor([("tenant", "acme")])]), timeout=10)
        return answer(told).code

    def connect(self, port: int, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
        """A connection after its handshake."""
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        try:
            return (context or self.context()).wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise

    def is_let_in(self, port: int) -> bool:
        """Whether a request is answered; in TLS 1.3 a client learns of a refusal afterwards."""
        try:
            return self.get(port) == 200
        except (ssl.SSLError, ConnectionError):
            return False


class StartNode(Protocol):
    """Starts a node whose certificate the test's authority signed, with more options."""

    def __call__(self, *options: str, policy: str = POLICY) -> Tidegate: ...


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("the test's authority")


@pytest.fixture
def client(authority: Authority) -> Client:
    return Client(authority)


@pytest.fixture
def start(authority: Authority, tmp_path: Path) -> Iterator[StartNode]:
    certificate, key = authority.server().write(tmp_path, "server")
    with ExitStack() as running:

        def start(*options: str, policy: str = POLICY) -> Tidegate:
            tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
            return running.enter_context(Tidegate(policy, tmp_path, options=(*tls, *options)))

        yield start


@pytest.fixture
def node(start: StartNode) -> Tidegate:
    return start()
