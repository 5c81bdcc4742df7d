"""One limit over 10,000 keys in memory, asked over gRPC, against the floor and the peer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Bar, Figures
from benchmarks.rls import FLOOR, OURS, PEER, Ratio, measure, ratio


def bars(figures: dict[str, Figures]) -> tuple[list[Bar], list[Ratio]]:
    """The promises of this scenario."""
    ratios = {FLOOR: ratio(figures, OURS, FLOOR)}
    found = [Bar("times the floor server", ">=", 0.75, ratios[FLOOR].value)]
    if PEER in figures:
        ratios[PEER] = ratio(figures, OURS, PEER)
        found.append(Bar("times envoyproxy/ratelimit", ">=", 10, ratios[PEER].value))
    return found, list(ratios.values())


if __name__ == "__main__":
    # The store is in the server, so the load's core is free to keep a schedule.
    sys.exit(measure("rls-memory", shared_store=False, bars=bars, streams=64, paced_share=0.6))
