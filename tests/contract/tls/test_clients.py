"""Which clients a node lets in that asks for certificates."""

import datetime as dt
import ssl
from collections.abc import Callable
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.tls.certificates import Authority, Pair
from tests.contract.tls.conftest import Client, StartNode
from tests.servers.tidegate import Tidegate

LISTED = "spiffe://mesh.example/ns/shop/*,spiffe://mesh.example/ns/edge/sa/envoy"


@pytest.fixture
def clients(tmp_path: Path) -> Authority:
    signs = Authority("the clients' authority")
    signs.write(tmp_path / "clients.pem")
    return signs


@pytest.fixture
def node(start: StartNode, clients: Authority, tmp_path: Path) -> Tidegate:  # noqa: ARG001  writes the file
    ca = ("--tls-client-ca", str(tmp_path / "clients.pem"))
    return start(*ca, "--tls-client-uris", LISTED)


@pytest.fixture
def showing(authority: Authority, tmp_path: Path) -> Callable[[Pair], Client]:
    return lambda pair: Client(authority, pair, pair.write(tmp_path, "client"))


def reads_nothing(client: Client, port: int, context: ssl.SSLContext) -> bool:
    """Whether the connection fails before a first byte of an answer."""
    try:
        with client.connect(port, context) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            return connection.recv(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@pytest.mark.parametrize(
    "uri", ["spiffe://mesh.example/ns/shop/sa/web", "spiffe://mesh.example/ns/edge/sa/envoy"]
)
def test_a_listed_client_is_let_in(
    node: Tidegate, clients: Authority, showing: Callable[[Pair], Client], uri: str
) -> None:
    client = showing(clients.client(uri))
    assert client.get(node.http_port) == 200
    assert client.ask(node.grpc_port) == 1


@pytest.mark.parametrize(
    "uris",
    [
        ("spiffe://mesh.example/ns/bank/sa/web",),
        ("spiffe://mesh.example/ns/shop",),
        ("spiffe://evil.example/ns/shop/sa/web",),
        ("spiffe://mesh.example/ns/edge/sa/envoy/x",),
        (),
    ],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_others_of_the_authority_are_not(
    node: Tidegate,
    clients: Authority,
    showing: Callable[[Pair], Client],
    uris: tuple[str, ...],
    version: ssl.TLSVersion,
) -> None:
    client = showing(clients.client(*uris))
    assert not client.is_let_in(node.http_port)
    context = client.context()
    context.maximum_version = version
    assert reads_nothing(client, node.grpc_port, context)


def test_strangers_are_not(
    node: Tidegate,
    authority: Authority,
    clients: Authority,
    showing: Callable[[Pair], Client],
) -> None:
    name = "spiffe://mesh.example/ns/shop/sa/web"
    assert not Client(authority).is_let_in(node.http_port)
    assert not showing(authority.client(name)).is_let_in(node.http_port)
    expired = clients.client(name, life=-dt.timedelta(hours=1))
    stranger = showing(expired)
    assert not stranger.is_let_in(node.http_port)
    with pytest.raises(grpc.RpcError) as caught:
        stranger.ask(node.grpc_port)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    good = showing(clients.client(name))
    assert good.is_let_in(node.http_port)
    metrics = good.connect(node.http_port)
    with metrics:
        metrics.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        text = b"".join(iter(lambda: metrics.recv(65536), b"")).decode()
    failed = next(
        line for line in text.splitlines() if 'connections_failed_total{reason="tls"}' in line
    )
    assert int(failed.split()[1]) >= 3


def test_without_a_list_every_client_of_the_authority_is_let_in(
    start: StartNode,
    client: Client,
    clients: Authority,
    showing: Callable[[Pair], Client],
    tmp_path: Path,
) -> None:
    node = start("--tls-client-ca", str(tmp_path / "clients.pem"))
    assert showing(clients.client()).get(node.http_port) == 200
    assert not client.is_let_in(node.http_port)
