"""A master that stands still while a request needs it and another: one deadline, nothing kept."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import Asker, remaining, until
from tests.servers.cluster import ClusterServers, slot_of
from tests.servers.tidegate import Tidegate

TIMEOUT_S = 0.4
POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: all, rate: 1000/day, algorithm: fixed_window, on_store_failure: WHEN_AWAY}
      - {id: each, per: [tenant], rate: 1000/day, algorithm: fixed_window}
"""


@pytest.mark.parametrize(
    ("when_away", "allowed", "kept"), [("closed", False, 0), ("open", True, 1)]
)
def test_silence_of_one_slot_costs_one_deadline_and_what_was_denied_is_given_back(
    cluster: ClusterServers, tmp_path: Path, when_away: str, allowed: bool, kept: int
) -> None:
    silent = cluster.master_of(slot_of("shop|all"))
    tenants = (f"tenant-{at}" for at in range(100))
    tenant = next(
        name for name in tenants if cluster.master_of(slot_of(f"shop|{name}")) is not silent
    )
    policy = POLICY.replace("WHEN_AWAY", when_away)
    options = ("--store-timeout", f"{round(TIMEOUT_S * 1000)}ms")
    with Tidegate(policy, tmp_path, cluster.url, options) as node, Asker(node) as asker:
        until(lambda: not asker.peek(tenant=tenant)["degraded"], "the connections")
        # Seen far from both limits, so that the next one takes without a look.
        assert all(asker.check(tenant=tenant)["allowed"] for _ in range(3))
        os.kill(silent.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            decision = asker.check(tenant=tenant)
            took_s = time.monotonic() - began
        finally:
            os.kill(silent.pid, signal.SIGCONT)
        assert (decision["allowed"], decision["degraded"]) == (allowed, True)
        assert TIMEOUT_S / 2 < took_s < 1.75 * TIMEOUT_S, "one deadline, not one for each step"
        until(lambda: not asker.peek(tenant=tenant)["degraded"], "the master to answer again")
        until(
            lambda: remaining(asker.peek(tenant=tenant), "each") == 1000 - 3 - kept,
            "what was taken to be given back",
        )
