"""`posts.hit(key)` in this process, beside the `limits` package on its memory storage.

python benchmarks/inproc_memory.py [--rounds 5]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import installed
from benchmarks.harness import Bar, Figures, pin, print_report, take_turns, write_results

SCENARIO = "inproc-memory"
WORKER = Path(__file__).parent / "inproc_worker.py"
BARS = {"hit_1_key_us": 0.3, "hit_100k_keys_us": 0.8}
TIMES_LIMITS = 5.0
CORE = 1


def system(python: Path, name: str, algorithm: str) -> Callable[[], Figures]:
    """One round in a process of its own, on one core."""

    def run() -> Figures:
        done = subprocess.run(
            [python, WORKER, name, algorithm],
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=lambda: pin(CORE),
        )
        figures: Figures = json.loads(done.stdout)
        return figures

    return run


def main() -> int:
    """Runs the comparison, prints it and writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ours, theirs = installed.python(), Path(sys.executable)
    systems = {
        "tidegate": system(ours, "tidegate", "token_bucket"),
        "tidegate fixed_window": system(ours, "tidegate", "fixed_window"),
        "tidegate sliding_window": system(ours, "tidegate", "sliding_window"),
        "limits": system(theirs, "limits", "fixed_window"),
        "limits sliding_window": system(theirs, "limits", "sliding_window"),
    }
    figures = take_turns(systems, options.rounds)
    bars = [
        Bar(f"{name} of tidegate", "<=", bar, figures["tidegate"][name])
        for name, bar in BARS.items()
    ]
    bars += [
        Bar(
            f"{name} of limits (its fastest) over ours",
            ">=",
            TIMES_LIMITS,
            figures["limits"][name] / figures["tidegate"][name],
        )
        for name in BARS
    ]
    print_report(SCENARIO, figures, bars)
    print(f"  {write_results(SCENARIO, figures, bars)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
