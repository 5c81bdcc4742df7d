"""Ten minutes at 60 % of the peak while the policy changes every 5 s: no failure, flat memory.

python benchmarks/soak.py [--minutes 10]
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, Figures, print_report, resident_bytes, write_results
from benchmarks.systems import OURS
from benchmarks.turns import Load, Report, System, VoidError, figures_of, finished, late_notes
from benchmarks.workloads import ONE_LIMIT

SCENARIO = "soak"
RELOAD_S, LOOK_S = 5.0, 1.0
SHARE, GROWTH = 0.6, 1.05
PARTS = 10
"""Memory is compared by tenths of the time; the first one warms up."""
REVISION = "tidegate_policy_info"


@dataclass
class Watch:
    """What is seen of the server while it is under load."""

    system: System
    policy: Path
    resident: list[int] = field(default_factory=list)
    written: int = 0
    revisions: set[str] = field(default_factory=set)

    def run(self, load: subprocess.Popen[str]) -> None:
        """Changes the policy and looks at memory until the load ends."""
        start = time.monotonic()
        while load.poll() is None:
            if time.monotonic() - start >= (self.written + 1) * RELOAD_S:
                self._rewrite()
            self.resident.append(resident_bytes(self.system.server.pid))
            self.revisions |= systems.labels(self.system.server, REVISION)
            time.sleep(LOOK_S)

    def _rewrite(self) -> None:
        self.written += 1
        number = f"{1_000_000 + self.written}/min"
        new = self.policy.with_suffix(".new")
        new.write_text(ONE_LIMIT.policy.replace("1M/min", number))
        new.replace(self.policy)


def growth(resident: Sequence[int]) -> float:
    """The largest part of the time against the smallest, without the first; 1.0 is flat."""
    size = max(1, len(resident) // PARTS)
    parts = [resident[at : at + size] for at in range(size, len(resident), size)]
    medians = [statistics.median(part) for part in parts if len(part) == size]
    return max(medians) / min(medians) if medians else 1.0


def soak(system: System, policy: Path, load: Load) -> tuple[Report, Watch]:
    """Loads and watches at once."""
    watch = Watch(system, policy)
    with system.start(load) as generator:
        watch.run(generator)
        return finished(generator), watch


def main() -> int:
    """Runs it, prints what was seen, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--peak-seconds", type=float, default=4.0)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        ours = systems.ours(stack, folder)
        try:
            peak = ours.turn(Load(options.peak_seconds, 1.0, 4, 64))["rate"]
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
        load = Load(options.minutes * 60, 1.0, 4, rate=int(peak * SHARE))
        report, watch = soak(ours, systems.policy_of(folder), load)
    errors = report["errors"]
    figures: Figures = {"peak_rate": peak} | figures_of(report)
    figures |= {
        "resident_mb": watch.resident[-1] / 1e6,
        "policies_written": float(watch.written),
        "policies_seen": float(len(watch.revisions) - 1),
    }
    bars = [
        Bar("resident memory, largest tenth to smallest", "<=", GROWTH, growth(watch.resident)),
        Bar("failed requests", "<=", 0, float(sum(errors.values()))),
        # One that is written in the last moment may not be seen any more.
        Bar("policies not seen in force", "<=", 1, watch.written + 1.0 - len(watch.revisions)),
    ]
    notes = [f"{options.minutes:g} minutes at {SHARE:.0%} of the peak", *late_notes(report)]
    notes += [f"{count} x {what}" for what, count in errors.items()]
    print_report(SCENARIO, {OURS: figures}, bars, notes)
    print(f"  {write_results(SCENARIO, {OURS: figures}, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
