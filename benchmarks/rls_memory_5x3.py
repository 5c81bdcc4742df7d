"""Five limits over three descriptors, 10,000 tenants in the policy, against the floor server."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.rls import Scenario, measure
from benchmarks.systems import FLOOR
from benchmarks.workloads import FIVE_LIMITS

SCENARIO = Scenario(
    name="rls-memory-5x3",
    workload=FIVE_LIMITS,
    shared_store=False,
    streams=64,
    bars={FLOOR: 0.5},
    cpu_bars={},
    notes=(
        "the peer charges one limit for each descriptor: for the same five it is asked with five",
    ),
)

if __name__ == "__main__":
    sys.exit(measure(SCENARIO))
