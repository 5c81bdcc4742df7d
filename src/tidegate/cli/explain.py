"""`tidegate explain`: says why a request was denied, or what would apply to one."""

from __future__ import annotations

import json
import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING, cast

from tidegate.cli.asking import DEFAULT_SERVER, read_cost, read_descriptor
from tidegate.cli.explain_text import Denial, Explanation, denial_page, explanation_page
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    import argparse

_ID_LENGTH = 26
_TOKEN = "TIDEGATE_ADMIN_TOKEN"  # noqa: S105  the name of the variable, not its value
_HELP = f"""
With a decision id (of a header, a body or a log) it asks the node that denied: each keeps its
last denials. With a domain and KEY=VALUE it says which limits would apply and why, with which
numbers, and why the nearest others would not; that takes nothing.

Asks the service on {DEFAULT_SERVER} unless --server or --policy says otherwise. A service with
an admin token explains to its holders alone: put it into {_TOKEN}. One without explains to its
own machine alone.

examples:
  tidegate explain 01KBAR5M8Y3V0T9Q4Z7N2C6XWD
  tidegate explain shop tenant=acme route=/search
  tidegate explain shop tenant=acme --cost tokens=900 --policy examples/shop.yaml

exit codes: 0 explained, 1 no such decision is kept, 2 cannot ask
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("what", metavar="ID|DOMAIN", help="a decision's id, or a policy's domain")
    parser.add_argument(
        "entries", nargs="*", metavar="KEY=VALUE", help="what describes the request, to a domain"
    )
    parser.add_argument(
        "--cost",
        action="append",
        default=[],
        metavar="N|KIND=N",
        help="what the request takes; default: 1. KIND=N may be given several times",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="URL", help=f"the service; default: {DEFAULT_SERVER}")
    where.add_argument("--policy", metavar="FILE", help="explain by this file, in this process")
    parser.add_argument("--json", action="store_true", help="print the explanation as JSON")
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Explains; 1 if there is no such decision."""
    if not args.entries and _is_id(args.what):
        return _explain_decision(args)
    descriptor, cost = read_descriptor(args.entries), read_cost(args.cost)
    if args.policy:
        from tidegate.limiter import Limiter  # noqa: PLC0415  only --policy needs the engine

        document = Limiter().policy(args.policy, domain=args.what).explain(descriptor, cost)
    else:
        body = {"domain": args.what, "descriptors": [descriptor], "cost": cost}
        with closing(_client(args)) as client:
            document = client.post("/v1/explain", body)
    told = cast("Explanation", document)
    print(json.dumps(document, indent=2) if args.json else explanation_page(told))
    return 0


def _explain_decision(args: argparse.Namespace) -> int:
    if args.policy:
        raise ConfigError(
            "a file knows no decisions", path="--policy", hint="ask the node with --server URL"
        )
    with closing(_client(args)) as client:
        document = client.get(f"/v1/decisions/{args.what}")
    if isinstance(document, str):
        print(f"tidegate: {document}", file=sys.stderr)
        return 1
    print(json.dumps(document, indent=2) if args.json else denial_page(cast("Denial", document)))
    return 0


def _client(args: argparse.Namespace) -> ServiceClient:
    from tidegate.cli.service_client import ServiceClient  # noqa: PLC0415  http is slow to load

    return ServiceClient(args.server or DEFAULT_SERVER, os.environ.get(_TOKEN))


def _is_id(text: str) -> bool:
    return len(text) == _ID_LENGTH and text.isascii() and text.isalnum() and text[0].isdigit()


if TYPE_CHECKING:
    from tidegate.cli.service_client import ServiceClient
