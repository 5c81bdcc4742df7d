"""HTTP `/v1/check` on connections that stay open, against a bare hyper server with the same body.

The generator never sleeps: a server that wakes its peer pays for that with its own CPU time, the
slower one for more of its answers, and how much depends on the machine.

python benchmarks/http_check.py [--rounds 3] [--seconds 4]
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, print_report, take_turns, write_results
from benchmarks.systems import OURS
from benchmarks.turns import Load, VoidError, ratio

SCENARIO = "http-check"
HTTP_FLOOR = "hyper"
BAR = 0.6


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, options.connections)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        ours = systems.over_http(systems.ours(stack, folder))
        try:
            floor = systems.http_floor(stack, folder, ours)
            turns = {OURS: lambda: ours.turn(load), HTTP_FLOOR: lambda: floor.turn(load)}
            figures = take_turns(turns, options.rounds)
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
        voids = [*ours.notes, *floor.notes]
    of_floor = ratio(figures, OURS, HTTP_FLOOR)
    bars = [Bar("times a bare hyper server", ">=", BAR, of_floor.value)]
    notes = [
        f"{load.connections} connections, one request at a time on each, headers off",
        "the generator never sleeps, so that no server pays for waking it",
    ]
    notes += [note for note in (of_floor.note, *voids) if note]
    print_report(SCENARIO, figures, bars, notes)
    print(f"  {write_results(SCENARIO, figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
