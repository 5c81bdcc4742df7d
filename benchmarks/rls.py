"""Rate limit calls over gRPC: ours, the floor server and envoyproxy/ratelimit under one load."""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import systems
from benchmarks.harness import Bar, Figures, print_report, take_turns, write_results
from benchmarks.systems import FLOOR, OURS, PEER
from benchmarks.turns import Load, Ratio, System, VoidError, ratio
from benchmarks.workloads import Workload


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is compared under which load, and what is promised.

    Args:
        name: As in `make bench ONLY=name`.
        workload: Policy and requests.
        shared_store: Whether we count in a store.
        streams: In flight on each connection.
        bars: How many times as good as another system we are, at least.
        cpu_bars: Our server's CPU a decision, as a part of another's, at most.
        notes: What a reader has to know.
    """

    name: str
    workload: Workload
    shared_store: bool
    streams: int
    bars: dict[str, float]
    cpu_bars: dict[str, float]
    notes: tuple[str, ...] = ()


@contextmanager
def running(scenario: Scenario) -> Iterator[dict[str, System]]:
    """All systems, started and idle."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        workload = scenario.workload
        ours = systems.ours(stack, folder, workload, shared_store=scenario.shared_store)
        found = {OURS: ours, FLOOR: systems.floor(stack, folder, ours)}
        if peer := systems.peer(stack, folder, workload):
            found[PEER] = peer
        yield found


def judge(scenario: Scenario, figures: dict[str, Figures]) -> tuple[list[Bar], list[Ratio]]:
    """The promises; without a peer there is nothing to hold us against."""
    found, ratios = [], []
    for other, bar in scenario.bars.items():
        if other in figures:
            ratios.append(ratio(figures, OURS, other))
            name = "the floor server" if other == FLOOR else other
            found.append(Bar(f"times {name}", ">=", bar, ratios[-1].value))
    for other, bar in scenario.cpu_bars.items():
        if other in figures:
            part = figures[OURS]["server_cpu_us"] / figures[other]["server_cpu_us"]
            found.append(Bar(f"server CPU a decision, times that of {other}", "<=", bar, part))
    return found, ratios


def measure(scenario: Scenario) -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(prog=scenario.name)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--streams", type=int, default=scenario.streams, help="of a connection")
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, options.connections, options.streams)
    with running(scenario) as found:
        try:
            figures = take_turns(
                {name: _turn(system, load) for name, system in found.items()}, options.rounds
            )
        except VoidError as void:
            print(f"{scenario.name}: VOID, {void}")
            return 1
        voids = [note for system in found.values() for note in system.notes]
    bars, ratios = judge(scenario, figures)
    in_flight = f"{load.connections} connections with {load.streams} requests in flight on each"
    notes = [in_flight, *scenario.notes, *(taken.note for taken in ratios if taken.note), *voids]
    print_report(scenario.name, figures, bars, notes)
    print(f"  {write_results(scenario.name, figures, bars, notes)}")
    return 0


def _turn(system: System, load: Load) -> Callable[[], Figures]:
    return lambda: system.turn(load)
