"""One system under one load for some seconds: what it did, and whether that counts.

Servers are on core 0, the generator and every store on core 1. A turn whose answers are not all
right is void: it is said, not counted, and made again.
"""

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NotRequired, TypedDict

from benchmarks import installed
from benchmarks.harness import Figures, stolen_seconds
from benchmarks.running import Running
from tests.servers.valkey import StoreServer

SERVER_CORE, LOAD_CORE = 0, 1
VOID_TURNS = 5
SATURATED = 0.9
"""The share of its core from which on a server sets the pace."""


class Lateness(TypedDict):
    """How late the generator came to what its schedule had due."""

    p99_us: float
    p999_us: float
    max_us: float
    is_late: bool


class Undisturbed(TypedDict):
    """The times of those seconds of a schedule in which no core of the machine was away."""

    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    seconds: int
    of: int


class Memory(TypedDict):
    """What the server held before and after the idle connections were opened."""

    before_bytes: int
    after_bytes: int


class Report(TypedDict):
    """What a generator prints."""

    rate: float
    answers: int
    over_limit: int
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    cpu_us: dict[str, float]
    cpu_share: dict[str, float]
    errors: dict[str, int]
    errors_at_us: list[int] | None
    is_void: bool
    answer: str
    lateness: NotRequired[Lateness]
    undisturbed: NotRequired[Undisturbed]
    memory: NotRequired[Memory]


@dataclass(frozen=True, slots=True)
class Load:
    """How hard and how long.

    Args:
        seconds: Measured time.
        warmup: Time before that, under the same load.
        connections: Open ones that ask.
        streams: Questions in flight on each; none where the protocol has one at a time.
        keys: Different requests.
        rate: A schedule, in requests a second; none: a closed loop.
        idle: Connections that stand open beside.
        is_awake: On a schedule: the generator never sleeps, and a store on its core goes first.
            Where cores are virtual, a sleep and a wake cost more than a request does.
        is_timed: On a schedule: times are what it is for, so that it is void where the generator
            was late or the machine's cores were away too long. False where CPU time counts, which
            pairs of turns make sound.
    """

    seconds: float
    warmup: float
    connections: int
    streams: int | None = None
    keys: int = 10_000
    rate: int | None = None
    idle: int = 0
    is_awake: bool = False
    is_timed: bool = True

    @property
    def arguments(self) -> list[str]:
        """For the generator."""
        said = {
            "core": LOAD_CORE,
            "connections": self.connections,
            "streams": self.streams,
            "seconds": self.seconds,
            "warmup": self.warmup,
            "keys": self.keys,
            "rate": self.rate,
            "idle": self.idle or None,
        }
        pairs = [(f"--{name}", str(value)) for name, value in said.items() if value is not None]
        words = [word for pair in pairs for word in pair]
        return [*words, "--awake"] if self.is_awake else words


class VoidError(Exception):
    """Turns with wrong or degraded answers, and no other."""


@dataclass
class System:
    """One server, how it is asked, and what a turn of it says.

    Args:
        server: The process.
        generator: The program that asks, with what it asks.
        store: What it counts in, if that is a process of its own.
        degraded: Decisions that were made without the store so far.
        port: Where it is asked, if that is not the server's first port.
        more_stores: Further processes that it counts in.
    """

    server: Running
    generator: Sequence[str]
    store: StoreServer | None = None
    degraded: Callable[[], float] = lambda: 0.0
    port: int | None = None
    more_stores: Sequence[StoreServer] = ()
    voids: list[str] = field(default_factory=list)

    @property
    def watched(self) -> dict[str, int]:
        """The processes whose CPU time counts."""
        stores = [*([self.store] if self.store else []), *self.more_stores]
        named = {f"store-{at}": store.pid for at, store in enumerate(stores)}
        return {"server": self.server.pid, **named}

    def start(self, load: Load) -> subprocess.Popen[str]:
        """Starts what drives the server. On a schedule it goes before a store on its core, for
        who wakes for a tick does not wait; one that never sleeps goes after."""
        place = _go_last if load.is_awake else partial(_go_first, 0, 2)
        return subprocess.Popen(
            self._command(load),
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=place if load.rate else None,  # noqa: PLW1509 - one system call
        )

    def _command(self, load: Load) -> list[str | Path]:
        program, *asks = self.generator
        watch = ",".join(f"{name}={pid}" for name, pid in self.watched.items())
        address = f"127.0.0.1:{self.port or self.server.port}"
        return [
            *(installed.program(program), "--address", address, "--watch", watch),
            *asks,
            *load.arguments,
        ]

    def run(self, load: Load) -> Report:
        """Drives the server once, whatever comes of it."""
        with self.start(load) as generator:
            return finished(generator)

    def report(self, load: Load) -> Report:
        """One turn that counts; void ones are made again.

        Raises:
            VoidError: Too many void turns in a row.
        """
        for _ in range(VOID_TURNS):
            degraded, stolen = self.degraded(), stolen_seconds()
            report = self.run(load)
            unseen = self.degraded() - degraded
            is_disturbed = load.is_timed and _is_disturbed(report)
            if not report["is_void"] and not unseen and not is_disturbed:
                return report
            self.voids.append(_why(report, unseen, stolen_seconds() - stolen))
        raise VoidError(f"{self.server.name}: {VOID_TURNS} void turns in a row: {self.voids[-1]}")

    def turn(self, load: Load) -> Figures:
        """The figures of one turn that counts."""
        return figures_of(self.report(load))

    @property
    def notes(self) -> list[str]:
        """What to say about its void turns."""
        return [f"void turn of {self.server.name}: {why}" for why in self.voids]


def finished(generator: subprocess.Popen[str]) -> Report:
    """What a generator has to say at its end."""
    said, _ = generator.communicate()
    if generator.returncode:
        raise RuntimeError("the generator broke off; what it said stands above")
    report: Report = json.loads(said)
    return report


def store_goes_first(store: StoreServer) -> None:
    """A store has cores of its own where it matters: here it does not wait while the generator
    uses up a slice of some milliseconds, where that is permitted."""
    _go_first(store.pid, 1)


def _go_last() -> None:
    """Nobody needs a permission for that, so that who never sleeps keeps no store waiting."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _go_first(process: int, urgency: int) -> None:
    with suppress(OSError):
        os.sched_setscheduler(process, os.SCHED_FIFO, os.sched_param(urgency))


def _is_disturbed(report: Report) -> bool:
    """Whether the machine's cores were away in more than half of a schedule's seconds, or the
    generator was late in the others: then it measures itself."""
    quiet, late = report.get("undisturbed"), report.get("lateness")
    if quiet is None or late is None:
        return False
    return late["is_late"] or 2 * quiet["seconds"] < quiet["of"] - 1


def late_notes(report: Report) -> list[str]:
    """What to say of a generator that was late for its own schedule."""
    late = report.get("lateness")
    if late is None or not late["is_late"]:
        return []
    return [f"the generator was late: p99 {late['p99_us']} us, p99.9 {late['p999_us']} us"]


def _why(report: Report, unseen: float, stolen: float) -> str:
    said = [f"{count} x {what}" for what, count in report["errors"].items()]
    if at := report["errors_at_us"]:
        said.append(f"{at[0] / 1e6:.3f} s to {at[1] / 1e6:.3f} s after the start")
    if unseen:
        said.append(f"{unseen:.0f} degraded decisions")
    said += late_notes(report)
    if quiet := report.get("undisturbed"):
        said.append(f"{quiet['seconds']} of {quiet['of']} seconds were undisturbed")
    if stolen:
        said.append(f"the machine's cores were away for {stolen:.2f} s")
    return ", ".join(said)


def figures_of(report: Report) -> Figures:
    """The figures for table and file; on a schedule, times are of the undisturbed seconds."""
    cpu, share = report["cpu_us"], report["cpu_share"]
    figures = {
        "rate": report["rate"],
        "server_cpu_us": cpu["server"],
        "store_cpu_us": _of_stores(cpu),
        "load_cpu_us": cpu["load"],
        "p50_us": report["p50_us"],
        "p99_us": report["p99_us"],
        "server_core": share["server"],
        "load_core": share["load"] + _of_stores(share),
    }
    late, quiet = report.get("lateness"), report.get("undisturbed")
    if late and quiet:
        figures |= {
            "p50_us": quiet["p50_us"],
            "p99_us": quiet["p99_us"],
            "p999_us": quiet["p999_us"],
            "max_us": quiet["max_us"],
            "undisturbed_s": quiet["seconds"],
            "whole_p99_us": report["p99_us"],
            "whole_p999_us": report["p999_us"],
            "late_p99_us": late["p99_us"],
            "late_p999_us": late["p999_us"],
        }
    return figures


def _of_stores(each: Mapping[str, float]) -> float:
    return sum(value for name, value in each.items() if name.startswith("store"))


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as good one system is as another; `note` says where it is not of rates."""

    value: float
    note: str | None = None


def ratio(figures: dict[str, Figures], better: str, other: str) -> Ratio:
    """Rate against rate where both servers set the pace, else CPU against CPU a decision."""
    ours, theirs = figures[better], figures[other]
    for name, taken in ((better, ours), (other, theirs)):
        server, load = taken["server_core"], taken["load_core"]
        if server < SATURATED or server < load:
            by_cpu = theirs["server_cpu_us"] / ours["server_cpu_us"]
            why = "the load's core was the busier one" if server < load else "its own was not full"
            note = f"{better} to {other} is of server CPU a decision: with {name}, {why}"
            return Ratio(by_cpu, note)
    return Ratio(ours["rate"] / theirs["rate"])
