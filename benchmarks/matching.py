"""What matching costs among many limits and tenants, against few of them."""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Bar, Figures, print_report, take_turns, write_results

ROOT = Path(__file__).parents[1]


def measure() -> Figures:
    command = ["cargo", "run", "-q", "--release", "-p", "tidegate-load", "--bin", "matching"]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {name: float(value) for name, value in json.loads(said.stdout).items()}


def main() -> None:
    systems = take_turns({"tidegate": measure}, rounds=3)
    ours = systems["tidegate"]
    bars = [
        Bar(
            "cost among 1,000 limits, times that among 10",
            "<=",
            3.0,
            ours["limits_1000_ns"] / ours["limits_10_ns"],
        ),
        Bar(
            "cost among 10,000 tenants, times that among 100",
            "<=",
            1.5,
            ours["tenants_10000_ns"] / ours["tenants_100_ns"],
        ),
    ]
    print_report("matching", systems, bars)
    write_results("matching", systems, bars)


if __name__ == "__main__":
    main()
