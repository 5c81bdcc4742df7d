"""Starts real proxies on their files of examples/, with the ports of a test put in."""

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

from tests.servers.ports import free_port
from tests.servers.process import Process

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_BUILDER = ROOT / "tools" / "proxies.sh"
_SBIN = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


@dataclass(frozen=True)
class Kind:
    """A proxy that has files in examples/.

    Args:
        files: Its files, the one that it is started with first.
        listen: The port that they serve at.
        is_built: Whether tools/proxies.sh builds it; else it is a package of the system.
        is_open: Whether its files let requests pass while Tidegate is away.
        passes_body: Whether the body of a denial reaches the client.
    """

    files: tuple[str, ...]
    listen: int
    is_built: bool
    is_open: bool
    passes_body: bool


KINDS = {
    "nginx": Kind(("nginx.conf",), 10080, is_built=False, is_open=True, passes_body=False),
    "haproxy": Kind(
        ("haproxy.cfg", "haproxy.lua"), 10081, is_built=False, is_open=True, passes_body=True
    ),
    "caddy": Kind(("Caddyfile",), 10083, is_built=True, is_open=False, passes_body=True),
}


def proxy_binary(name: str) -> str | None:
    """The program of that name, if this machine has it."""
    if not KINDS[name].is_built:
        return shutil.which(name, path=_SBIN)
    version = re.search(rf"^{name.upper()}=(\S+)$", _BUILDER.read_text(), re.MULTILINE)
    assert version, f"{_BUILDER} says which version"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return shutil.which(cache / "tidegate" / "proxies" / f"{name}-{version[1]}")


def how_to_get(name: str) -> str:
    """What to do where the program is missing."""
    built = "tools/proxies.sh builds it, with Go, in some minutes"
    return f"there is no {name} here; " + (
        built if KINDS[name].is_built else "as root tools/servers.sh installs it"
    )


@dataclass
class Proxy:
    """One of them. Use it as a context manager.

    Args:
        binary: The program.
        name: Which it is.
        ports: Which port of its files is which port of the test.
        folder: Where its files and its log lie, and stay.
        edit: What to change in its first file besides.
    """

    binary: str
    name: str
    ports: Mapping[int, int]
    folder: Path
    edit: Callable[[str], str] = str
    port: int = field(init=False)
    _process: Process = field(init=False)

    def __post_init__(self) -> None:
        self._process = Process(self.name, self.folder / f"{self.name}.log")
        self.port = free_port()

    def log(self) -> str:
        """What it has said so far."""
        return self._process.text()

    def __enter__(self) -> Self:
        copied = self.folder / "examples"
        copied.mkdir()
        kind = KINDS[self.name]
        ports = {**self.ports, kind.listen: self.port}
        for name in kind.files:
            (copied / name).write_text(with_ports((EXAMPLES / name).read_text(), ports))
        file = copied / kind.files[0]
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
        text = file.read_text()
        match self.name:
            case "haproxy":
                return [self.binary, "-db", "-C", str(self.folder), "-f", str(file)]
            case "caddy":
                # What it keeps lies here as well, and a busy machine has the time that it needs.
                own = f"admin off\n\tpersist_config off\n\tstorage file_system {self.folder}"
                text = text.replace("admin off", own, 1)
                file.write_text(re.sub(r"(_timeout) \d+ms", r"\1 5s", text))
                return [self.binary, "run", "--config", str(file), "--adapter", "caddyfile"]
            case _:
                own = "daemon off; master_process off; pid nginx.pid; error_log stderr;"
                places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
                temporary = "".join(f" {it}_temp_path {self.folder}/{it};" for it in places)
                http = f"http {{ access_log off;{temporary}"
                file.write_text(text.replace("http {", http, 1))
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


def takes(binary: str, name: str) -> subprocess.CompletedProcess[str]:
    """Lets a proxy read its file of examples/ as it is, without running it."""
    file = f"examples/{KINDS[name].files[0]}"
    commands = {
        "nginx": ["-t", "-q", "-p", ".", "-g", "pid /dev/null;", "-c", file],
        "haproxy": ["-c", "-f", file],
        "caddy": ["validate", "--config", file, "--adapter", "caddyfile"],
    }
    return subprocess.run(
        [binary, *commands[name]],
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
