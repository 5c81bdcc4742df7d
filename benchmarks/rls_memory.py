"""One limit over 10,000 keys in memory, asked over gRPC, against the floor and the peer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Bar, Figures
from benchmarks.rls import FLOOR, OURS, PEER, measure, ratio, said_of


def bars(figures: dict[str, Figures]) -> tuple[list[Bar], list[str]]:
    """The promises of this scenario."""
    of_floor = ratio(figures, OURS, FLOOR)
    found = [Bar("times the floor server", ">=", 0.75, of_floor.value)]
    ratios = [("times the floor server", of_floor)]
    if PEER in figures:
        of_peer = ratio(figures, OURS, PEER)
        found.append(Bar("times envoyproxy/ratelimit", ">=", 10, of_peer.value))
        ratios.append(("times envoyproxy/ratelimit", of_peer))
    return found, said_of(ratios)


if __name__ == "__main__":
    sys.exit(measure("rls-memory", shared_store=False, bars=bars, streams=64))
