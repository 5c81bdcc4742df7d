"""`tidegate hot`: says which counters most decisions of a node meet."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, TypedDict, cast

from tidegate.cli.asking import DEFAULT_SERVER
from tidegate.cli.explain_text import Entry, Rate, entries_text, plain, rate_text
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from tidegate.cli.service_client import ServiceClient

_TOKEN = "TIDEGATE_ADMIN_TOKEN"  # noqa: S105  the name of the variable, not its value
_MOST = 1024
_PAUSE_SECONDS = 1.0
_CLEAR = "\033[H\033[2J"
_HEADINGS = ("a second", "at least", "at most", "share", "denied", "rate", "decided", "counter")
_NUMBERS = 5
_MOSTLY = 0.5
# A second; what `auto` takes for hot at one worker.
_RUNS_HOT = 1_000
_HELP = f"""
A node looks at one decision in 32, chosen by chance, and keeps the counters (a limit, and the
values that it counts for) that they meet most. Rates are of about the last seven seconds and of
that node alone; each has the least and the most that it can be, 19 times of 20. Beside it stand
its share of the node's decisions, how many of them the limit denied, the rate in force, and who
decides: the store or, as `consistency` permits, the node. A hint says what could be done.

Asks the node on {DEFAULT_SERVER} unless --server says otherwise. One with an admin token tells its
holders alone: put it into {_TOKEN}. One without tells its own machine alone.

examples:
  tidegate hot
  tidegate hot --top 5 --watch
  tidegate hot --json --server http://10.0.0.7:8080

exit codes: 0 told, 1 the node does not look, 2 cannot ask
"""


class HotCounter(TypedDict):
    """One counter; rates are decisions a second, shares are 0 to 1.

    `decided_in` is where it was when the node last looked, `node` or `store`; `could_be_local` that
    the store decides it and the node could.
    """

    domain: str
    id: str
    values: list[Entry]
    values_left_out: int
    rate: Rate
    limit: int
    consistency: str
    decided_in: str
    could_be_local: bool
    per_second: float
    at_least: float
    at_most: float
    share: float
    denied_share: float


class Hot(TypedDict):
    """`GET /v1/hot`."""

    time: str
    half_life_ms: int
    one_in: int
    per_second: float
    counters: list[HotCounter]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--top", type=int, default=20, metavar="N", help="how many counters, 1 to 1024; default: 20"
    )
    parser.add_argument("--watch", action="store_true", help="again each second, until Ctrl-C")
    parser.add_argument("--server", metavar="URL", help=f"the node; default: {DEFAULT_SERVER}")
    parser.add_argument(
        "--json", action="store_true", help="print JSON; with --watch a line each time"
    )
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Tells of the hottest counters; 1 if the node does not look for them."""
    if not 1 <= args.top <= _MOST:
        raise ConfigError(f"must be from 1 to {_MOST}", path="--top")
    with closing(_client(args)) as client:
        if not args.watch:
            return _tell(client, args)
        try:
            while (code := _tell(client, args)) == 0:
                time.sleep(_PAUSE_SECONDS)
        except KeyboardInterrupt:
            return 0
        return code


def _client(args: argparse.Namespace) -> ServiceClient:
    from tidegate.cli.service_client import ServiceClient  # noqa: PLC0415  http is slow to load

    hint = "start one with `tidegate dev FILE`, or name it with --server URL"
    return ServiceClient(args.server or DEFAULT_SERVER, os.environ.get(_TOKEN), hint=hint)


def _tell(client: ServiceClient, args: argparse.Namespace) -> int:
    document = client.get(f"/v1/hot?top={args.top}")
    if isinstance(document, str):
        print(f"tidegate: {document}", file=sys.stderr)
        return 1
    if args.json:
        text = json.dumps(document, indent=None if args.watch else 2)
    else:
        text = hot_page(cast("Hot", document))
        if args.watch:
            text = f"{_CLEAR}{text}" if sys.stdout.isatty() else f"{text}\n"
    print(text, flush=True)
    return 0


def hot_page(told: Hot) -> str:
    """The hottest counters as a table, the hottest first."""
    lines = [f"{told['time']}  {told['per_second']:,.0f} decisions a second on this node"]
    if not told["counters"]:
        lines.append("no counter was met often enough to be seen")
        return "\n".join(lines)
    rows = [_HEADINGS, *(_row(counter) for counter in told["counters"])]
    hints = ["", *(_hint(counter) for counter in told["counters"])]
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEADINGS) - 1)]
    for row, hint in zip(rows, hints, strict=True):
        cells = [
            cell.rjust(width) if at < _NUMBERS else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join([*cells, row[-1]]))
        if hint:
            lines.append(f"    hint: {hint}")
    return "\n".join(lines)


def _row(counter: HotCounter) -> tuple[str, ...]:
    rates = (counter["per_second"], counter["at_least"], counter["at_most"])
    shares = (counter["share"], counter["denied_share"])
    left_out = counter["values_left_out"]
    names = [plain(counter["domain"]), plain(counter["id"])]
    names += [entries_text(counter["values"])] if counter["values"] else []
    names += [f"and {left_out} more"] if left_out else []
    return (
        *(f"{rate:,.0f}" for rate in rates),
        *(f"{share:.1%}" for share in shares),
        rate_text(counter["rate"]),
        _decided(counter),
        "  ".join(names),
    )


def _decided(counter: HotCounter) -> str:
    consistency = plain(counter["consistency"])
    if consistency == "exact":
        return consistency
    return f"{consistency}, by the {plain(counter['decided_in'])}"


def _hint(counter: HotCounter) -> str:
    """What an operator might do about it; empty where there is nothing to say."""
    if counter["denied_share"] >= _MOSTLY:
        return "most of it is denied: raise the limit, or have its callers wait for retry-after"
    is_exact = counter["could_be_local"] and counter["consistency"] == "exact"
    if is_exact and counter["per_second"] >= _RUNS_HOT:
        return "with `consistency: auto` the node would decide it, and the store be spared"
    return ""
