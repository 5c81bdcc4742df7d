"""`tidegate serve`: a node of the service, whose policy is a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate import settings as settings_

if TYPE_CHECKING:
    import argparse

    from tidegate.dataplane.service import Started

_HELP = """
The file is followed: a change holds within a second, and keeps what was counted. One that cannot
be used changes nothing; the log, a metric and /readyz say why.

SIGTERM and Ctrl-C drain: for --drain-notice the node serves on and says that it is not ready, then
requests in flight are answered, at most 10 s. A second signal ends it at once, and saves no state.

exit codes: 0 stopped as told, 2 cannot run
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    settings_.add_arguments(parser)
    parser.epilog = _HELP


def run(args: argparse.Namespace) -> int:
    """Serves until told to stop; 2 if it cannot start."""
    in_force = settings_.in_force(args)
    settings = in_force.settings
    if settings.policy is None:
        print(
            "tidegate serve: error: which policy? Name its file: tidegate serve --policy FILE."
            " A control plane is not supported yet.",
            file=sys.stderr,
        )
        return 2
    policy = settings.policy
    from tidegate.dataplane.log import Log  # noqa: PLC0415  after the arguments are good
    from tidegate.dataplane.service import Service  # noqa: PLC0415
    from tidegate.dataplane.usable import check  # noqa: PLC0415

    check(in_force)
    log = Log(level=settings.log_level, is_json=settings.log_format == "json")

    def announce(started: Started) -> None:
        log.info(
            "serving",
            http=started.http,
            grpc=started.grpc,
            store=settings.store_name,
            policy=policy,
            revision=started.revision,
        )

    return Service(Path(policy), settings, log).run(announce)
