"""A client far over its limit: answered by the node until its wait ends or something changes."""

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.redis_cluster.asking import Asker
from tests.integration.redis_local.fleet import Fleet, until

TOKEN = "let-me-in"
POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {{id: each, per: [user], rate: {rate}, algorithm: {algorithm}}}
"""


def _used_up(asker: Asker) -> None:
    until(lambda: not asker.check(user="a")["allowed"])


def test_a_flood_of_denials_leaves_the_store_alone(stack: ExitStack, tmp_path: Path) -> None:
    policy = POLICY.format(rate="5 per 365 days", algorithm="fixed_window")
    fleet = Fleet(stack, tmp_path, policy, nodes=1)
    (asker,) = fleet.askers
    _used_up(asker)
    calls, begin = fleet.calls(), time.monotonic()
    answers = [asker.check(user="a") for _ in range(400)]
    seconds = time.monotonic() - begin
    assert not any(answer["allowed"] or answer["degraded"] for answer in answers)
    waits = [answer["retry_after_ms"] for answer in answers]
    assert waits == sorted(waits, reverse=True)
    # One question a second, and one sign of life.
    assert fleet.calls() - calls <= 2 * (seconds + 2)


@pytest.mark.parametrize("algorithm", ["token_bucket", "fixed_window", "sliding_window"])
def test_who_waits_as_told_passes(stack: ExitStack, tmp_path: Path, algorithm: str) -> None:
    policy = POLICY.format(rate="4 per 2s", algorithm=algorithm)
    fleet = Fleet(stack, tmp_path, policy, nodes=1)
    (asker,) = fleet.askers
    for _ in range(4):
        _used_up(asker)
        wait_ms = asker.check(user="a")["retry_after_ms"]
        over_at = time.monotonic() + (wait_ms or 0) / 1000

        def passes(over_at: float = over_at) -> bool:
            asked_at = time.monotonic()
            allowed: bool = asker.check(user="a")["allowed"]
            assert allowed or asked_at < over_at, "denied though the wait was over"
            return allowed

        until(passes)


def test_what_is_given_back_or_reset_counts_at_once(stack: ExitStack, tmp_path: Path) -> None:
    policy = POLICY.format(rate="5 per 365 days", algorithm="fixed_window")
    fleet = Fleet(stack, tmp_path, policy, 1, "--admin-token", TOKEN)
    (asker,) = fleet.askers
    question = {"descriptors": [{"user": "a"}]}
    for _ in range(20):
        _used_up(asker)
        asker.ask("/v1/reset", question, TOKEN)
        assert asker.check(user="a")["allowed"]
        _used_up(asker)
        asker.ask("/v1/check", {**question, "cost": 1, "refund": True}, TOKEN)
        assert asker.check(user="a")["allowed"]


def test_a_raise_of_the_limit_counts_at_once(stack: ExitStack, tmp_path: Path) -> None:
    policy = POLICY.format(rate="5 per 365 days", algorithm="fixed_window")
    fleet = Fleet(stack, tmp_path, policy, nodes=1)
    (asker,) = fleet.askers
    _used_up(asker)
    revision = asker.check(user="a")["revision"]
    fleet.nodes[0].write(policy.replace("5 per", "9 per"))
    until(lambda: asker.peek(user="b")["revision"] != revision)
    assert [asker.check(user="a")["allowed"] for _ in range(5)] == [True] * 4 + [False]


def test_a_larger_cost_waits_longer_and_a_smaller_one_is_asked_for(
    stack: ExitStack, tmp_path: Path
) -> None:
    policy = POLICY.format(rate="10/hour", algorithm="token_bucket")
    fleet = Fleet(stack, tmp_path, policy, nodes=1)
    (asker,) = fleet.askers
    assert asker.check(cost=8, user="a")["allowed"]
    first = asker.check(cost=5, user="a")
    larger = asker.check(cost=7, user="a")
    unit_ms = 360_000
    assert larger["retry_after_ms"] - first["retry_after_ms"] == pytest.approx(
        2 * unit_ms, abs=2000
    )
    assert asker.check(cost=11, user="a")["reason"] == "cost_exceeds_limit"
    assert asker.check(cost=2, user="a")["allowed"]
