"""Starts `tidegate serve` on free loopback ports, and stops it."""

import re
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.process import Process

PATIENCE = "2s"
"""Tests wait longer for the store than users should: their machine may be busy."""

DRAIN_NOTICE = "100ms"
"""Enough for those who watch; tests stop many nodes."""

LOOPBACK = "127.0.0.1"
_ADDRESS = r"\b{door}\b\D*?{host}:(\d+)"


@dataclass
class Tidegate:
    """One node on a policy file. Use it as a context manager.

    Args:
        policy: The policy, as text; it is written to a file and may be written anew.
        folder: Where the file and the log lie, and stay.
        store: The store's URL; in memory by default.
        options: More arguments of `tidegate serve`.
        prefix: A command put in front.
        http_host: The address of the HTTP door.
    """

    policy: str
    folder: Path
    store: str | None = None
    options: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    http_host: str = LOOPBACK
    http_port: int = field(default=0, init=False)
    grpc_port: int = field(default=0, init=False)
    _process: Process = field(init=False)

    def __post_init__(self) -> None:
        self._process = Process("tidegate", self.folder / "tidegate.log")
        self.write(self.policy)

    @property
    def file(self) -> Path:
        """The policy file."""
        return self.folder / "policy.yaml"

    @property
    def is_running(self) -> bool:
        """False once it was stopped or has died."""
        return self._process.is_running

    def write(self, policy: str) -> None:
        """Changes the policy as careful editors do: beside the file, then over it."""
        draft = self.file.with_suffix(".draft")
        draft.write_text(policy)
        draft.replace(self.file)

    def start(self) -> None:
        """Starts the node and waits until it listens: again, at the addresses that it had."""
        command = [
            *self.prefix,
            *(sys.executable, "-m", "tidegate.cli.main", "serve"),
            *("--policy", str(self.file)),
            *("--drain-notice", DRAIN_NOTICE),
            *(("--store", self.store, "--store-timeout", PATIENCE) if self.store else ()),
            *("--http", f"{self.http_host}:{self.http_port}"),
            *("--grpc", f"{LOOPBACK}:{self.grpc_port}"),
            *self.options,
        ]
        said_before = len(self.log())
        self.http_port, self.grpc_port = self._process.start(
            command, lambda: self._addresses(said_before)
        )

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> int | None:
        """Stops the node and says its exit code; `SIGKILL` is what a crash looks like."""
        return self._process.stop(sig)

    def log(self) -> str:
        """What the node has said so far."""
        return self._process.text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _addresses(self, said_before: int) -> tuple[int, int] | None:
        said = self.log()[said_before:]
        doors = {"(?i:http)": self.http_host, "(?i:grpc)": LOOPBACK}
        http, grpc = (
            re.search(_ADDRESS.format(door=door, host=re.escape(host)), said)
            for door, host in doors.items()
        )
        return (int(http[1]), int(grpc[1])) if http and grpc else None
