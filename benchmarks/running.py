"""A server under measurement: one process on one core, started, watched by its id, stopped."""

import os
import re
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks.harness import pin

START_S = 30.0
STOP_S = 15.0


def _environment() -> dict[str, str]:
    """Our own, without what may look like a setting of the server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}


@dataclass
class Running:
    """A child process pinned to a core. Use it as a context manager.

    Args:
        name: What it is called in reports.
        command: Its program and arguments.
        log: Where its output goes.
        core: The core that it runs on.
        settings: Environment variables beside our own.
        port: The port that it will listen on; none: the first that it prints after `said`.
        said: A pattern whose first group is the port in its output.
    """

    name: str
    command: Sequence[str | Path]
    log: Path
    core: int
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    said: str = r"listening on \S+?:(\d+)"
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        """The process, for /proc."""
        assert self._child is not None
        return self._child.pid

    def printed(self, pattern: str) -> int | None:
        """The number that the first group of a pattern finds in the output so far."""
        found = re.search(pattern, self.log.read_text(errors="replace"))
        return int(found[1]) if found else None

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            self._child = subprocess.Popen(
                self.command,
                env=_environment() | dict(self.settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: pin(self.core),  # noqa: PLW1509 - one system call and no more
            )
        deadline = time.monotonic() + START_S
        while not self._is_up():
            if self._child.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.name} did not start: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops it, hard if it must be."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None

    def _is_up(self) -> bool:
        self.port = self.port or self.printed(self.said) or 0
        if not self.port:
            return False
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False
