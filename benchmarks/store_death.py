"""The store is killed under load and comes back: nobody waits for it, nobody fails.

Beside the load a client of its own asks at a steady pace and times every answer, with the store
alive and with it dying.

    python benchmarks/store_death.py [--seconds 12] [--share 0.6]
"""

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.accuracy.recorder import record
from benchmarks.accuracy.traffic import Arrival
from benchmarks.accuracy.wire import Recording, now_us, question
from benchmarks.harness import Bar, Figures, print_report, write_results
from benchmarks.turns import Load, Report, System, finished, late_notes, store_goes_first
from benchmarks.workloads import Workload
from tests.servers.valkey import StoreServer
from tidegate.compiler import compile_policy

SCENARIO = "store-death"
ALIVE, DYING = "the store alive", "the store killed and restarted"
DIES, RETURNS = 0.25, 0.5
"""Of the time."""
LATE_US, BACK_S = 10_000, 2.0
PROBES = 1_000
"""A second, of the client that times every answer."""
MODES = ("local", "open")
"""What decides without the store: the first that this Tidegate knows."""
POLICY = """\
version: 1
domains:
  bench:
    limits:
      - id: per-key
        per: [api_key]
        missing: shared
        rate: 1M/min
        on_store_failure: {mode}
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What load and probe saw."""

    report: Report
    probe: Recording
    back_s: float

    @property
    def figures(self) -> Figures:
        """For table and file. Times are those of the probe, whoever decided."""
        times = sorted(it.answered_us - it.sent_us for it in self.probe.exchanges)
        return {
            "exact_rate": self.report["rate"],
            "probe_p50_us": float(times[len(times) // 2]),
            "probe_p999_us": float(times[len(times) * 999 // 1000]),
            "probe_max_us": float(times[-1]),
            "answers_over_10_ms": float(sum(time > LATE_US for time in times)),
            "degraded": float(self.report["errors"].get("degraded", 0) + self.probe.degraded),
            "failed": float(self.failed),
            "back_s": self.back_s,
        }

    @property
    def failed(self) -> int:
        """Requests without a right answer; one that was made without the store is right."""
        of_load = {**self.report["errors"], "degraded": 0}
        return sum(of_load.values()) + sum(self.probe.errors.values())


def watched(system: System, load: Load, disturb: Callable[[], float]) -> Seen:
    """Loads and probes at once, and does something to the store meanwhile."""
    asked = question("bench", [("api_key", "probe")])
    due = [Arrival(at * 1_000_000 // PROBES, 0) for at in range(int(load.seconds * PROBES))]
    back: list[float] = []
    disturber = threading.Thread(target=lambda: back.append(disturb()))
    of_no_process = replace(system, store=None)  # the generator watches none that may die
    with of_no_process.start(load) as generator:
        disturber.start()
        probe = record([system.server.port], asked, due, now_us())
        disturber.join()
        return Seen(finished(generator), probe, back[0])


def dies(system: System, store: StoreServer, seconds: float) -> float:
    """Kills the store, restarts it, and says how long after that decisions were exact again."""
    time.sleep(DIES * seconds)
    store.stop(signal.SIGKILL)
    time.sleep((RETURNS - DIES) * seconds)
    store.start()
    store_goes_first(store)
    began = time.monotonic()
    while _is_degraded(system):
        time.sleep(0.01)
    return time.monotonic() - began


def _is_degraded(system: System) -> bool:
    """Whether one question now is decided without the store."""
    asked = question("bench", [("api_key", "look")])
    return record([system.server.port], asked, [Arrival(0, 0)], now_us()).degraded > 0


def main() -> int:
    """Measures with the store alive, then dying; prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--peak-seconds", type=float, default=4.0)
    parser.add_argument("--share", type=float, default=0.6)
    options = parser.parse_args()
    mode = next(it for it in MODES if compile_policy(POLICY.format(mode=it)).snapshot)
    workload = Workload(POLICY.format(mode=mode), "api_key=key-{i}", "", "")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        system = systems.ours(stack, folder, workload, shared_store=True)
        store = system.store
        assert store is not None
        peak = system.run(Load(options.peak_seconds, 1.0, connections=4, streams=16))["rate"]
        load = Load(options.seconds, 0.0, connections=4, rate=int(peak * options.share))
        seen = {
            ALIVE: watched(system, load, lambda: 0.0),
            DYING: watched(system, load, lambda: dies(system, store, options.seconds)),
        }
    figures = {name: it.figures for name, it in seen.items()}
    alive, dying = figures[ALIVE], figures[DYING]
    more = dying["answers_over_10_ms"] - alive["answers_over_10_ms"]
    bars = [
        Bar("microseconds at p99.9, the store dying", "<=", LATE_US, dying["probe_p999_us"]),
        Bar("answers over 10 ms, more than with the store alive", "<=", 0, max(0.0, more)),
        Bar("failed requests", "<=", 0, dying["failed"] + alive["failed"]),
        Bar("seconds until exact again", "<=", BACK_S, dying["back_s"]),
    ]
    notes = [
        f"{options.share:.0%} of the closed loop's rate of {peak:,.0f}, for {options.seconds:g} s",
        f"the store was killed after {DIES:.0%} and restarted after {RETURNS:.0%} of it",
        f"on_store_failure: {mode}; times are those of a client that asks {PROBES:,} a second",
    ]
    for name, it in seen.items():
        notes += [f"{name}: {count} x {what}" for what, count in it.report["errors"].items()]
        notes += [f"{name}: {late}" for late in late_notes(it.report)]
    print_report(SCENARIO, figures, bars, notes)
    print(f"  {write_results(SCENARIO, figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
