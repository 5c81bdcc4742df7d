"""Quota: everything counted in one period of a calendar shares one limit."""

from dataclasses import dataclass, replace

from tests.oracle.model import MAX, Op


@dataclass(frozen=True, slots=True)
class QuotaState:
    """What was taken in the period that ends at `end`; none just after another clock took over."""

    count: int
    end: int | None
    last: int


def end_at(op: Op, now: int) -> int:
    """The end of the period that holds `now`, by what the caller knows of the periods around."""
    begin, end, following = op.periods
    if now < begin:
        length = end - begin
        return begin - (begin - 1 - now) // length * length
    while end <= now:
        length = following - end
        end += max(1, (now - end) // length) * length
        following = end + length
    return end


class Quota:
    """The model of a quota."""

    def last(self, state: QuotaState) -> int:
        return state.last

    def advance(self, state: QuotaState, now: int) -> QuotaState | None:
        is_over = state.end is not None and now >= state.end
        return None if is_over or not state.count else state

    def rebase(self, state: QuotaState, now: int) -> QuotaState:
        return replace(state, last=now, end=None)

    def retune(self, state: QuotaState, op: Op) -> QuotaState:
        return state if state.end is not None else replace(state, end=end_at(op, state.last))

    def used(self, state: QuotaState | None, now: int) -> int:
        del now
        return state.count if state else 0

    def charge(self, state: QuotaState | None, op: Op, now: int) -> QuotaState:
        end = state.end if state else end_at(op, now)
        return QuotaState(min(MAX, self.used(state, now) + op.cost), end, now)

    def refund(self, state: QuotaState, op: Op, now: int) -> QuotaState:
        return replace(state, count=max(0, state.count - op.cost), last=now)

    def unused_at(self, state: QuotaState | None, op: Op, now: int) -> int:
        end = state.end if state else None
        return end_at(op, now) if end is None else end
