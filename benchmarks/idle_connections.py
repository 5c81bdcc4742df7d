"""What 10,000 idle connections cost: memory of each, and CPU time of those that are busy.

python benchmarks/idle_connections.py [--pairs 7] [--seconds 4] [--idle 10000]
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import (
    Bar,
    Figures,
    allow_open_files,
    paired_ratio,
    print_report,
    write_results,
)
from benchmarks.turns import Load, System, VoidError, figures_of

SCENARIO = "idle-connections"
WITH, WITHOUT = "with idle ones", "without"
BUSY = 100
# KiB, for resident memory is read from /proc, whose kB are 1,024 bytes.
KIB = 1024
BYTES, UNAFFECTED = 20 * KIB, 0.95
SPARE_FILES = 200
"""Files that a process has open beside the connections."""


def with_idle(system: System, load: Load) -> Figures:
    """A turn of the busy ones while the others stand open, and the memory of one of these."""
    report = system.report(load)
    memory = report["memory"]
    taken = memory["after_bytes"] - memory["before_bytes"]
    return figures_of(report) | {"bytes_per_connection": taken / load.idle}


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=2, help="of a busy connection")
    options = parser.parse_args()
    allow_open_files(options.idle + BUSY + SPARE_FILES)
    alone = Load(options.seconds, options.warmup, BUSY, options.streams)
    beside = Load(options.seconds, options.warmup, BUSY, options.streams, idle=options.idle)
    most = str(options.idle + BUSY + SPARE_FILES)
    more = ("--max-connections", most, "--max-connections-per-peer", most)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        ours = systems.ours(stack, folder, more=more)
        try:
            # On a server that never had so many: later ones reuse what the first were given.
            fresh = with_idle(ours, beside)
            turns = {
                WITH: lambda: with_idle(ours, beside),
                WITHOUT: lambda: ours.turn(alone),
            }
            paired = paired_ratio(turns, options.pairs)
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
    taken = fresh["bytes_per_connection"]
    paired.figures[WITH]["bytes_per_connection"] = taken
    bars = [
        Bar(f"KiB of an idle connection, {options.idle:,} of them", "<=", BYTES / KIB, taken / KIB),
        Bar(f"{BUSY} busy ones beside them, times without", ">=", UNAFFECTED, paired.median),
    ]
    notes = [
        "an idle connection has asked once and is silent; bytes are resident, on a fresh server",
        f"{options.streams} requests in flight on each busy connection",
        paired.note,
        *ours.notes,
    ]
    print_report(SCENARIO, paired.figures, bars, notes)
    print(f"  {write_results(SCENARIO, paired.figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
