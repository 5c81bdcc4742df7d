"""What watching costs: all metrics and the ring of denials, against neither.

Two loads: everything passes, and everything is denied, where each denial is kept to be explained.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, Figures, Paired, paired_ratio, print_report, write_results
from benchmarks.turns import Load, System, VoidError
from benchmarks.workloads import ONE_LIMIT, Workload

NAME = "observability"
BAR = 0.95
OFF = ("--metrics", "off", "--denials-kept", "0")
PASSING = ONE_LIMIT
DENIED = replace(ONE_LIMIT, policy=ONE_LIMIT.policy.replace("1M/min", "1/min"))


def pair(load: Load, name: str, workload: Workload, expect: str, pairs: int) -> Paired:
    """Watched against unwatched, under one load."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        found: dict[str, System] = {}
        for part, more in ((f"watched, {name}", ()), (f"unwatched, {name}", OFF)):
            home = folder / part
            home.mkdir()
            system = systems.ours(stack, home, workload, more=more)
            found[part] = replace(system, generator=(*system.generator, "--expect", expect))
        turns = {part: partial(system.turn, load) for part, system in found.items()}
        for turn in turns.values():
            turn()  # fills the counters, and the ring
        return paired_ratio(turns, pairs)


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(prog=NAME)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--warmup", type=float, default=0.5)
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, connections=4, streams=64)
    figures: dict[str, Figures] = {}
    bars: list[Bar] = []
    notes: list[str] = []
    loads = (("passing", PASSING, "ok"), ("denied", DENIED, "either"))
    for name, workload, expect in loads:
        try:
            paired = pair(load, name, workload, expect, options.pairs)
        except VoidError as void:
            print(f"{NAME}: VOID, {void}")
            return 1
        figures |= paired.figures
        bars.append(Bar(f"unwatched CPU to watched, {name}", ">=", BAR, paired.median))
        notes.append(paired.note)
    print_report(NAME, figures, bars, notes)
    print(f"  {write_results(NAME, figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
