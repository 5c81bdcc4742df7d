"""`tidegate dev` as somebody meets it who has just cloned the repository."""

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.process import Process, wait_for

SHOP = Path(__file__).parents[3] / "examples" / "shop.yaml"


def _start(folder: Path, *arguments: str) -> Process:
    process = Process("tidegate dev", folder / "dev.log")
    command = [
        *(sys.executable, "-m", "tidegate.cli.main", "dev", *arguments),
        *("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"),
    ]
    process.start(command, lambda: "Ctrl-C" in process.text() or None)
    return process


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Process]:
    process = _start(tmp_path, str(SHOP))
    yield process
    process.stop()


def _line(process: Process, beginning: str) -> list[str]:
    found = re.search(rf"^  ({re.escape(beginning)}.*)$", process.text(), re.MULTILINE)
    assert found, process.text()
    return shlex.split(found[1])


def test_it_prints_addresses_and_lines_that_work(dev: Process) -> None:
    assert re.search(r"HTTP +http://127\.0\.0\.1:\d+", dev.text())
    assert re.search(r"gRPC +127\.0\.0\.1:\d+", dev.text())
    command = _line(dev, "tidegate hit")
    done = subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", *command[1:]],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "used" in done.stdout
    curl = _line(dev, "curl")
    done = subprocess.run(curl, capture_output=True, text=True, timeout=30, check=False)
    assert '"allowed":true' in done.stdout


def test_ctrl_c_stops_it_cleanly(dev: Process) -> None:
    text = dev.text()
    assert dev.stop(signal.SIGINT) == 0
    assert "Traceback" not in dev.text()
    assert text in dev.text()


def test_without_a_file_it_runs_a_policy_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = _start(tmp_path)
    assert "brings along" in process.text()
    assert process.stop(signal.SIGINT) == 0


def test_the_usual_file_is_taken_and_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "tidegate.yaml"
    file.write_text("{version: 1, domains: {mine: {limits: [{id: l, rate: 5/h}]}}}")
    process = _start(tmp_path)
    assert "tidegate.yaml" in process.text()
    file.write_text("{version: 1, domains: {mine: {limits: [{id: l, rate: 6/h}]}}}")
    wait_for(lambda: "policy loaded" in process.text(), "the edit")
    assert process.stop(signal.SIGINT) == 0
