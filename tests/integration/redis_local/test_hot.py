"""A node tells which of its hot counters it decides by itself."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.integration.redis_local.fleet import Fleet, until
from tests.integration.serve.test_hot import told

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: hot, rate: 10M/hour, consistency: auto}
      - {id: large, rate: 10M/hour}
      - {id: small, rate: 50/hour, on_exceed: shadow}
      - {id: log, rate: 90k/hour, algorithm: sliding_log, on_exceed: shadow}
"""


def test_a_counter_that_runs_hot_is_told_to_be_decided_by_the_node(
    stack: ExitStack, tmp_path: Path
) -> None:
    fleet = Fleet(stack, tmp_path, POLICY, nodes=1)
    (asker,) = fleet.askers
    counters: dict[str, dict[str, Any]] = {}

    def is_decided_here() -> bool:
        for _ in range(10):
            asker.ask("/v1/check", {"checks": [{"domain": "shop", "descriptors": [{}]}] * 256})
        counters.update((counter["id"], counter) for counter in told(fleet.nodes[0]))
        return len(counters) == 4 and counters["hot"]["decided_in"] == "node"

    until(is_decided_here)
    assert counters["hot"]["consistency"] == "auto"
    others = [counters[name] for name in ("large", "small", "log")]
    assert {(one["consistency"], one["decided_in"]) for one in others} == {("exact", "store")}
    could = {name: counter["could_be_local"] for name, counter in counters.items()}
    assert could == {"hot": False, "large": True, "small": False, "log": False}
