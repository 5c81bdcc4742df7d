"""Sliding window counter: this window's count, and the last one's as far as it still overlaps."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from tests.oracle.model import MAX, Op


@dataclass(frozen=True, slots=True)
class SlidingState:
    """The counts of the window that holds `last` and of the one before."""

    period_us: int
    previous: int
    current: int
    last: int


class SlidingWindow:
    """The model of `sliding_window`."""

    def last(self, state: SlidingState) -> int:
        return state.last

    def advance(self, state: SlidingState, now: int) -> SlidingState | None:
        windows = now // state.period_us - state.last // state.period_us
        if windows == 1:
            state = replace(state, previous=state.current, current=0, last=now)
        elif windows > 1:
            return None
        return state if state.previous or state.current else None

    def rebase(self, state: SlidingState, now: int) -> SlidingState:
        return replace(state, last=now)

    def retune(self, state: SlidingState, op: Op) -> SlidingState:
        del op
        return state

    def used(self, state: SlidingState | None, now: int) -> int:
        if state is None:
            return 0
        overlap = Fraction(state.period_us - now % state.period_us, state.period_us)
        return ceil(state.previous * overlap) + state.current

    def charge(self, state: SlidingState | None, op: Op, now: int) -> SlidingState:
        previous, current = (state.previous, state.current) if state else (0, 0)
        return SlidingState(op.period_us, previous, min(MAX, current + op.cost), now)

    def refund(self, state: SlidingState, op: Op, now: int) -> SlidingState:
        return replace(state, current=max(0, state.current - op.cost), last=now)

    def unused_at(self, state: SlidingState | None, op: Op, now: int) -> int:
        window = now // op.period_us
        if state and state.current:
            return (window + 2) * op.period_us
        if state and state.previous:
            return (window + 1) * op.period_us
        return now
