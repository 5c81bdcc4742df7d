"""Bytes that a counter takes in memory, by resident size.

python benchmarks/memory_per_counter.py [--rounds 3]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import installed
from benchmarks.harness import Bar, Figures, print_report, take_turns, write_results

SCENARIO = "memory-per-counter"
COUNTERS = 1_000_000
BAR = 100.0
WORKER = f"""
import gc, json, os, sys
from tidegate import Limiter

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

# Whatever the store takes for its counters counts, also what it takes before the first.
Limiter().limit("1/s", id="warm").hit("up")
before = resident()
# Room beyond the counters: near its cap the store keeps places from a limit that holds most.
limiter = Limiter(max_counters={COUNTERS + COUNTERS // 4})
limit = limiter.limit("100/day", id="posts", algorithm=sys.argv[1])
for number in range({COUNTERS}):
    limit.hit("%020d" % number)
taken = resident() - before
assert limiter.engine.counters == {COUNTERS}, limiter.engine.counters
print(json.dumps({{"bytes_per_counter": taken / {COUNTERS}}}))
"""


def system(python: Path, algorithm: str) -> Callable[[], Figures]:
    """One million counters in a process of their own."""

    def run() -> Figures:
        done = subprocess.run(
            [python, "-c", WORKER, algorithm], capture_output=True, text=True, check=True
        )
        figures: Figures = json.loads(done.stdout)
        return figures

    return run


def main() -> int:
    """Measures, prints and writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    python = installed.python()
    systems = {
        "tidegate": system(python, "token_bucket"),
        "tidegate fixed_window": system(python, "fixed_window"),
        "tidegate sliding_window": system(python, "sliding_window"),
    }
    figures = take_turns(systems, options.rounds)
    worst = max(taken["bytes_per_counter"] for taken in figures.values())
    what = f"bytes_per_counter, {COUNTERS:,} counters, keys of 20 bytes"
    bars = [Bar(what, "<=", BAR, worst)]
    print_report(SCENARIO, figures, bars)
    print(f"  {write_results(SCENARIO, figures, bars)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
