"""Servers for the transport's tests: one with its real limits, one that loses patience soon."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.grpc_transport.client import Client
from tests.contract.grpc_transport.floor import Floor, build

IMPATIENT = ("handshake", "body", "send", "idle", "keepalive")
PATIENCE_MS = 300


@pytest.fixture(scope="session")
def floor_binary() -> str:
    """The server's path, built when it is first needed."""
    return build()


@pytest.fixture(scope="session")
def floor(floor_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """A server with the limits that ship."""
    with Floor(floor_binary, tmp_path_factory.mktemp("floor") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def impatient(floor_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """A server whose time-outs are all 300 ms."""
    options = tuple(word for name in IMPATIENT for word in (f"--{name}-ms", str(PATIENCE_MS)))
    log = tmp_path_factory.mktemp("impatient") / "log"
    with Floor(floor_binary, log, options) as server:
        yield server


@pytest.fixture
def own_floor(floor_binary: str, tmp_path: Path) -> Iterator[Callable[..., Floor]]:
    """Starts servers of one test alone, with options of its choice."""
    started: list[Floor] = []

    def start(*options: str) -> Floor:
        server = Floor(floor_binary, tmp_path / f"log{len(started)}", options)
        started.append(server.__enter__())
        return server

    yield start
    for server in started:
        server.process.stop()


@pytest.fixture
def client(floor: Floor) -> Iterator[Client]:
    """A raw HTTP/2 client of the patient server."""
    with Client(floor.port) as connected:
        yield connected
