"""One hot key in a Cluster of three masters: `sharded: 8`, against `exact` in one slot.

python benchmarks/hot_key_sharded.py [--rounds 3] [--seconds 4]
"""

import argparse
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.accuracy.nodes import start
from benchmarks.harness import Bar, Figures, cpu_us, print_report, take_turns, write_results
from benchmarks.turns import Load, System, VoidError, figures_of
from tests.servers.cluster import ClusterServers
from tidegate.compiler import compile_policy

SCENARIO = "hot-key-sharded"
SHARDED, EXACT = "sharded: 8", "exact"
BAR = 0.5
N = 50_000
"""What the counted limit lets pass."""
POLICY = """\
version: 1
domains:
  bench:
    limits:
      - id: everybody
        rate: {rate}
        algorithm: fixed_window
        consistency: {words}
"""
WORDS = {SHARDED: "{sharded: 8}", EXACT: "exact"}


def turn(system: System, cluster: ClusterServers, load: Load) -> Figures:
    """One turn: what its busiest master and all of them spent on a decision."""
    before = [cpu_us(master.pid) for master in cluster.servers]
    report = system.report(load)
    masters = zip(cluster.servers, before, strict=True)
    used = [cpu_us(master.pid) - first for master, first in masters]
    return figures_of(report) | {
        "busiest_master_us": max(used) / report["answers"],
        "all_masters_us": sum(used) / report["answers"],
    }


def passed(stack: ExitStack, folder: Path, cluster: ClusterServers, load: Load) -> int:
    """How many a limit of N let pass, of more than N that asked."""
    policy = POLICY.format(rate=f"{N}/day", words=WORDS[SHARDED])
    (counted,) = start(stack, folder, policy, cluster.url, 1)
    asks = (*counted.generator, "--expect", "either")
    report = replace(counted, generator=asks).run(load)
    if report["is_void"]:
        raise VoidError(f"{report['errors']} in the turn that is counted")
    counted.server.stop()
    if report["over_limit"] < N / 2:
        raise RuntimeError(f"{report['answers']} answers do not go beyond a limit of {N}")
    return report["answers"] - report["over_limit"]


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    policies = {it: POLICY.format(rate="4000M/min", words=words) for it, words in WORDS.items()}
    refused = [it for it in compile_policy(policies[SHARDED]).problems if it.is_error]
    if refused:
        print(f"{SCENARIO}: not measured: {refused[0]}")
        return 0
    # No warm-up: what the masters spend is counted from the first decision on.
    load = Load(options.seconds, 0.0, connections=4, streams=16, keys=1)
    turns: dict[str, partial[Figures]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tidegate-bench-")))
        homes = {name: folder / str(at) for at, name in enumerate(("counted", *WORDS))}
        for home in homes.values():
            home.mkdir()
        try:
            first = systems.start_cluster(stack)
            difference = passed(stack, homes["counted"], first, load) - N
            for name, policy in policies.items():
                cluster = systems.start_cluster(stack)
                (system,) = start(stack, homes[name], policy, cluster.url, 1)
                turns[name] = partial(turn, system, cluster, load)
            figures = take_turns(turns, options.rounds)
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
    share = figures[SHARDED]["busiest_master_us"] / figures[EXACT]["busiest_master_us"]
    bars = [
        Bar("busiest master's CPU a decision, times that of exact", "<=", BAR, share),
        Bar("admitted over", "<=", 0, max(difference, 0)),
        Bar("denied under", "<=", 0, max(-difference, 0)),
    ]
    print_report(SCENARIO, figures, bars)
    print(f"  {write_results(SCENARIO, figures, bars)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
