"""The floor server with its probe methods: the transport and nothing behind it."""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.process import Process

ROOT = Path(__file__).parents[3]
SERVICE = "/tidegate.probe.Transport"
RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"


def build() -> str:
    """Builds the server in the development profile and returns its path.

    `TIDEGATE_FLOOR` names one that is already built.
    """
    if given := os.environ.get("TIDEGATE_FLOOR"):
        return given
    command = ["cargo", "build", "-p", "tidegate-load", "--bin", "floor"]
    command += ["--message-format=json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for line in reversed(built.stdout.splitlines()):
        artifact = json.loads(line)
        if artifact.get("executable") and artifact["target"]["name"] == "floor":
            return str(artifact["executable"])
    raise RuntimeError("cargo named no executable")


@dataclass
class Floor:
    """One floor server on a free port. Use it as a context manager."""

    binary: str
    log: Path
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.process = Process("floor", self.log)
        self.port = 0

    def memory(self) -> int:
        """Resident bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) << 10

    def _listening_port(self) -> int | None:
        said = re.search(r"listening on \S+:(\d+)", self.process.text())
        return int(said[1]) if said else None

    def __enter__(self) -> Self:
        command = [self.binary, "--probes", *self.options]
        self.port = self.process.start(command, self._listening_port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()
