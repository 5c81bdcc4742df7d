"""Each consistency under each shape of traffic: admitted over and denied under, beside the bounds.

Real nodes on a real store, and beside them many simulated ones. Modes that this Tidegate does not
know yet are left out; those that are named are simulated all the same.

    python -m benchmarks.accuracy [--modes exact,local] [--nodes 4] [--simulated 50]
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.accuracy import policy
from benchmarks.accuracy.policy import MODES
from benchmarks.accuracy.rows import HEADS, Row, bars, by_mode, earlier, line
from benchmarks.accuracy.runs import PERIOD_S, Scope, real, simulated
from benchmarks.accuracy.traffic import SHAPES
from benchmarks.harness import RESULTS, write_results
from benchmarks.turns import VoidError

SCENARIO = "accuracy"


def main() -> int:
    """Prints line by line, writes the results file; 1 if it is void."""
    options = _options()
    given = (
        options.periods,
        tuple(options.algorithms.split(",")),
        tuple(options.traffic.split(",")),
    )
    few = Scope(options.nodes, options.n, *given)
    many = Scope(options.simulated, options.simulated_n, *given)
    rows: list[Row] = []
    notes = [
        f"N = {options.n:,} per {PERIOD_S} s, simulated {options.simulated_n:,}",
        f"{options.periods:g} periods of each",
        "over and under are what is sure whenever within its answer's time each was decided",
    ]
    print(line(HEADS), flush=True)
    for name in options.modes or MODES:
        mode = MODES[name]
        why = policy.refusal(mode)
        if why:
            notes.append(f"{name} is not measured: {why}")
            print(notes[-1], flush=True)
        try:
            if few.nodes and not why:
                rows += _told(real(few, mode))
            if many.nodes and (options.modes or not why):
                rows += _told(simulated(many, mode))
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
    if not options.dry:
        figures = {row.name: row.figures for row in rows}
        measured = {row.mode.name for row in rows}
        before, kept = earlier(RESULTS / f"{SCENARIO}.json", measured)
        print(write_results(SCENARIO, by_mode(before | figures), [*kept, *bars(rows)], notes))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    shapes = ",".join(SHAPES)
    parser.add_argument(
        "--modes",
        type=_modes,
        help=f"of {','.join(MODES)}; those of the others in the results file stay as they are",
    )
    parser.add_argument("--algorithms", default=",".join(policy.ALGORITHMS))
    parser.add_argument("--traffic", default=shapes, help=f"of {shapes}")
    parser.add_argument("--nodes", type=int, default=4, help="real ones; 0: none")
    parser.add_argument("--simulated", type=int, default=50, help="simulated ones; 0: none")
    parser.add_argument("--n", type=int, default=10_000, help="the limit of real nodes")
    parser.add_argument("--simulated-n", type=int, default=20_000, help="of simulated ones")
    parser.add_argument("--periods", type=float, default=3.0, help="of each run")
    parser.add_argument("--dry", action="store_true", help="write no results file")
    return parser.parse_args()


def _modes(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in MODES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(MODES)}")
    return names


def _told(rows: Iterator[Row]) -> Iterator[Row]:
    for row in rows:
        print(line(row.cells()), flush=True)
        yield row


if __name__ == "__main__":
    sys.exit(main())
