"""Split limits under several nodes at once, from threads that block, and with a master away."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from tests.integration.redis_cluster.test_sharded import ALGORITHMS, amount
from tests.servers.cluster import ClusterServers, slot_of, told
from tests.servers.native import TOKEN, Native
from tests.servers.process import wait_for
from tidegate import Limiter

POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - id: split
        per: [tenant]
        {amount}
        consistency: {{sharded: {parts}}}
        on_store_failure: {mode}
"""


def policy(algorithm: str, n: int, parts: int, mode: str = "closed") -> str:
    """N in so long that no period ends meanwhile, but in a test that runs at New Year."""
    words = amount(algorithm, n).replace("hour", "year" if algorithm == "quota" else "day")
    return POLICY.format(amount=words, parts=parts, mode=mode)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def empty(steady: ClusterServers) -> ClusterServers:
    for server in steady.servers:
        told(server, "FLUSHALL")
    return steady


@pytest.fixture
def partial(valkey_path: str) -> Iterator[ClusterServers]:
    """Masters that serve on where another one is lost."""
    options = {"cluster-require-full-coverage": "no"}
    with ClusterServers(valkey_path, options=options) as cluster:
        yield cluster


def rest(ask: Callable[[], bool], until: int, taken: int) -> int:
    """Takes single units until so many are taken, or none is there for longer than denials are
    remembered."""
    end = time.monotonic() + 10.0
    while taken < until and time.monotonic() < end:
        taken += ask()
        time.sleep(0.001)
    return taken


@pytest.mark.parametrize("most_cost", [1, 5])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_four_nodes_at_once_admit_exactly_n(
    empty: ClusterServers, stack: ExitStack, algorithm: str, most_cost: int
) -> None:
    n = 203
    text = policy(algorithm, n, 8)
    nodes = [stack.enter_context(Native(text, empty.url, is_clock_held=False)) for _ in range(4)]
    tenant = {"tenant": f"{algorithm}-{most_cost}"}

    def ask(client: int) -> int:
        rng, taken = Random(client), 0
        for _ in range(60):
            cost = rng.randint(1, most_cost)
            decision = nodes[client % 4].check(tenant, cost=cost)
            assert not decision["degraded"], decision
            taken += cost * decision["allowed"]
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = sum(threads.map(ask, range(8)))
    assert n - 2 * most_cost <= taken <= n, "a race may leave the last units"
    assert rest(lambda: bool(nodes[0].check(tenant)["allowed"]), n, taken) == n
    assert not any(node.check(tenant)["allowed"] for node in nodes)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_threads_that_block_share_what_is_split(empty: ClusterServers, algorithm: str) -> None:
    n = 61
    with Limiter(empty.url, store_timeout=5.0, on_store_failure="raise") as limiter:
        limits = limiter.policy(policy(algorithm, n, 8).encode())
        tenant = {"tenant": f"blocking-{algorithm}"}
        with ThreadPoolExecutor(4) as threads:
            taken = sum(threads.map(lambda _: bool(limits.hit(tenant)), range(2 * n)))
        assert n - 4 <= taken <= n
        assert rest(lambda: bool(limits.hit(tenant)), n, taken) == n
        assert not limits.hit(tenant)
        assert limits.refund(tenant, cost=3).limits[0].remaining == 3
        assert limits.peek(tenant, cost=3)
        assert not limits.peek(tenant, cost=4)
        limits.reset(tenant)
        assert limits.hit(tenant, cost=n), "over all parts"


@pytest.mark.parametrize("mode", ["closed", "open"])
def test_with_a_master_away_the_others_parts_serve_and_then_the_limit_says_what_holds(
    partial: ClusterServers, stack: ExitStack, mode: str
) -> None:
    text = policy("fixed_window", 60, 6, mode)
    node = stack.enter_context(Native(text, partial.url, is_clock_held=False, deadline_us=200_000))
    tenant = {"tenant": "away"}

    def check(cost: int = 1) -> dict[str, Any]:
        return node.check(tenant, cost=cost)

    def peek() -> dict[str, Any]:
        body = {"domain": "shop", "descriptors": [tenant]}
        return node.post("/v1/peek", body, TOKEN).body

    def is_whole() -> bool:
        # Each worker learns by itself that a master is back, and any of them may be asked.
        return not any(peek()["degraded"] for _ in range(20))

    wait_for(is_whole, "the connections")
    lost = partial.servers[1]
    os.kill(lost.pid, signal.SIGSTOP)
    try:
        # Each connection that waits in vain learns it once; who knows it asks the others.
        answers = [check() for _ in range(100)]
        counted = sum(answer["allowed"] and not answer["degraded"] for answer in answers)
        # What an open limit lets pass after a look that was too late is charged all the same.
        assert (36 if mode == "open" else 40) <= counted <= 40, "two masters of three"
        last = answers[-1]
        assert (last["allowed"], last["degraded"]) == (mode == "open", True)
        if mode == "closed":
            assert last["reason"] == "store_failure"
            assert sum(answer["allowed"] for answer in answers) == 40
        denied = check(cost=61)
        assert (denied["allowed"], denied["degraded"]) == (False, False), "in any case"
    finally:
        os.kill(lost.pid, signal.SIGCONT)
    wait_for(is_whole, "the master to answer again")
    if mode == "open":
        # What was let pass by calls that were never sent is charged, a whole share at most.
        wait_for(lambda: peek()["limits"][0]["remaining"] == 0, "what is owed to be charged")
        assert not check()["allowed"]
    else:
        left = peek()["limits"][0]["remaining"]
        assert 20 - 4 <= left <= 20, "what was sent and not heard may have been charged"
        assert check(cost=left)["allowed"]
        assert not check()["allowed"]


def test_what_passes_while_a_part_is_silent_is_charged_by_the_exact_limit_beside_it(
    partial: ClusterServers, stack: ExitStack
) -> None:
    own = """\
      - {id: own, per: [user], rate: 1000/day, algorithm: fixed_window}
"""
    text = policy("fixed_window", 60, 6, "local") + own
    node = stack.enter_context(Native(text, partial.url, is_clock_held=False, deadline_us=200_000))
    alive, stalled = partial.servers[:2]
    users = (f"user-{at}" for at in range(1000))
    user = next(it for it in users if partial.master_of(slot_of(f"shop|{it}")) is alive)
    asked = {"tenant": "beside", "user": user}

    def peek(of: dict[str, str]) -> dict[str, Any]:
        return node.post("/v1/peek", {"domain": "shop", "descriptors": [of]}, TOKEN).body

    def counted() -> int:
        (limit,) = peek({"user": user})["limits"]
        return 1000 - int(limit["remaining"])

    wait_for(lambda: not any(peek(asked)["degraded"] for _ in range(20)), "the connections")
    os.kill(stalled.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(40) as threads:
            answers = list(threads.map(lambda _: node.check(asked), range(200)))
    finally:
        os.kill(stalled.pid, signal.SIGCONT)
    assert any(answer["degraded"] for answer in answers), "the silent parts were asked"
    passed = sum(bool(answer["allowed"]) for answer in answers)
    wait_for(lambda: counted() == passed, f"{passed} to be counted, and nothing else")
