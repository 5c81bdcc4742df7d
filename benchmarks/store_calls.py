"""Two ways of ours to a store under the same load, by interleaved pairs of turns."""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import systems
from benchmarks.harness import Bar, paired_ratio, print_report, write_results
from benchmarks.turns import Load, System, VoidError
from benchmarks.workloads import Workload

PATIENT = ("--store-timeout", "50ms")
"""Long enough that a busy core cuts no answer off: what counts is CPU time."""
SINGLE = ("--store-batch", "1")
"""Each request is a call of its own."""
_POLICY = """\
version: 1
domains:
  bench:
    limits:
      - {id: per-key, per: [api_key], missing: shared, rate: 4000M/min}
"""
SPREAD = Workload(_POLICY, "api_key=key-{i}", "", "")
"""One limit; each key has a Cluster slot of its own."""

Start = Callable[[ExitStack, Path], System]


def one_store(*more: str) -> Start:
    """Ours on one Redis of its own, with further options."""
    return lambda stack, folder: systems.ours(
        stack, folder, SPREAD, shared_store=True, more=(*PATIENT, *more)
    )


def measure(scenario: str, ways: Mapping[str, Start], bar: Callable[[float], Bar]) -> int:
    """Takes turns, prints the table, writes the results file.

    Args:
        scenario: Its name.
        ways: Two; the CPU time of the second is held against that of the first.
        bar: The bar, from how many times that is.
    """
    parser = argparse.ArgumentParser(prog=scenario)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--streams", type=int, default=16, help="requests in flight on each")
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, connections=4, streams=options.streams)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        found: dict[str, System] = {}
        for at, (name, start) in enumerate(ways.items()):
            home = folder / str(at)
            home.mkdir()
            found[name] = start(stack, home)
        turns = {name: partial(system.turn, load) for name, system in found.items()}
        try:
            for turn in turns.values():
                turn()  # fills the counters
            paired = paired_ratio(turns, options.pairs)
        except VoidError as void:
            print(f"{scenario}: VOID, {void}")
            return 1
        voids = [note for system in found.values() for note in system.notes]
    notes = [f"{load.connections} connections with {load.streams} requests in flight on each"]
    notes += [paired.note, *voids]
    bars = [bar(paired.median)]
    print_report(scenario, paired.figures, bars, notes)
    print(f"  {write_results(scenario, paired.figures, bars, notes)}")
    return 0
