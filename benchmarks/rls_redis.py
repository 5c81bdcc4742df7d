"""One limit over 10,000 keys, exact in a shared store, asked over gRPC, against the peer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.rls import Scenario, measure
from benchmarks.systems import PEER
from benchmarks.workloads import ONE_LIMIT

SCENARIO = Scenario(
    name="rls-redis",
    workload=ONE_LIMIT,
    shared_store=True,
    streams=16,
    bars={PEER: 6},
    cpu_bars={PEER: 1 / 6},
    notes=("the store decides within the deadline that is shipped, 5 ms",),
)

if __name__ == "__main__":
    sys.exit(measure(SCENARIO))
