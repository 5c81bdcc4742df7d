"""Runs what a page tells its reader to type, in order, in a folder of its own.

Servers start where the page starts them, on free ports: each address of the page stands for one.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docs.answers import is_same
from tests.docs.pages import ROOT, Block
from tests.servers.ports import free_port
from tests.servers.process import Process, wait_for
from tests.servers.valkey import StoreServer

_ADDRESS = re.compile(r"\b(?:127\.0\.0\.1|localhost):(?P<port>[0-9]{4,5})\b")
_SERVER = re.compile(r"^(?:[A-Z_]+=\S+ )*tidegate (?:dev|serve)\b")
_LOOKS = re.compile(r"--peek|/v1/peek|/readyz|/healthz|/metrics")
_THIS_RUN = "make test"
_STORE_PORT = "6379"
_HTTP_PORT, _GRPC_PORT = "8080", "8081"
_SOON_S = 5.0
_COMMAND_DEADLINE_S = 20.0


@dataclass
class Session:
    """One reader at one page. Use it as a context manager.

    Args:
        folder: Where commands run; it gets the examples.
        store: What stands at port 6379.
        deadline_s: How long a command may take.
    """

    folder: Path
    store: StoreServer
    deadline_s: float = _COMMAND_DEADLINE_S
    _ports: dict[str, int] = field(default_factory=dict)
    _servers: dict[int, Process] = field(default_factory=dict)

    def run(self, block: Block) -> None:
        """Does what a block of commands says.

        Raises:
            AssertionError: A command failed, or answered otherwise than the page says.
        """
        if block.language == "console":
            for command, answer in _exchanges(block.text):
                self._ask(block, self.rewritten(command), answer)
            return
        lines = [line for line in _commands(block.text) if line != _THIS_RUN]
        if not any(_is_server(line) for line in lines):
            lines = [block.text]
        for line in lines:
            if _is_server(line):
                self._serve(self.rewritten(line), is_dev="make run" in line)
            else:
                done = self._shell(self.rewritten(line))
                said = done.stdout + done.stderr
                assert done.returncode == 0, f"{block.place}: {line}\n{said}"

    def rewritten(self, text: str) -> str:
        """The text with the addresses of this session."""
        found = _ADDRESS.sub(lambda match: f"127.0.0.1:{self._port(match['port'])}", text)
        return re.sub(
            r"\btidegate (hit|explain) (?!.*(?:--server|--policy))",
            rf"tidegate \1 --server http://127.0.0.1:{self._port(_HTTP_PORT)} ",
            found,
        )

    def _port(self, written: str) -> int:
        if written == _STORE_PORT:
            return self.store.port
        return self._ports.setdefault(written, free_port())

    def _serve(self, command: str, *, is_dev: bool) -> None:
        if is_dev:
            command = "tidegate dev examples/shop.yaml"
        for flag, usual in (("--http", _HTTP_PORT), ("--grpc", _GRPC_PORT)):
            if flag not in command:
                command += f" {flag} 127.0.0.1:{self._port(usual)}"
        if "--store " in command:
            command += " --store-timeout 2s"  # a busy machine is no store that is away
        found = re.search(r"--http 127\.0\.0\.1:(\d+)", command)
        assert found
        port = int(found[1])
        if port in self._servers:  # the reader stops the one before
            self._servers.pop(port).stop()
        server = Process(command, self.folder / f"server-{port}.log")
        # `exec` takes no assignments before a command; `env` does.
        started = ("bash", "-c", f"cd '{self.folder}' && exec env {command}")
        self._servers[port] = server
        server.start(("env", *environment(), *started), lambda: _listens(port))

    def _ask(self, block: Block, command: str, answer: str) -> None:
        said = [""]

        def answers() -> bool:
            done = self._shell(command)
            said[0] = done.stdout + done.stderr
            # A default address is said as it is, one that the session gave as it was given.
            return is_same(answer, said[0]) or is_same(self.rewritten(answer), said[0])

        if answers():
            return
        if _LOOKS.search(command):  # looking again changes nothing: an edit may be on its way
            try:
                wait_for(answers, command, _SOON_S)
            except TimeoutError:
                pass
            else:
                return
        raise AssertionError(f"{block.place}: {command}\nexpected:\n{answer}\nfound:\n{said[0]}")

    def _shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["env", *environment(), "bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=self.deadline_s,
            check=False,
        )

    def __enter__(self) -> Self:
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for server in self._servers.values():
            server.stop()


def _is_server(line: str) -> bool:
    return line == "make run" or _SERVER.match(line) is not None


def search_path() -> str:
    """The commands of this Python come first; what the machine lacks has a stand-in."""
    stand_ins = Path(__file__).parent / "stand_ins"
    path = (str(Path(sys.executable).parent), os.environ.get("PATH", ""), str(stand_ins))
    return os.pathsep.join(path)


def environment() -> list[str]:
    """For `env`: where commands are found, and that no setting leaks in."""
    ours = [name for name in os.environ if name.startswith("TIDEGATE_")]
    unset = [part for name in ours for part in ("-u", name)]
    return [*unset, f"PATH={search_path()}", "NO_COLOR=1", "PYTHONIOENCODING=utf-8"]


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _commands(text: str) -> list[str]:
    """The commands of a block, one each, without comments."""
    joined = text.replace("\\\n", " ")
    lines = (re.sub(r"\s+#\s.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _exchanges(text: str) -> list[tuple[str, str]]:
    """What is typed after each `$ `, and what the page says that comes back."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        count = 1
        while lines[count - 1].endswith("\\") or "\n".join(lines[:count]).count("'") % 2:
            count += 1
        found.append(("\n".join(lines[:count]), "\n".join(lines[count:])))
    return found
