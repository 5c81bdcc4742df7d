"""Script and oracle answer alike, decision by decision: numbers, waits, resets and lives."""

import time

from hypothesis import given, settings

from tests.contract.script.codec import STRETCH, Script
from tests.oracle.histories import Step, histories
from tests.oracle.request import Oracle

LONG_RUN = 100_000


def test_script_decides_as_the_oracle_on_random_histories(script: Script) -> None:
    decisions = 0

    @given(histories())
    def run(history: list[Step]) -> None:
        nonlocal decisions
        decisions += _compare(script, history)

    run()
    if settings.default is not None and settings.default.max_examples >= 2000:
        assert decisions >= LONG_RUN


def test_script_decides_the_same_in_redis(script_in_redis: Script) -> None:
    @given(histories())
    def run(history: list[Step]) -> None:
        _compare(script_in_redis, history)

    run()


def test_buckets_that_are_told_late_at_times_decide_the_same(script: Script) -> None:
    @given(histories())
    def run(history: list[Step]) -> None:
        _compare(script, history, late_every=2)

    run()


def _compare(script: Script, history: list[Step], late_every: int | None = None) -> int:
    script.client.flushdb()
    oracle, begin = Oracle(), time.monotonic()
    for at, step in enumerate(history):
        expected = oracle.decide_batch(step.now_us, step.requests)
        is_late = late_every is not None and at % late_every == 0
        assert script.decide(step.requests, step.now_us, is_told_late=is_late) == expected, step
        _compare_lives(script, oracle, begin)
    return sum(len(step.requests) for step in history)


def _compare_lives(script: Script, oracle: Oracle, begin: float) -> None:
    """Each key has the life that its last write gave it, and there are no other keys.

    Lives are stretched, so that a second of the test is their last millisecond; a history that has
    taken longer may have taken that much from a key that was written early.
    """
    keys = sorted(oracle.states)
    assert sorted(script.client.scan_iter()) == [key.encode() for key in keys]
    for key in keys:
        left_ms = script.client.pttl(key)
        assert left_ms > 0, f"{key} has no expiry"
        life_ms = -(-oracle.ttl_us[key] // 1000)
        passed_ms = int((time.monotonic() - begin) * 1000) // STRETCH
        assert life_ms - passed_ms <= -(-left_ms // STRETCH) <= life_ms
