"""Runs a program as a child of the test run: its log kept in a file, its end made sure of."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 15.0
_PR_SET_PDEATHSIG = 1

Answer = TypeVar("Answer")


@dataclass
class Process:
    """One child process, whose output goes to `log` (appended, when it is started again)."""

    name: str
    log: Path
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended by itself."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """The process, to measure it."""
        assert self._child is not None
        return self._child.pid

    def start(self, command: Sequence[str], ready: Callable[[], Answer | None]) -> Answer:
        """Starts the program and waits until `ready` has an answer, which is returned."""
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=without_settings(),
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it makes one system call and no more
            )
        try:
            return wait_for(ready, f"{self.name} to start", alive=lambda: self.is_running)
        except TimeoutError as error:
            self.stop(signal.SIGKILL)
            raise RuntimeError(f"{self.name} did not start: {self.text()[-4000:]}") from error

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> int | None:
        """Stops the program and says its exit code; `SIGKILL` is what a crash looks like."""
        if self._child is None:
            return None
        child, self._child = self._child, None
        child.send_signal(sig)
        try:
            return child.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise

    def text(self) -> str:
        """All that it has written so far."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def without_settings() -> dict[str, str]:
    """The environment without variables of ours: those of the tests are no settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}


def wait_for(
    answer: Callable[[], Answer | None],
    what: str,
    deadline_s: float = START_DEADLINE_S,
    pause_s: float = 0.01,
    alive: Callable[[], bool] = lambda: True,
) -> Answer:
    """Asks again and again, every `pause_s`, until there is an answer, and returns it.

    Raises:
        TimeoutError: None came in time, or what should give it is no longer `alive`.
    """
    deadline = time.monotonic() + deadline_s
    while not (found := answer()):
        if not alive() or time.monotonic() > deadline:
            raise TimeoutError(f"waited {deadline_s:g} s for {what}")
        time.sleep(pause_s)
    return found


def _die_with_parent() -> None:
    """Lets the kernel stop the program when the test run itself is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
