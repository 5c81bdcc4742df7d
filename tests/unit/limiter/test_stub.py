"""The stub of the native module says what the module has, and nothing else."""

import subprocess
import sys


def test_the_stub_matches_the_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "tidegate._native"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
