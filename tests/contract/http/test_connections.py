"""Connections that cost a place and bring nothing: each ends, is counted, and hurts nobody else."""

import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

import pytest

from tests.contract.http.raw import Raw
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate

POLICY = "version: 1\ndomains: {shop: {limits: [{id: all, rate: 1k/min}]}}\n"
PLACES = 4
MOST = ("--max-connections", str(PLACES))
GET = b"GET %s HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Tidegate]:
    with Tidegate(
        POLICY, tmp_path, options=(*MOST, "--max-connections-per-peer", str(PLACES))
    ) as node:
        yield node


def failed(node: Tidegate, reason: str) -> int:
    """How many connections the metrics say failed so."""
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as answer:
        text = answer.read().decode()
    name = re.escape(f'tidegate_connections_failed_total{{reason="{reason}"}}')
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    assert found, reason
    return int(found[1])


def ask_on(client: Raw) -> NoReturn:
    """Asks and reads nothing, until it can write no more."""
    while True:
        client.socket.sendall(GET % b"/openapi.json" * 100)


def test_clients_that_read_no_answer_lose_their_places(node: Tidegate) -> None:
    with ExitStack() as opened:
        deaf = []
        for _ in range(PLACES):
            client = opened.enter_context(Raw(f"127.0.0.1:{node.http_port}"))
            client.socket.settimeout(0.2)
            with pytest.raises(TimeoutError):
                ask_on(client)
            deaf.append(client)
        with Raw(f"127.0.0.1:{node.http_port}") as late:
            late.send(GET % b"/healthz")
            assert late.until_closed() == b"", "every place is taken"
        for client in deaf:
            client.socket.settimeout(30)
            # Writing, since what was sent before would have to be read first.
            with pytest.raises(ConnectionError):
                ask_on(client)
    assert failed(node, "unresponsive") == PLACES
    assert failed(node, "full") >= 1


def test_what_is_no_http_is_counted(node: Tidegate) -> None:
    for port in (node.http_port, node.grpc_port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"\x16\x03\x01\x00\xa5 nonsense\r\n\r\n")
            assert b"400" in connection.recv(65536)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    with socket.create_connection(("127.0.0.1", node.grpc_port), timeout=10) as connection:
        connection.sendall(preface + bytes([0, 0, 0, 5, 4, 0, 0, 0, 1]))
        while connection.recv(65536):
            pass
    assert failed(node, "malformed") == 3
    assert failed(node, "full") == failed(node, "silent") == 0


def _is_counted(node: Tidegate, reason: str) -> bool:
    """Whether some were refused so; no, while the node has no room for who asks."""
    try:
        return failed(node, reason) >= 1
    except OSError:
        return False


def test_one_peer_leaves_a_quarter_of_the_places_to_others(tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path, options=MOST) as node, ExitStack() as opened:

        def come(address: str) -> Raw:
            client = opened.enter_context(Raw(f"127.0.0.1:{node.http_port}", source=address))
            client.send(GET % b"/healthz")
            return client

        crowd = [come("127.0.0.1") for _ in range(PLACES - 1)]
        assert [client.statuses_until(1) for client in crowd] == [[200]] * (PLACES - 1)
        assert come("127.0.0.1").until_closed() == b"", "the peer has its share"
        other = come("127.0.0.2")
        assert other.statuses_until(1) == [200]
        other.socket.close()
        crowd.pop().socket.close()
        wait_for(lambda: _is_counted(node, "peer_full"), "the count")
