"""Starts the real nginx or HAProxy on a file of examples/, with the ports of a test put in."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.process import Process

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def proxy_binary(name: str) -> str | None:
    """The program of that name, if this machine has it."""
    return shutil.which(name, path=_SBIN)


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class Proxy:
    """nginx or HAProxy. Use it as a context manager.

    Args:
        binary: The program.
        example: Its file in examples/.
        listen: The port that the file serves at.
        ports: Which port of the file is which port of the test.
        folder: Where its files and its log lie, and stay.
        edit: What to change in the file besides.
    """

    binary: str
    example: str
    listen: int
    ports: Mapping[int, int]
    folder: Path
    edit: Callable[[str], str] = str
    port: int = field(init=False)
    _process: Process = field(init=False)

    def __post_init__(self) -> None:
        self._process = Process(self.example, self.folder / f"{self.example}.log")
        self.port = free_port()

    def log(self) -> str:
        """What it has said so far."""
        return self._process.text()

    def __enter__(self) -> Self:
        copied = self.folder / "examples"
        copied.mkdir()
        ports = {**self.ports, self.listen: self.port}
        for name in (self.example, self.example.replace(".cfg", ".lua")):
            (copied / name).write_text(with_ports((EXAMPLES / name).read_text(), ports))
        file = copied / self.example
        file.write_text(self.edit(file.read_text()))
        self._process.start(self._command(file), self._listens)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stop()

    def _command(self, file: Path) -> list[str]:
        if self.example.endswith(".cfg"):
            return [self.binary, "-db", "-C", str(self.folder), "-f", str(file)]
        own = "daemon off; master_process off; pid nginx.pid; error_log stderr;"
        places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        temporary = "".join(f" {it}_temp_path {self.folder}/{it};" for it in places)
        text = file.read_text().replace("http {", f"http {{ access_log off;{temporary}", 1)
        file.write_text(text)
        return [self.binary, "-p", str(self.folder), "-c", str(file), "-g", own]

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return True
        except OSError:
            return False


def with_ports(text: str, ports: Mapping[int, int]) -> str:
    """A file of examples/ with other ports on loopback."""
    found = re.compile(r"127\.0\.0\.1:(\d+)\b")
    return found.sub(lambda at: f"127.0.0.1:{ports.get(int(at[1]), int(at[1]))}", text)


def takes(binary: str, example: str) -> subprocess.CompletedProcess[str]:
    """Lets a proxy read a file of examples/ as it is, without running it."""
    if example.endswith(".cfg"):
        command = [binary, "-c", "-f", f"examples/{example}"]
    else:
        command = [
            binary,
            "-t",
            "-q",
            "-p",
            ".",
            "-g",
            "pid /dev/null;",
            "-c",
            f"examples/{example}",
        ]
    return subprocess.run(
        command, cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=30, check=False
    )
