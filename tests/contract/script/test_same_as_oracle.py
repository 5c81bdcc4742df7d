"""Script and oracle answer alike, decision by decision: numbers, waits, resets and lives."""

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


def _compare(script: Script, history: list[Step]) -> int:
    script.client.flushdb()
    oracle = Oracle()
    for step in history:
        expected = oracle.decide_batch(step.now_us, step.requests)
        assert script.decide(step.requests, step.now_us) == expected, step
        _compare_lives(script, oracle)
    return sum(len(step.requests) for step in history)


def _compare_lives(script: Script, oracle: Oracle) -> None:
    """Each key has the life that its last write gave it, and there are no other keys.

    Lives are stretched, so the moment that a test takes is less than the last millisecond.
    """
    keys = sorted(oracle.states)
    assert sorted(script.client.scan_iter()) == [key.encode() for key in keys]
    for key in keys:
        left_ms = script.client.pttl(key)
        assert left_ms > 0, f"{key} has no expiry"
        assert -(-left_ms // STRETCH) == -(-oracle.ttl_us[key] // 1000)
