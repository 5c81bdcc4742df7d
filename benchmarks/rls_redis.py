"""One limit over 10,000 keys, exact in a shared store, asked over gRPC, against the peer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Bar, Figures
from benchmarks.rls import OURS, PEER, Ratio, measure, ratio


def bars(figures: dict[str, Figures]) -> tuple[list[Bar], list[Ratio]]:
    """The promises of this scenario; without the peer there is nothing to compare with."""
    if PEER not in figures:
        return [], []
    of_peer = ratio(figures, OURS, PEER)
    cpu = figures[OURS]["server_cpu_us"] / figures[PEER]["server_cpu_us"]
    found = [
        Bar("times envoyproxy/ratelimit", ">=", 6, of_peer.value),
        Bar("server CPU a decision, times that of envoyproxy/ratelimit", "<=", 1 / 6, cpu),
    ]
    return found, [of_peer]


if __name__ == "__main__":
    sys.exit(measure("rls-redis", shared_store=True, bars=bars, streams=32))
