"""What it costs that requests share calls to the store: against a call for each, over 10,000 keys.

python benchmarks/coalescing.py [--pairs 9] [--seconds 3]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Bar
from benchmarks.store_calls import SINGLE, measure, one_store

BAR = 0.97


def main() -> int:
    """Coalescing on, held against coalescing off."""
    ways = {"calls shared": one_store(), "a call for each": one_store(*SINGLE)}
    what = "CPU of a call for each to that of calls shared"
    return measure("coalescing", ways, lambda times: Bar(what, ">=", BAR, times))


if __name__ == "__main__":
    sys.exit(main())
