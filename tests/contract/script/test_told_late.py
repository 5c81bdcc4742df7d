"""Buckets of which requests are told some time after they came, as nodes do that decide alone."""

import struct
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.script.codec import (
    CHARGE_ANYWAY,
    LAST,
    LATE_BUCKET,
    TELL,
    Failure,
    Script,
    as_test_form,
)
from tests.contract.script.codec import source as script_source
from tests.oracle.late_bucket import LateBucket
from tests.oracle.model import SECOND, Op

NOW = 1_764_600_000 * SECOND
KEPT_US = 600_000
"""So long the store remembers when a bucket was idle."""
RECORD = 25
CHANGES = 6
"""Each leaves one gap more at most, and twelve are kept."""


@dataclass(frozen=True, slots=True)
class Change:
    """What comes next: so long after the last, units that came earlier, or are asked for now."""

    wait_us: int
    blocks: list[tuple[int, int]]
    """How long ago, in microseconds, and how many units; none: a unit is asked for."""


@dataclass(frozen=True, slots=True)
class Told:
    """The bucket as the store tells it."""

    last: int
    level: int
    rem: int
    gaps: int

    def owed(self, n: int, period_us: int, now_us: int) -> int:
        """What is taken and not yet drained, in parts of 1/period of a unit."""
        return max(0, self.level * period_us + self.rem - n * (now_us - self.last))


def tell(
    script: Script, n: int, period_us: int, blocks: list[tuple[int, int]], now_us: int
) -> Told:
    """Tells when so many units came; (since, units)."""
    rules = [struct.pack("<Bddd", LATE_BUCKET, n, period_us, since) for since, _ in blocks]
    flags = CHARGE_ANYWAY | LAST
    ops = [struct.pack("<HHBd", 1, at, flags, units) for at, (_, units) in enumerate(blocks, 1)]
    batch = struct.pack("<H", len(rules) | TELL) + b"".join(rules + ops)
    run = script.client.register_script(as_test_form(script_source()))
    reply = run(keys=["k"], args=[batch, now_us])
    told = reply[RECORD * len(blocks) :]
    assert struct.unpack("<d", told[:8]) == (now_us,)
    assert told[8] == len(told) - 9
    form, last, level, rem, *rate = struct.unpack("<Bddddd", told[9:50])
    assert (form, *rate) == (20, n, period_us)
    return Told(int(last), int(level), int(rem), (len(told) - 50) // 16)


def changes(most: int) -> st.SearchStrategy[list[Change]]:
    """Random ones; what came is never older than what the store remembers."""
    block = st.tuples(st.integers(0, KEPT_US // 2), st.integers(1, 40))
    wait = st.one_of(st.integers(0, 3 * SECOND), st.integers(0, 20_000))
    one = st.builds(Change, wait, st.lists(block, max_size=3))
    return st.lists(one, min_size=1, max_size=most)


RATES = st.one_of(
    st.tuples(st.integers(1, 5_000), st.sampled_from([SECOND, 7 * SECOND])),
    st.tuples(st.integers(1, 10**9), st.integers(1, 366 * 86_400).map(lambda it: it * SECOND)),
)


def test_what_is_told_late_is_as_if_it_had_been_told_at_once(script: Script) -> None:
    @given(RATES, changes(CHANGES))
    def run(rate: tuple[int, int], history: list[Change]) -> None:
        script.client.flushdb()
        compare(script, *rate, history)

    run()


def compare(script: Script, n: int, period_us: int, history: list[Change]) -> None:
    """The store's bucket holds what it would hold, had each request been told when it came."""
    model, now_us = LateBucket(n, period_us), NOW
    for change in history:
        now_us += change.wait_us
        if not change.blocks:
            asked = Op("k", "token_bucket", n, period_us, 10**9)
            script.decide([[asked]], now_us, is_told_late=True)
            model.land(now_us, 1)
            continue
        blocks = [(now_us - ago, units) for ago, units in change.blocks]
        told = tell(script, n, period_us, blocks, now_us)
        for since_us, units in blocks:
            model.land(since_us, units)
        assert told.owed(n, period_us, now_us) == model.owed(now_us)


def test_more_gaps_than_are_kept_cost_only_the_shortest(script: Script) -> None:
    script.client.flushdb()
    gaps_us = [1_000 * (5 + at % 7) for at in range(20)]
    model, now_us = LateBucket(1_000, SECOND), NOW
    for gap_us in gaps_us:
        now_us += gap_us + 1_000
        tell(script, 1_000, SECOND, [(now_us, 1)], now_us)
        model.land(now_us, 1)
    told = tell(script, 1_000, SECOND, [(now_us - KEPT_US, 100)], now_us)
    model.land(now_us - KEPT_US, 100)
    assert told.gaps <= 12
    most = sorted(gaps_us)[: len(gaps_us) - 12]
    extra = told.owed(1_000, SECOND, now_us) - model.owed(now_us)
    assert 0 <= extra <= 1_000 * sum(most)


def test_a_bucket_forgets_when_it_was_idle_long_ago(script: Script) -> None:
    script.client.flushdb()
    tell(script, 1_000, SECOND, [(NOW, 700)], NOW)
    later = NOW + KEPT_US
    tell(script, 1_000, SECOND, [(later, 1)], later)
    told = tell(script, 1_000, SECOND, [(NOW - 100_000, 10)], later)
    assert (told.level, told.gaps) == (700 - 600 + 1 + 10, 0)


def test_other_numbers_keep_units_and_idle_time(script: Script) -> None:
    script.client.flushdb()
    tell(script, 1_000, SECOND, [(NOW, 10)], NOW)
    told = tell(script, 4_000, 2 * SECOND, [(NOW - 4_000, 12)], NOW)
    assert (told.level, told.rem) == (10 + 12 - 8, 0)


def test_a_clock_far_behind_forgets_the_gaps_and_keeps_the_level(script: Script) -> None:
    script.client.flushdb()
    tell(script, 1_000, SECOND, [(NOW, 10)], NOW)
    before = NOW - 3 * SECOND
    told = tell(script, 1_000, SECOND, [(before - 100_000, 5)], before)
    assert (told.level, told.last, told.gaps) == (15, before, 0)


def test_who_does_not_tell_late_reads_the_same_level(script: Script) -> None:
    script.client.flushdb()
    tell(script, 1_000, SECOND, [(NOW, 10)], NOW)
    look = Op("k", "token_bucket", 1_000, SECOND, 1_000, cost=0)
    late = script.decide([[look]], NOW + 3_000, is_told_late=True)
    assert script.decide([[look]], NOW + 3_000) == late
    assert script.client.strlen("k") == 41 + 16
    script.decide([[Op("k", "token_bucket", 1_000, SECOND, 1_000)]], NOW + 3_000)
    assert script.client.strlen("k") == 41


@pytest.mark.parametrize(
    ("period_us", "gap"), [(0, (1.0, 1.0)), (SECOND, (float("nan"), 1.0)), (SECOND, (1.0, -1.0))]
)
def test_a_value_that_is_none_of_ours_is_said_and_left(
    script: Script, period_us: int, gap: tuple[float, float]
) -> None:
    script.client.flushdb()
    spoilt = struct.pack("<Bddddddd", 20, NOW - 1_000, 0, 0, 1_000, period_us, *gap)
    script.client.set("k", spoilt)
    asked = Op("k", "token_bucket", 1_000, SECOND, 1_000)
    assert script.decide([[asked]], NOW, is_told_late=True) == [[Failure(3)]]
    assert script.client.get("k") == spoilt
