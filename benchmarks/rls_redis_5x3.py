"""Five limits over three descriptors, exact in a shared store, against the peer."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.rls import Scenario, measure
from benchmarks.systems import PEER
from benchmarks.workloads import FIVE_LIMITS

SCENARIO = Scenario(
    name="rls-redis-5x3",
    workload=FIVE_LIMITS,
    shared_store=True,
    streams=8,
    bars={PEER: 6},
    cpu_bars={},
    notes=(
        "the store decides within the deadline that is shipped, 5 ms",
        "the peer charges one limit for each descriptor: for the same five it is asked with five",
    ),
)

if __name__ == "__main__":
    sys.exit(measure(SCENARIO))
