"""The small Go program that asks a node, built once."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "go"


@pytest.fixture(scope="session")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program; skips where there is no Go, or where its library cannot be fetched."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        pytest.skip("no Go on this machine: https://go.dev/dl")
    binary = tmp_path_factory.mktemp("go") / "ask"
    built = subprocess.run(
        [go, "build", "-trimpath", "-buildvcs=false", "-o", str(binary), "."],
        cwd=SOURCE,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if "dial tcp" in built.stderr or "proxyconnect" in built.stderr:
        pytest.skip("Go's gRPC library cannot be fetched: no network")
    assert built.returncode == 0, built.stderr
    return binary
