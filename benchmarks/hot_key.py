"""One key that is the whole load, exact in a shared store: against the peer, and against many keys.

Before the turns, one that is counted: a limit that ends within it must let exactly N pass.

python benchmarks/hot_key.py [--rounds 3] [--seconds 4]
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, print_report, take_turns, write_results
from benchmarks.systems import OURS, PEER
from benchmarks.turns import Load, VoidError, ratio
from benchmarks.workloads import Workload

SCENARIO = "hot-key"
SPREAD = "tidegate, 10,000 keys"
N = 100_000
"""What the counted limit lets pass."""

_POLICY = """\
version: 1
domains:
  bench:
    limits:
      - {{id: per-key, per: [api_key], missing: shared, rate: {rate}, algorithm: fixed_window}}
"""
_PEER = """\
domain: bench
descriptors:
  - key: api_key
    rate_limit: {unit: minute, requests_per_unit: 4000000000}
"""


def workload(rate: str) -> Workload:
    """One limit by key."""
    entries = "api_key=key-{i}"
    return Workload(_POLICY.format(rate=rate), entries, _PEER, entries)


def passed(stack: ExitStack, folder: Path, load: Load) -> int:
    """How many a limit of N let pass, of more than N that asked."""
    patient = ("--store-timeout", "2s")
    counted = systems.ours(stack, folder, workload(f"{N}/day"), shared_store=True, more=patient)
    asks = (*counted.generator, "--expect", "either")
    report = replace(counted, generator=asks).run(load)
    if report["is_void"] or counted.degraded():
        raise VoidError(f"{report['errors']} in the turn that is counted")
    counted.server.stop()
    if report["over_limit"] < N / 2:
        raise RuntimeError(f"{report['answers']} answers do not go beyond a limit of {N}")
    return report["answers"] - report["over_limit"]


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--streams", type=int, default=16, help="of a connection")
    options = parser.parse_args()

    def load(keys: int, warmup: float = options.warmup) -> Load:
        seconds, connections = options.seconds, options.connections
        return Load(seconds, warmup, connections, options.streams, keys=keys)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        try:
            difference = passed(stack, folder, load(1, warmup=0)) - N
            endless = workload("4000M/min")
            ours = systems.ours(stack, folder, endless, shared_store=True)
            found = {OURS: (ours, load(1)), SPREAD: (ours, load(10_000))}
            if peer := systems.peer(stack, folder, endless):
                found[PEER] = (peer, load(1))
            turns = {
                name: lambda system=system, load=load: system.turn(load)
                for name, (system, load) in found.items()
            }
            figures = take_turns(turns, options.rounds)
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
        voids = [
            note
            for system in {id(it): it for it, _ in found.values()}.values()
            for note in system.notes
        ]
    hot, spread = figures[OURS]["rate"], figures[SPREAD]["rate"]
    bars = [
        Bar("admitted over", "<=", 0, max(difference, 0)),
        Bar("denied under", "<=", 0, max(-difference, 0)),
        Bar("times its own rate over 10,000 keys", ">=", 1, hot / spread),
    ]
    notes = [f"{options.connections} connections with {options.streams} requests in flight on each"]
    if PEER in figures:
        of_peer = ratio(figures, OURS, PEER)
        bars.append(Bar(f"times {PEER}", ">=", 10, of_peer.value))
        notes += [of_peer.note] if of_peer.note else []
    print_report(SCENARIO, figures, bars, [*notes, *voids])
    print(f"  {write_results(SCENARIO, figures, bars, [*notes, *voids])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
