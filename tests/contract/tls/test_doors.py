"""Both doors behind TLS: versions, ALPN, both protocols on each port, slow handshakes."""

import contextlib
import http.client
import json
import socket
import ssl
import time
from pathlib import Path

import pytest

from tests.contract.tls.certificates import Authority
from tests.contract.tls.conftest import Client, StartNode
from tests.servers.tidegate import Tidegate

HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65536):
        received += chunk
    return received


def test_each_port_speaks_both_protocols(node: Tidegate, client: Client) -> None:
    for port in (node.http_port, node.grpc_port):
        assert client.get(port) == 200
        assert client.ask(port) == 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(node: Tidegate, client: Client, version: ssl.TLSVersion) -> None:
    context = client.context()
    context.minimum_version = context.maximum_version = version
    with client.connect(node.http_port, context) as connection:
        assert connection.version() == version.name.replace("v1_", "v1.")
        connection.sendall(HEALTH)
        assert read_all(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_older_versions_are_refused(node: Tidegate, client: Client) -> None:
    context = client.context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.connect(node.http_port, context)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(["h2"], "h2"), (["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), (None, None)],
)
def test_alpn(
    node: Tidegate, client: Client, offered: list[str] | None, chosen: str | None
) -> None:
    with client.connect(node.grpc_port, client.context(offered)) as connection:
        assert connection.selected_alpn_protocol() == chosen


def test_protocols_that_nobody_speaks_are_refused(node: Tidegate, client: Client) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        client.connect(node.grpc_port, client.context(["smtp"]))


def test_without_alpn_the_first_bytes_choose(node: Tidegate, client: Client) -> None:
    with client.connect(node.grpc_port) as connection:
        connection.sendall(PREFACE)
        assert connection.recv(9)[3] == 4
    with client.connect(node.grpc_port) as connection:
        connection.sendall(HEALTH)
        assert read_all(connection).startswith(b"HTTP/1.1 200")


def test_plain_bytes_are_turned_away(node: Tidegate, client: Client) -> None:
    for port in (node.http_port, node.grpc_port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(HEALTH)
            assert b"HTTP" not in read_all(connection)
        assert client.get(port) == 200


def test_large_answers_travel_whole(node: Tidegate, client: Client) -> None:
    checks = [{"domain": "shop", "descriptors": [{"tenant": f"t{n}"}]} for n in range(1000)]
    connection = http.client.HTTPSConnection(
        "127.0.0.1", node.http_port, timeout=10, context=client.context()
    )
    with contextlib.closing(connection):
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/check", json.dumps({"checks": checks}), headers)
        decisions = json.loads(connection.getresponse().read())["decisions"]
    assert len(decisions) == len(checks)


def test_handshakes_have_five_seconds_and_count_under_the_cap(
    start: StartNode, client: Client
) -> None:
    node = start("--max-connections", "1")
    with socket.create_connection(("127.0.0.1", node.grpc_port), timeout=10) as slow:
        # The begin of a handshake record, and no more.
        slow.sendall(bytes([22, 3, 1, 2, 0, 1]))
        began = time.monotonic()
        assert not client.is_let_in(node.http_port)
        assert slow.recv(1) == b""
        assert 4 < time.monotonic() - began < 8
    assert client.is_let_in(node.http_port)


@pytest.mark.parametrize(
    ("certificate", "key", "said"),
    [
        ("missing", "server.key", "cannot read"),
        ("server.pem", "other.key", "not the key of the certificate"),
        ("server.key", "server.key", "no PEM certificate"),
        ("server.pem", "server.pem", "no PEM private key"),
    ],
)
def test_unusable_files_are_named_at_the_start(
    authority: Authority, tmp_path: Path, certificate: str, key: str, said: str
) -> None:
    authority.server().write(tmp_path, "server")
    authority.server().write(tmp_path, "other")
    options = ("--tls-cert", str(tmp_path / certificate), "--tls-key", str(tmp_path / key))
    node = Tidegate("version: 1\ndomains: {}\n", tmp_path, options=options)
    with pytest.raises(RuntimeError, match=said):
        node.start()
