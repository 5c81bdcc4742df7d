"""Two ways of ours to a store under the same load, by interleaved pairs of turns."""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks import systems
from benchmarks.harness import Bar, Paired, paired_ratio, print_report, write_results
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


def measure(
    scenario: str,
    ways: Mapping[str, Start],
    bar: Callable[[float], Bar],
    share: float | None = None,
) -> int:
    """Takes turns, prints the table, writes the results file.

    Args:
        scenario: Its name.
        ways: Two; the CPU time of the second is held against that of the first.
        bar: The bar, from how many times that is.
        share: Hold both at the same rate as well, this share of the slower one's closed loop, 0 to
            1, against the same bar. None: closed loops alone, each at its own rate.
    """
    parser = argparse.ArgumentParser(prog=scenario)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--streams", type=int, default=16, help="requests in flight on each")
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, connections=4, streams=options.streams)
    flight = f"{load.connections} connections with {load.streams} requests in flight on each"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        found: dict[str, System] = {}
        for at, (name, start) in enumerate(ways.items()):
            home = folder / str(at)
            home.mkdir()
            found[name] = start(stack, home)
        try:
            for system in found.values():
                system.turn(load)  # fills the counters
            paired = _paired(found, load, options.pairs)
            bars, notes = [bar(paired.median)], [f"{flight}: {paired.note}"]
            if share is not None:
                rate = int(share * min(way["rate"] for way in paired.figures.values()))
                load = replace(load, rate=rate, is_awake=True, is_timed=False)
                paired = _paired(found, load, options.pairs)
                again = bar(paired.median)
                bars.append(replace(again, what=f"{again.what}, at the same rate"))
                notes.append(f"both at {rate:,} requests a second: {paired.note}")
        except VoidError as void:
            print(f"{scenario}: VOID, {void}")
            return 1
        notes += [note for system in found.values() for note in system.notes]
    print_report(scenario, paired.figures, bars, notes)
    print(f"  {write_results(scenario, paired.figures, bars, notes)}")
    return 0


def _paired(systems: Mapping[str, System], load: Load, pairs: int) -> Paired:
    return paired_ratio({name: partial(way.turn, load) for name, way in systems.items()}, pairs)
