"""Go's gRPC library, which most proxies and meshes use, asks a node."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.grpc_transport.floor import Floor, build
from tests.contract.tls.certificates import Authority
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, per: [tenant], rate: 1000000/h}
"""
CALLS = 1000
ALL_WELL = f"OK {CALLS}\n"
CLIENT = "spiffe://mesh.example/ns/edge/sa/go"


def run(program: Path, *options: str) -> str:
    """Asks, and says how the calls ended."""
    ended = subprocess.run(
        [program, "-calls", str(CALLS), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Tidegate]:
    with Tidegate(POLICY, tmp_path) as started:
        yield started


def test_plain_text(go_client: Path, node: Tidegate) -> None:
    for port in (node.grpc_port, node.http_port):
        assert run(go_client, "-address", f"127.0.0.1:{port}") == ALL_WELL


def test_tls_and_a_client_with_a_certificate(go_client: Path, tmp_path: Path) -> None:
    authority = Authority("mesh")
    ca = authority.write(tmp_path / "ca.pem")
    certificate, key = authority.server().write(tmp_path, "server")
    shown, its_key = authority.client(CLIENT).write(tmp_path, "client")
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    mutual = ("--tls-client-ca", str(ca), "--tls-client-uris", CLIENT)
    with Tidegate(POLICY, tmp_path, options=(*tls, *mutual)) as node:
        pair = ("-ca", str(ca), "-cert", str(shown), "-key", str(its_key))
        assert run(go_client, "-address", f"127.0.0.1:{node.grpc_port}", *pair) == ALL_WELL


def test_connections_that_are_asked_to_leave_lose_no_call(go_client: Path, tmp_path: Path) -> None:
    """GOAWAY by age, many times, while calls are in flight."""
    with Floor(build(), tmp_path / "log", ("--age-ms", "100")) as floor:
        asking = subprocess.Popen(
            [go_client, "-calls", "0", "-address", f"127.0.0.1:{floor.port}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        time.sleep(2)
        said, _ = asking.communicate(timeout=30)
    outcomes = dict(line.split() for line in said.splitlines())
    assert set(outcomes) == {"OK"}, said
    assert int(outcomes["OK"]) > CALLS


def test_a_node_that_is_replaced_loses_no_call(go_client: Path, node: Tidegate) -> None:
    """A drain under load, and the next node at the same address."""
    asking = subprocess.Popen(
        [go_client, "-calls", "0", "-address", f"127.0.0.1:{node.grpc_port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    time.sleep(0.5)
    assert node.stop() == 0
    node.start()
    time.sleep(0.5)
    said, _ = asking.communicate(timeout=30)
    outcomes = dict(line.split() for line in said.splitlines())
    assert set(outcomes) == {"OK"}, said
