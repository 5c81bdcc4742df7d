"""`tidegate dev`: everything in one process on loopback, to try a policy."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import settings as settings_
from tidegate.policy.problems import quoted

if TYPE_CHECKING:
    import argparse

    from tidegate.dataplane.service import Started

_USUAL = "tidegate.yaml"
_STARTER = "starter.yaml"
_HELP = f"""
Without FILE: ./{_USUAL} if there is one, else a small policy that Tidegate brings along.
Counters live in memory. Edit the file while it runs: a change holds within a second.

exit codes: 0 stopped by Ctrl-C, 2 cannot run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="a policy file")
    names = ["http", "grpc", "headers", "admin-token", "forward-auth", "max-counters"]
    settings_.add_arguments(parser, names)
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Serves on loopback until Ctrl-C; 2 if it cannot start."""
    in_force = settings_.in_force(args)
    from tidegate.dataplane.usable import check  # noqa: PLC0415  after the arguments are good

    check(in_force)
    # Nobody balances over it, so nobody needs to be told before it stops.
    settings = replace(in_force.settings, drain_notice_us=0)
    if args.file or Path(_USUAL).exists():
        return _serve(Path(args.file or _USUAL), settings, is_own=True)
    with as_file(files("tidegate.dataplane") / _STARTER) as starter:
        return _serve(starter, settings, is_own=False)


def _serve(path: Path, settings: settings_.Settings, *, is_own: bool) -> int:
    from tidegate.dataplane.service import Service  # noqa: PLC0415  after the arguments are good

    def announce(started: Started) -> None:
        print(_welcome(path, started, is_own=is_own), flush=True)

    return Service(path, settings).run(announce)


def _welcome(path: Path, started: Started, *, is_own: bool) -> str:
    from tidegate.dataplane.example import example_of  # noqa: PLC0415

    url = f"http://{started.http}"
    name = quoted(str(path))[1:-1] if is_own else "the policy that Tidegate brings along"
    lines = [
        f"Tidegate runs {name} (revision {started.revision}), counters in memory.",
        "",
        f"  HTTP  {url}",
        f"  gRPC  {started.grpc}",
    ]
    example = example_of(started.document)
    if example is not None:
        is_usual = started.http == settings_.LOOPBACK_HTTP
        where = "" if is_usual else f" --server {url}"
        lines += ["", "Try:", f"  {example.curl(url)}", f"  {example.hit()}{where}"]
    advice = (
        "Edit the file: a change holds within a second."
        if is_own
        else f"Write your own as {_USUAL}, or name it: tidegate dev FILE."
    )
    return "\n".join([*lines, "", f"{advice} Ctrl-C stops."])
