"""One limit over 10,000 keys in memory, asked over gRPC, against the floor and the peer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.rls import Scenario, measure
from benchmarks.systems import FLOOR, PEER
from benchmarks.workloads import ONE_LIMIT

SCENARIO = Scenario(
    name="rls-memory",
    workload=ONE_LIMIT,
    shared_store=False,
    streams=64,
    bars={FLOOR: 0.75, PEER: 10},
    cpu_bars={},
)

if __name__ == "__main__":
    sys.exit(measure(SCENARIO))
