"""HTTP `/v1/check` on connections that stay open, against a bare hyper server with the same body.

The generator never sleeps: a server that wakes its peer pays for that with its own CPU time, the
slower one for more of its answers, and how much depends on the machine.

python benchmarks/http_check.py [--pairs 9] [--seconds 3]
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, paired_ratio, print_report, write_results
from benchmarks.systems import OURS
from benchmarks.turns import Load, VoidError

SCENARIO = "http-check"
HTTP_FLOOR = "hyper"
BAR = 0.6


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", type=float, default=0.5)
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, options.connections)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        ours = systems.over_http(systems.ours(stack, folder))
        try:
            floor = systems.http_floor(stack, folder, ours)
            turns = {OURS: lambda: ours.turn(load), HTTP_FLOOR: lambda: floor.turn(load)}
            paired = paired_ratio(turns, options.pairs)
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
        voids = [*ours.notes, *floor.notes]
    bars = [Bar("times a bare hyper server", ">=", BAR, paired.median)]
    notes = [
        f"{load.connections} connections, one request at a time on each, headers off",
        "the generator never sleeps, so that no server pays for waking it",
        paired.note,
        *voids,
    ]
    print_report(SCENARIO, paired.figures, bars, notes)
    print(f"  {write_results(SCENARIO, paired.figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
