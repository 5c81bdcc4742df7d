"""The page about several nodes is typed from its first to its last command, on free ports."""

import re
import shutil
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.docs.pages import ROOT, page
from tests.docs.session import Session, environment, search_path
from tests.servers.envoy import validate
from tests.servers.ports import free_port
from tests.servers.process import Process
from tests.servers.valkey import StoreServer

PAGE = page("docs/several-nodes.md")
EXAMPLE = "examples/envoy-nodes.yaml"
BUS = 10_000
"""The port of a Cluster's bus above that of its node, as servers choose it."""
_PATIENT_S = 120.0
"""A program is started for each of many requests by one command."""

_BARE_PORT = re.compile(r"(?<![\d.:])(?:700[123]|8000)(?!\d)")
_SERVER = re.compile(r"^(?:envoy|python3 -m http\.server)\b")


@dataclass
class ClusterSession(Session):
    """A reader who has a Cluster, an application and an Envoy as well."""

    deadline_s: float = _PATIENT_S
    others: list[Process] = field(default_factory=list)

    def prepare(self) -> None:
        """Finds ports for the Cluster, and has Envoy listen and ask where this session is."""
        for written in ("7001", "7002", "7003"):
            self._ports[written] = _port_with_a_bus()
        example = self.folder / EXAMPLE
        text = example.read_text().replace("timeout: 0.05s", "timeout: 10s")
        example.write_text(
            re.sub(r"(?<=port_value: )\d+", lambda found: str(self._port(found[0])), text)
        )

    def rewritten(self, text: str) -> str:
        """Ports that stand alone are those of this session, too."""
        return _BARE_PORT.sub(lambda found: str(self._port(found[0])), super().rewritten(text))

    def shut_down(self) -> None:
        """Stops what the page has not stopped."""
        for process in self.others:
            process.stop()
        for written in ("7001", "7002", "7003"):
            client = redis.Redis(port=self._ports[written], retry=Retry(NoBackoff(), 0))
            with suppress(redis.ConnectionError):
                client.shutdown(nosave=True)

    def is_over(self) -> bool:
        """Whether the Cluster is gone, as the page ends."""
        return not any(_listens(self._ports[port]) for port in ("7001", "7002", "7003"))

    def start_other(self, command: str) -> None:
        """Starts what is no node of ours, and waits until it may be asked."""
        written = "10000" if command.startswith("envoy") else "8000"
        more = " --disable-hot-restart --concurrency 1" if written == "10000" else ""
        process = Process(command, self.folder / f"{written}.log")
        self.others.append(process)
        script = f"cd '{self.folder}' && exec {self.rewritten(command)}{more}"
        ready = ("env", *environment(), "bash", "-c", script)
        process.start(ready, lambda: _listens(self._port(written)))


def _port_with_a_bus() -> int:
    while True:
        port = free_port()
        with suppress(OSError, OverflowError), socket.socket() as bus:
            bus.bind(("127.0.0.1", port + BUS))
            return port


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_every_command_does_what_the_page_says(tmp_path: Path, shared_valkey: StoreServer) -> None:
    blocks = [block for block in PAGE.blocks if block.language in {"sh", "console"}]
    assert all(block.is_run for block in blocks)
    with ClusterSession(tmp_path, shared_valkey) as session:
        session.prepare()
        try:
            for block in blocks:
                lines = [line.partition(" #")[0].strip() for line in block.text.splitlines()]
                if block.language == "sh" and _SERVER.match(lines[0]):
                    for line in lines:
                        session.start_other(line)
                else:
                    session.run(block)
            assert session.is_over()
        finally:
            session.shut_down()


def test_envoy_takes_the_example_of_the_page_as_it_is() -> None:
    envoy = shutil.which("envoy", path=search_path())
    assert envoy is not None
    done = validate(envoy, ROOT / EXAMPLE)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("address", ["8081", "8083", "8085", "8087"])
def test_the_gateway_asks_the_nodes_that_the_page_starts(address: str) -> None:
    assert f"port_value: {address}" in (ROOT / EXAMPLE).read_text()
    nodes = [line for block in PAGE.blocks for line in block.text.splitlines()]
    started = [line for line in nodes if line.startswith("tidegate serve")]
    assert len(started) == 8, "each node is started, and restarted"
    assert sum(f"--grpc 127.0.0.1:{address}" in line for line in started) == (
        0 if address == "8081" else 2
    )
