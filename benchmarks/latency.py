"""Latency at 60 % of the peak, on a schedule: from when a request was due to its answer.

The peak is that of a closed loop on the same server just before. A second in which the machine's
host kept a core from it, and the one after, do not count: what they show is not the server. The
whole run stands beside. The generator never sleeps: where cores are virtual, sleeping and waking
took more of its core than asking did, and made it late. A generator that was late for its own
schedule in the seconds that count, or fewer than half of them left, makes the run void.

The floor server, which decides nothing, goes first, once, at the same share of its own peak: what
it shows is the machine.

    python benchmarks/latency.py [--seconds 60] [--share 0.6]
"""

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, Figures, print_report, write_results
from benchmarks.turns import Load, System, VoidError, figures_of

SCENARIO = "latency"
MEMORY, REDIS = "tidegate in memory", "tidegate with Redis"
BARS = {MEMORY: {"p99_us": 1_000, "p999_us": 5_000}, REDIS: {"p99_us": 2_000, "p999_us": 5_000}}
PEAK_TURNS = 3


@dataclass(frozen=True, slots=True)
class Course:
    """How the peak is found, and what share of it is kept up for how long."""

    peak: Load
    share: float
    seconds: float

    def run(self, system: System) -> Figures:
        """Finds the peak, then measures below it."""
        peak = self._peak_of(system)
        return {"peak_rate": peak} | system.turn(self._below(peak))

    def look(self, system: System) -> Figures:
        """The same once, whatever disturbed it."""
        peak = self._peak_of(system)
        return {"peak_rate": peak} | figures_of(system.run(self._below(peak)))

    def _peak_of(self, system: System) -> float:
        return statistics.median(system.turn(self.peak)["rate"] for _ in range(PEAK_TURNS))

    def _below(self, peak: float) -> Load:
        rate, calm = int(peak * self.share), self.peak
        return Load(self.seconds, calm.warmup, calm.connections, rate=rate, is_awake=True)


def of_the_machine(floor: Figures) -> str:
    """What the floor server showed, over all seconds."""
    p99, p999 = floor["whole_p99_us"], floor["whole_p999_us"]
    said = f"{systems.FLOOR} server at {floor['rate']:,.0f} a second, all seconds"
    return f"{said}: p99 {p99:,.0f} us, p99.9 {p999:,.0f} us"


def bars_of(figures: dict[str, Figures]) -> list[Bar]:
    """The promises."""
    named = {"p99_us": "p99", "p999_us": "p99.9"}
    return [
        Bar(f"{name}: microseconds at {named[figure]}", "<=", bar, figures[name][figure])
        for name, bars in BARS.items()
        for figure, bar in bars.items()
        if name in figures
    ]


def main() -> int:
    """Measures both stores, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--peak-seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=2.0)
    parser.add_argument("--share", type=float, default=0.6)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--store-timeout", default="1s", help="so long that it hides no latency")
    options = parser.parse_args()
    timeout = ("--store-timeout", options.store_timeout)
    figures: dict[str, Figures] = {}
    notes = [
        f"{options.share:.0%} of the closed loop's rate, for {options.seconds:g} s",
        "times are of the seconds in which no core was away (steal in /proc/stat); whole: of all",
        f"the store's deadline is {options.store_timeout}, so that no late answer is cut off",
    ]
    for name, is_shared, streams in ((MEMORY, False, 64), (REDIS, True, 16)):
        peak = Load(options.peak_seconds, options.warmup, options.connections, streams)
        course = Course(peak, options.share, options.seconds)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-")))
            more = timeout if is_shared else ()
            system = systems.ours(stack, folder, shared_store=is_shared, more=more)
            try:
                if name == MEMORY:
                    figures[systems.FLOOR] = course.look(systems.floor(stack, folder, system))
                    notes.append(of_the_machine(figures[systems.FLOOR]))
                figures[name] = course.run(system)
            except VoidError as void:
                print(f"{SCENARIO}: VOID, {name}: {void}", *notes, sep="\n  ")
                return 1
            notes += system.notes
    bars = bars_of(figures)
    print_report(SCENARIO, figures, bars, notes)
    print(f"  {write_results(SCENARIO, figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
