"""One hot key with `consistency: local` on four nodes: how exact, and how often the store is asked.

python benchmarks/hot_key_local.py [--seconds 4]
"""

import argparse
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.accuracy import policy
from benchmarks.accuracy.nodes import start, until_known
from benchmarks.accuracy.policy import MODES
from benchmarks.accuracy.runs import Scope, real
from benchmarks.harness import Bar, Figures, print_report, write_results
from benchmarks.turns import Load, System, VoidError, finished
from tests.servers.cluster import info
from tests.servers.valkey import StoreServer

SCENARIO = "hot-key-local"
NODES = 4
N = 10_000
"""Of the limits that are held against the oracle; that of the calls is 6M/min."""
OVER_PERCENT, CALLS = 1, 21
RATES = (100, 1_000, None)
"""Requests a second and node; none: as fast as it goes."""
WARM_UP_S = 1.0
POLICY = """\
version: 1
domains:
  bench:
    limits:
      - {id: everybody, rate: 6M/min, consistency: local}
"""


def calls(store: StoreServer) -> int:
    """Scripts that the store has run."""
    stats = info(store, "commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))


def asked(found: list[System], store: StoreServer, load: Load) -> Figures:
    """All nodes under the same load at once: their rate, and the store's calls a node."""
    nodes = [replace(it, generator=(*it.generator, "--expect", "either")) for it in found]
    before, began = calls(store), time.monotonic()
    generators = [node.start(load) for node in nodes]
    reports = [finished(generator) for generator in generators]
    took = time.monotonic() - began
    for report in reports:
        if report["errors"]:
            raise VoidError(str(report["errors"]))
    return {
        "rate": sum(report["rate"] for report in reports) / len(nodes),
        "calls": (calls(store) - before) / took / len(nodes),
        "p99_us": max(report["p99_us"] for report in reports),
    }


def main() -> int:
    """Measures, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    mode = MODES["local"]
    if why := policy.refusal(mode):
        print(f"{SCENARIO}: not measured: {why}")
        return 0
    figures: dict[str, Figures] = {}
    try:
        rows = list(real(Scope(NODES, N), mode))
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="tidegate-bench-")))
            store = systems.start_store(stack)
            found = start(stack, folder, POLICY, store.url, NODES)
            until_known(found)
            for rate in RATES:
                name = f"{rate:,} a second and node" if rate else "as fast as it goes"
                streams = None if rate else 16
                load = Load(options.seconds, 0.0, 1, streams, keys=1, rate=rate)
                # What is asked for seldom is asked of the store; that of the first moment too.
                asked(found, store, replace(load, seconds=WARM_UP_S))
                figures[name] = asked(found, store, load)
    except VoidError as void:
        print(f"{SCENARIO}: VOID, {void}")
        return 1
    over = max(row.figures["over_percent"] for row in rows)
    bars = [
        Bar("admitted over, percent of N, in any traffic", "<=", OVER_PERCENT, over),
        Bar("denied under, in any traffic", "<=", 0, max(row.verdict.under for row in rows)),
        *(
            Bar(f"store calls a second and node, {name}", "<=", CALLS, it["calls"])
            for name, it in figures.items()
        ),
    ]
    notes = [f"{NODES} nodes; calls with a limit of 6M/min, over and under with {N:,} per 2 s"]
    print_report(SCENARIO, figures, bars, notes)
    print(f"  {write_results(SCENARIO, figures, bars, notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
