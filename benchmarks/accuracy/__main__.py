"""Each consistency under each shape of traffic: admitted over and denied under, beside the bounds.

Real nodes on a real store, and beside them many simulated ones. Modes that this Tidegate does not
know yet are left out; those that are named are simulated all the same.

    python -m benchmarks.accuracy [--modes exact,local] [--nodes 4] [--simulated 50]
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy import policy
from benchmarks.accuracy.judge import judge
from benchmarks.accuracy.modes import node_of
from benchmarks.accuracy.nodes import running
from benchmarks.accuracy.policy import MODES, Mode
from benchmarks.accuracy.recorder import record
from benchmarks.accuracy.rows import HEADS, Row, bars, line
from benchmarks.accuracy.rule import SECOND_US, Exchange, Rule
from benchmarks.accuracy.simulator import simulate
from benchmarks.accuracy.traffic import SHAPES, Course, arrivals
from benchmarks.accuracy.wire import now_us, question
from benchmarks.harness import write_results
from benchmarks.turns import VOID_TURNS, System, VoidError

SCENARIO = "accuracy"
PERIOD_S = 2
AHEAD_US = 300_000
"""Before a run begins, so that its first question is not late."""
SAME_AS = {"auto": "local"}
"""A hot key under `auto` is `local`; the simulator has no other."""


def real(options: argparse.Namespace, mode: Mode) -> Iterator[Row]:
    """What real nodes do."""
    n, nodes = options.n, options.nodes
    text = policy.policy(mode, n, PERIOD_S)
    is_exact = mode.name == "exact"
    runs = count()
    with running(text, nodes, in_cluster=mode.needs_cluster, settle=not is_exact) as found:
        for rule in _rules(options, mode, n):
            for shape in options.traffic:
                course = Course(rule, nodes, options.periods)
                for _ in range(VOID_TURNS):
                    asked = policy.entries(rule, f"{shape}-{next(runs)}")
                    seen = _run(found, course, shape, question(policy.DOMAIN, asked))
                    if seen is not None:
                        break
                else:
                    raise VoidError(f"{mode.name}, {rule.algorithm}, {shape}: see above")
                yield Row.of(mode, rule, shape, nodes, seen)


def simulated(options: argparse.Namespace, mode: Mode) -> Iterator[Row]:
    """What many nodes would do."""
    nodes = options.simulated
    node = node_of(MODES[SAME_AS.get(mode.name, mode.name)])
    shards = mode.parts if mode.needs_cluster else 1
    for rule in _rules(options, mode, options.simulated_n):
        for shape in options.traffic:
            due = arrivals(shape, Course(rule, nodes, options.periods))
            world = simulate(rule, nodes, node, due, shards)
            verdict = judge(rule, world.seen)
            yield Row(mode, rule, shape, nodes, is_simulated=True, verdict=verdict)


def main() -> int:
    """Prints line by line, writes the results file; 1 if a bound did not hold."""
    options = _options()
    rows: list[Row] = []
    numbers = (
        f"N = {options.n:,} per {PERIOD_S} s with real nodes, {options.simulated_n:,} with many"
    )
    notes = [
        f"{numbers}; {options.periods:g} periods of each",
        "over and under are what is sure whenever within its answer's time each was decided",
    ]
    print(line(HEADS), flush=True)
    try:
        for mode in options.modes:
            why = policy.refusal(mode)
            if why:
                notes.append(f"{mode.name} is not measured: {why}")
                print(notes[-1], flush=True)
            elif options.nodes:
                rows += _told(real(options, mode))
            if options.simulated and (options.is_named or not why):
                rows += _told(simulated(options, mode))
    except VoidError as void:
        print(f"{SCENARIO}: VOID, {void}")
        return 1
    figures = {row.name: row.figures for row in rows}
    if not options.dry:
        print(write_results(SCENARIO, figures, bars(rows), notes))
    return 0 if all(row.is_held for row in rows) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    known, shapes = ",".join(MODES), ",".join(SHAPES)
    parser.add_argument("--modes", help=f"of {known}")
    parser.add_argument("--algorithms", default=",".join(policy.ALGORITHMS))
    parser.add_argument("--traffic", default=shapes, help=f"of {shapes}")
    parser.add_argument("--nodes", type=int, default=4, help="real ones; 0: none")
    parser.add_argument("--simulated", type=int, default=50, help="simulated ones; 0: none")
    parser.add_argument("--n", type=int, default=10_000, help="the limit of real nodes")
    parser.add_argument("--simulated-n", type=int, default=20_000, help="of simulated ones")
    parser.add_argument("--periods", type=float, default=3.0, help="of each run")
    parser.add_argument("--dry", action="store_true", help="write no results file")
    options = parser.parse_args()
    options.is_named = options.modes is not None
    options.modes = [MODES[name] for name in (options.modes or known).split(",")]
    options.algorithms = options.algorithms.split(",")
    options.traffic = options.traffic.split(",")
    return options


def _rules(options: argparse.Namespace, mode: Mode, n: int) -> Iterator[Rule]:
    for algorithm in mode.algorithms:
        if algorithm in options.algorithms:
            yield Rule(algorithm, n, PERIOD_S * SECOND_US)


def _run(found: list[System], course: Course, shape: str, asked: bytes) -> list[Exchange] | None:
    """One run that begins with a window; none if something went wrong."""
    due = arrivals(shape, course)
    ports = [node.server.port for node in found]
    begin = (course.rule.window(now_us() + AHEAD_US) + 1) * course.rule.period_us
    recording = record(ports, asked, due, begin)
    if recording.errors or recording.degraded:
        errors = dict(recording.errors) | {"degraded": recording.degraded}
        print(f"void: {course.rule.algorithm}, {shape}: {errors}", flush=True)
        return None
    return recording.exchanges


def _told(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        print(line(row.cells()), flush=True)
        yield row


if __name__ == "__main__":
    sys.exit(main())
