"""The store is away: what nodes admit meanwhile, and what the store hears of it afterwards."""

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import Asker, remaining
from tests.integration.redis_local.fleet import Fleet, until

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - id: all
        rate: 40 per 365 days
        algorithm: {algorithm}
        on_store_failure: {mode}
"""
BESIDE = """\
version: 1
domains:
  shop:
    limits:
      - {id: all, when: {kind: both}, rate: 40 per 365 days, algorithm: fixed_window}
      - {id: shut, when: {kind: both}, rate: 40 per 365 days, on_store_failure: closed}
      - {id: other, when: {kind: other}, rate: 40 per 365 days, algorithm: fixed_window}
"""
ALGORITHMS = ("token_bucket", "fixed_window", "sliding_window")


def _hits(asker: Asker, count: int) -> list[bool]:
    return [asker.check()["allowed"] for _ in range(count)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_node_admits_its_share_less_what_was_used(
    stack: ExitStack, tmp_path: Path, algorithm: str
) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(algorithm=algorithm, mode="local"), nodes=2)
    first, second = fleet.askers
    assert all(_hits(first, 20))
    fleet.store.stop(signal.SIGKILL)
    until(lambda: first.peek()["degraded"] and second.peek()["degraded"])
    # Half of 44, of which half was used when this node last saw the counter.
    assert sum(_hits(first, 30)) == 11
    assert sum(_hits(second, 30)) == 22
    denied = first.check()
    assert (denied["reason"], denied["degraded"]) == ("over_limit", True)
    assert denied["retry_after_ms"] is not None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("mode", ["open", "local"])
def test_what_was_admitted_by_calls_never_sent_is_charged_once_the_store_is_back(
    stack: ExitStack, tmp_path: Path, algorithm: str, mode: str
) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(algorithm=algorithm, mode=mode), nodes=1)
    (asker,) = fleet.askers
    assert remaining(asker.check(), "all") == 39
    fleet.store.stop(signal.SIGKILL)
    until(lambda: bool(asker.peek()["degraded"]))
    assert all(_hits(asker, 7))
    fleet.store.start()
    until(lambda: not asker.peek()["degraded"])
    # The store was empty when it came back: what is missing from the limit are the seven.
    until(lambda: remaining(asker.peek(), "all") == 33)
    assert sum(_hits(asker, 40)) == 33


def test_no_more_than_the_limit_is_charged_afterwards(stack: ExitStack, tmp_path: Path) -> None:
    fleet = Fleet(stack, tmp_path, POLICY.format(algorithm="fixed_window", mode="open"), nodes=1)
    (asker,) = fleet.askers
    fleet.store.stop(signal.SIGKILL)
    until(lambda: bool(asker.peek()["degraded"]))
    assert all(_hits(asker, 100))
    fleet.store.start()
    until(lambda: not asker.peek()["degraded"] and not asker.check()["allowed"])


def test_a_closed_limit_denies_and_an_open_one_beside_it_owes_nothing(
    stack: ExitStack, tmp_path: Path
) -> None:
    fleet = Fleet(stack, tmp_path, BESIDE, nodes=1)
    (asker,) = fleet.askers
    fleet.store.stop(signal.SIGKILL)
    until(lambda: asker.peek(kind="both")["reason"] == "store_failure")
    assert not any(asker.check(kind="both")["allowed"] for _ in range(5))
    assert all(asker.check(kind="other")["allowed"] for _ in range(7))
    fleet.store.start()
    until(lambda: not asker.peek(kind="both")["degraded"])
    # What is owed is charged together: once that of another limit is there, this one would be.
    until(lambda: remaining(asker.peek(kind="other"), "other") == 33)
    assert remaining(asker.peek(kind="both"), "all") == 40
