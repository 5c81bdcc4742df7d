"""`consistency: local`: nodes decide by themselves, never under and little over."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import remaining
from tests.integration.redis_local.fleet import Fleet, known_nodes, until

N = 4_000
MOST_OVER = N // 100

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {{id: all, rate: {n}/hour, algorithm: {algorithm}, consistency: {how}}}
      - {{id: each, per: [user], rate: 5/hour}}
"""


def policy_of(n: int, algorithm: str, how: str = "local") -> str:
    """A limit over everybody that nodes decide, and one for each user that the store does."""
    return POLICY.format(n=n, algorithm=algorithm, how=how)


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
def test_nodes_admit_all_of_the_limit_and_at_most_a_hundredth_more(
    stack: ExitStack, tmp_path: Path, algorithm: str
) -> None:
    fleet = Fleet(stack, tmp_path, policy_of(n=N, algorithm=algorithm), nodes=3)
    admitted, calls = 0, fleet.calls()
    denied = [0] * len(fleet.askers)
    while min(denied) < 20:
        for at, asker in enumerate(fleet.askers):
            answer = asker.ask(
                "/v1/check", {"checks": [{"domain": "shop", "descriptors": [{}]}] * 50}
            )
            allowed = [decision["allowed"] for decision in answer["decisions"]]
            admitted += sum(allowed)
            denied[at] += len(allowed) - sum(allowed)
            assert not any(decision["degraded"] for decision in answer["decisions"])
    assert N <= admitted <= N + MOST_OVER + 2, "a bucket may have drained a unit or two"
    assert fleet.calls() - calls < admitted / 4
    until(lambda: remaining(fleet.askers[0].peek(), "all") == 0)


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
def test_sampled_nodes_ask_once_for_k_units_and_admit_at_most_2_k_more_each(
    stack: ExitStack, tmp_path: Path, algorithm: str
) -> None:
    n, k = 90_000, 10
    fleet = Fleet(stack, tmp_path, policy_of(n, algorithm, "{sampled: 10}"), nodes=3)
    checks = [{"domain": "shop", "descriptors": [{}]}] * 250
    admitted, calls = 0, fleet.calls()
    denied = [0] * len(fleet.askers)
    while min(denied) < 20:
        for at, asker in enumerate(fleet.askers):
            answer = asker.ask("/v1/check", {"checks": checks})
            allowed = [decision["allowed"] for decision in answer["decisions"]]
            admitted += sum(allowed)
            denied[at] += len(allowed) - sum(allowed)
            assert not any(decision["degraded"] for decision in answer["decisions"])
    drained = 0 if algorithm != "token_bucket" else n // 60
    assert n <= admitted <= n + 2 * k * len(fleet.nodes) + drained
    assert fleet.calls() - calls < admitted / k * 1.5
    until(lambda: remaining(fleet.askers[0].peek(), "all") < n // 60)


def test_a_limit_that_the_store_decides_denies_and_the_local_one_takes_nothing(
    stack: ExitStack, tmp_path: Path
) -> None:
    fleet = Fleet(stack, tmp_path, policy_of(n=N, algorithm="fixed_window"), nodes=1)
    (asker,) = fleet.askers
    answers = [asker.check(user="a") for _ in range(12)]
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False] * 7
    assert remaining(asker.peek(), "all") == N - 5
    assert [row["id"] for row in answers[-1]["limits"]] == ["all", "each"]


def test_a_limit_too_small_for_shares_is_decided_in_the_store(
    stack: ExitStack, tmp_path: Path
) -> None:
    fleet = Fleet(stack, tmp_path, policy_of(n=50, algorithm="token_bucket"), nodes=2)
    admitted = sum(asker.check()["allowed"] for _ in range(40) for asker in fleet.askers)
    assert admitted == 50


def test_a_reset_and_a_raise_are_heard_of_by_every_node(stack: ExitStack, tmp_path: Path) -> None:
    fleet = Fleet(stack, tmp_path, policy_of(n=N, algorithm="fixed_window"), nodes=2)
    first, second = fleet.askers
    first.check(cost=N)
    until(lambda: not second.check()["allowed"])
    for node in fleet.nodes:
        node.write(policy_of(n=2 * N, algorithm="fixed_window"))
    until(lambda: second.check()["allowed"])
    assert remaining(second.peek(), "all") > N - 100


def test_a_node_that_left_is_counted_no_more(stack: ExitStack, tmp_path: Path) -> None:
    fleet = Fleet(stack, tmp_path, policy_of(n=N, algorithm="fixed_window"), nodes=2)
    assert fleet.nodes[0].stop() == 0
    until(lambda: known_nodes(fleet.askers[1]) == 1)


def test_a_counter_that_runs_hot_is_decided_at_the_node_and_a_cool_one_in_the_store(
    stack: ExitStack, tmp_path: Path
) -> None:
    policy = policy_of(n=10_000_000, algorithm="token_bucket", how="auto")
    fleet = Fleet(stack, tmp_path, policy, nodes=1)
    (asker,) = fleet.askers
    calls = fleet.calls()
    assert all(asker.check()["allowed"] for _ in range(50))
    assert fleet.calls() - calls >= 50

    def is_decided_here() -> bool:
        before = fleet.calls()
        for _ in range(10):
            asker.ask("/v1/check", {"checks": [{"domain": "shop", "descriptors": [{}]}] * 256})
        return fleet.calls() - before < 10

    until(is_decided_here)
