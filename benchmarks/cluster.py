"""What a Cluster costs our server: 3 masters, against one Redis and a call for each request.

Over 10,000 keys nearly each request has a slot of its own, so there is little to share in a call.
The bar is held twice. In closed loops all requests in flight wait for the store and come back in
one lot with one Redis, in three with three: what is compared is the size of the lots too, and at
differing rates. On a schedule both serve the same rate, as a node has the traffic that it has.

python benchmarks/cluster.py [--pairs 9] [--seconds 3]
"""

import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar
from benchmarks.store_calls import PATIENT, SINGLE, SPREAD, measure, one_store
from benchmarks.turns import System

MASTERS = 3
SHARE = 0.6
"""Of what the slower one does in a closed loop, as in the scenario `latency`."""
BAR = 1.2


def cluster(stack: ExitStack, folder: Path) -> System:
    """Ours on a Cluster."""
    return systems.on_cluster(stack, folder, SPREAD, masters=MASTERS, more=PATIENT)


def main() -> int:
    """The Cluster, held against one Redis."""
    ways = {"one Redis, a call for each": one_store(*SINGLE), f"{MASTERS} masters": cluster}
    what = "CPU with the Cluster to that with one Redis"
    return measure("cluster", ways, lambda times: Bar(what, "<=", BAR, times), SHARE)


if __name__ == "__main__":
    sys.exit(main())
