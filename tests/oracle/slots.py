"""Sliding window in slots: the whole slots of a period, and the oldest as far as it overlaps."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from tests.oracle.model import MAX, Op


@dataclass(frozen=True, slots=True)
class SlotState:
    """Counts of the slot of `last` and of those before it, newest first: one period's, and one."""

    period_us: int
    slots: int
    is_conservative: bool
    counts: tuple[int, ...]
    last: int

    def slot(self, now: int) -> int:
        """The number of the slot that holds a time."""
        return now * self.slots // self.period_us

    def start(self, slot: int) -> int:
        """Where a slot begins."""
        return ceil(Fraction(slot * self.period_us, self.slots))


class SlidingSlots:
    """The model of `sliding_window` with `slots` or `conservative`."""

    def last(self, state: SlotState) -> int:
        return state.last

    def advance(self, state: SlotState, now: int) -> SlotState | None:
        moved = state.slot(now) - state.slot(state.last)
        counts = ((0,) * min(moved, len(state.counts)) + state.counts)[: len(state.counts)]
        return replace(state, counts=counts, last=max(now, state.last)) if any(counts) else None

    def rebase(self, state: SlotState, now: int) -> SlotState:
        return replace(state, last=now)

    def retune(self, state: SlotState, op: Op) -> SlotState:
        del op  # another split is another counter
        return state

    def used(self, state: SlotState | None, now: int) -> int:
        if state is None:
            return 0
        *whole, oldest = state.counts
        if not state.is_conservative:
            slot = state.slot(now)
            begin, end = state.start(slot), state.start(slot + 1)
            oldest = ceil(Fraction(oldest * (end - now), end - begin))
        return sum(whole) + oldest

    def charge(self, state: SlotState | None, op: Op, now: int) -> SlotState:
        if state is None:
            nothing = (0,) * (op.slots + 1)
            state = SlotState(op.period_us, op.slots, op.is_conservative, nothing, now)
        newest, *others = state.counts
        return replace(state, counts=(min(MAX, newest + op.cost), *others), last=now)

    def refund(self, state: SlotState, op: Op, now: int) -> SlotState:
        newest, *others = state.counts
        return replace(state, counts=(max(0, newest - op.cost), *others), last=now)

    def unused_at(self, state: SlotState | None, op: Op, now: int) -> int:
        del op
        held = [at for at, count in enumerate(state.counts) if count] if state else []
        if state is None or not held:
            return now
        return state.start(state.slot(now) - held[0] + len(state.counts))
