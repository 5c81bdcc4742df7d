"""`tidegate hit`: asks whether a request may pass, and says why or why not."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Protocol

from tidegate.cli.asking import DEFAULT_SERVER, Cost, read_cost, read_descriptor
from tidegate.cli.decision_text import Answer, Style, line, page, read_answer
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    import argparse

_HELP = f"""
Asks the service on {DEFAULT_SERVER} unless --server or --policy says otherwise. With
--policy nothing needs to run: the file is asked in this process, from untouched counters.

examples:
  tidegate hit shop tenant=acme route=/search
  tidegate hit shop tenant=acme route=/search --cost 3 --repeat 20
  tidegate hit shop tenant=acme --cost requests=1 --cost tokens=900
  tidegate hit shop tenant=acme --policy examples/shop.yaml --json

exit codes: 0 allowed, 1 denied (with --repeat: one of them), 2 cannot ask
"""


class Asker(Protocol):
    """Somebody who decides."""

    def ask(self) -> Answer:
        """Asks once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("domain", metavar="DOMAIN", help="the domain of the policy")
    parser.add_argument(
        "entries", nargs="*", metavar="KEY=VALUE", help="what describes the request"
    )
    parser.add_argument(
        "--cost",
        action="append",
        default=[],
        metavar="N|KIND=N",
        help="what the request takes; default: 1. KIND=N may be given several times",
    )
    parser.add_argument("--peek", action="store_true", help="only look, take nothing")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--server", metavar="URL", help=f"the service; default: {DEFAULT_SERVER}")
    where.add_argument("--policy", metavar="FILE", help="ask this file, in this process")
    parser.add_argument("--json", action="store_true", help="print the decision as JSON")
    parser.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="ask N times, a line each"
    )
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Asks and prints; 0 if allowed, 1 if denied."""
    if args.repeat < 1:
        raise ConfigError("must be at least 1", path="--repeat")
    descriptor = read_descriptor(args.entries)
    asker = _asker(args, descriptor, read_cost(args.cost))
    style = Style.of(sys.stdout)
    is_denied = False
    for number in range(1, args.repeat + 1):
        answer = asker.ask()
        is_denied |= not answer["allowed"]
        if args.json:
            print(json.dumps(answer, indent=None if args.repeat > 1 else 2), flush=True)
        elif args.repeat > 1:
            print(line(number, args.repeat, answer, style), flush=True)
        else:
            print(page(args.domain, descriptor, answer, style))
    return 1 if is_denied else 0


def _asker(args: argparse.Namespace, descriptor: dict[str, str], cost: Cost) -> Asker:
    if args.policy:
        return _Here(args.policy, args.domain, descriptor, cost, is_peek=args.peek)
    from tidegate.cli.service_client import ServiceClient  # noqa: PLC0415  http is slow to load

    body = {"domain": args.domain, "descriptors": [descriptor], "cost": cost}
    path = "/v1/peek" if args.peek else "/v1/check"
    return _Service(ServiceClient(args.server or DEFAULT_SERVER), path, body)


class _Here:
    """A policy file, asked in this process."""

    def __init__(
        self, file: str, domain: str, descriptor: dict[str, str], cost: Cost, *, is_peek: bool
    ) -> None:
        from tidegate.limiter import Limiter  # noqa: PLC0415  only --policy needs the engine

        policy = Limiter().policy(file, domain=domain)
        self._ask = policy.peek if is_peek else policy.hit
        self._descriptor = descriptor
        self._cost = cost

    def ask(self) -> Answer:
        return read_answer(self._ask(self._descriptor, self._cost).as_dict())


class _Service:
    """A running service, asked over HTTP."""

    def __init__(self, client: ServiceClient, path: str, body: dict[str, object]) -> None:
        self._client = client
        self._path = path
        self._body = body

    def ask(self) -> Answer:
        return read_answer(self._client.post(self._path, self._body))


if TYPE_CHECKING:
    from tidegate.cli.service_client import ServiceClient
