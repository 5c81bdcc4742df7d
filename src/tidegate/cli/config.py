"""`tidegate config`: what `tidegate serve` would run with, and where each value comes from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tidegate import settings as settings_

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_HELP = """
Takes the flags of `tidegate serve`, and starts nothing. A flag wins over a TIDEGATE_* variable,
that over the settings file, that over the default. Secrets are masked. What `serve` would refuse is
refused here, files that settings name included; `tidegate validate` checks the policy.

examples:
  tidegate config
  tidegate config --config tidegate.toml --workers 4 --json

exit codes: 0 printed, 2 a setting cannot be used; all such are named
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--json", action="store_true", help="print JSON: {name: {value, source, where}}"
    )
    settings_.add_arguments(parser)
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Prints every setting."""
    in_force = settings_.in_force(args)
    from tidegate.dataplane.usable import check  # noqa: PLC0415  after the arguments are good

    check(in_force)
    found = in_force.found
    print(_json(found) if args.json else _table(found))
    return 0


def _json(found: Sequence[settings_.Found]) -> str:
    shown = {
        one.row.name: {"value": one.shown, "source": one.source.value, "where": one.where or None}
        for one in found
    }
    return json.dumps(shown, indent=2, ensure_ascii=False)


def _table(found: Sequence[settings_.Found]) -> str:
    lines = [(one.row.name, one.shown or "-", one.where or one.source.value) for one in found]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    return "\n".join(
        f"{name:<{widths[0]}}  {_printable(value):<{widths[1]}}  {where}"
        for name, value, where in lines
    )


def _printable(value: str) -> str:
    return "".join(mark if mark.isprintable() else "?" for mark in value)
