"""`consistency: local`: nodes decide by themselves, never under and little over."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.redis_cluster.asking import Asker, remaining
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer, valkey_binary

N = 4_000
MOST_OVER = N // 100

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {{id: all, rate: {n}/hour, algorithm: {algorithm}, consistency: local}}
      - {{id: each, per: [user], rate: 5/hour}}
"""


class Fleet:
    """Nodes on one store, one worker each, that know of each other."""

    def __init__(self, stack: ExitStack, folder: Path, policy: str, nodes: int) -> None:
        self._stack = stack
        self.store = stack.enter_context(StoreServer(valkey_binary()))
        self.nodes = [self._node(folder / str(at), policy) for at in range(nodes)]
        self.askers = [stack.enter_context(Asker(node)) for node in self.nodes]
        for asker in self.askers:
            _until(lambda asker=asker: self._known_nodes(asker) == nodes)

    def _node(self, folder: Path, policy: str) -> Tidegate:
        folder.mkdir()
        options = ("--workers", "1")
        return self._stack.enter_context(Tidegate(policy, folder, self.store.url, options))

    @staticmethod
    def _known_nodes(asker: Asker) -> int:
        page = asker.metrics()
        return int(page.split("\ntidegate_nodes ")[1].split("\n")[0])

    def calls(self) -> int:
        """Calls of the script so far."""
        stats: Any = redis.Redis(port=self.store.port).info("commandstats")
        return sum(row["calls"] for name, row in stats.items() if name.startswith("cmdstat_eval"))


def _until(holds: Callable[[], bool], patience_s: float = 20.0) -> None:
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test opens."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
def test_nodes_admit_all_of_the_limit_and_at_most_a_hundredth_more(
    stack: ExitStack, tmp_path: Path, algorithm: str
) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(n=N, algorithm=algorithm), nodes=3)
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
    _until(lambda: remaining(fleet.askers[0].peek(), "all") == 0)


def test_a_limit_that_the_store_decides_denies_and_the_local_one_takes_nothing(
    stack: ExitStack, tmp_path: Path
) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(n=N, algorithm="fixed_window"), nodes=1)
    (asker,) = fleet.askers
    answers = [asker.check(user="a") for _ in range(12)]
    assert [answer["allowed"] for answer in answers] == [True] * 5 + [False] * 7
    assert remaining(asker.peek(), "all") == N - 5
    assert [row["id"] for row in answers[-1]["limits"]] == ["all", "each"]


def test_a_limit_too_small_for_shares_is_decided_in_the_store(
    stack: ExitStack, tmp_path: Path
) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(n=50, algorithm="token_bucket"), nodes=2)
    admitted = sum(asker.check()["allowed"] for _ in range(40) for asker in fleet.askers)
    assert admitted == 50


def test_a_reset_and_a_raise_are_heard_of_by_every_node(stack: ExitStack, tmp_path: Path) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(n=N, algorithm="fixed_window"), nodes=2)
    first, second = fleet.askers
    first.check(cost=N)
    _until(lambda: not second.check()["allowed"])
    for node in fleet.nodes:
        node.write(POLICY.format(n=2 * N, algorithm="fixed_window"))
    _until(lambda: second.check()["allowed"])
    assert remaining(second.peek(), "all") > N - 100


def test_nodes_with_other_policies_are_counted_as_nodes(stack: ExitStack, tmp_path: Path) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(n=N, algorithm="fixed_window"), nodes=2)
    assert fleet.nodes[0].stop() == 0
    _until(lambda: fleet._known_nodes(fleet.askers[1]) == 1)
