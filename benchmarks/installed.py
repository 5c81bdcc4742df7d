"""What is measured is what ships: the release wheel in an environment of its own."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"


@cache
def python() -> Path:
    """The interpreter of an environment that has the release wheel of this tree.

    `TIDEGATE_BENCH_PYTHON` names one that is already there.
    """
    if given := os.environ.get("TIDEGATE_BENCH_PYTHON"):
        return Path(given)
    print("building the release wheel (some minutes the first time)", flush=True)
    wheels, home = BUILD / "wheels", BUILD / "bench"
    for old in wheels.glob("*.whl"):
        old.unlink()
    _run(sys.executable, "-m", "maturin", "build", "-q", "--release", "--out", wheels)
    (wheel,) = wheels.glob("*.whl")
    interpreter = home / "bin" / "python"
    pip = (interpreter, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    if not interpreter.exists():
        _run(sys.executable, "-m", "venv", home)
        _run(*pip, wheel)
    _run(*pip, "--force-reinstall", "--no-deps", wheel)
    return interpreter


@cache
def program(name: str) -> Path:
    """A release program of `benchmarks/load`. `TIDEGATE_BENCH_PROGRAMS` names a folder of them."""
    if given := os.environ.get("TIDEGATE_BENCH_PROGRAMS"):
        return Path(given) / name
    print("building the floor server and the generator", flush=True)
    _run("cargo", "build", "-q", "--release", "-p", "tidegate-load")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / name


def _run(*command: str | Path) -> None:
    subprocess.run(command, cwd=ROOT, check=True)
