"""Fixed window: everything counted in [k*P, (k+1)*P) shares one limit."""

from dataclasses import dataclass, replace

from tests.oracle.model import MAX, Op


@dataclass(frozen=True, slots=True)
class FixedState:
    """What was taken in the window that holds `last`."""

    period_us: int
    count: int
    last: int


class FixedWindow:
    """The model of `fixed_window`."""

    def last(self, state: FixedState) -> int:
        return state.last

    def advance(self, state: FixedState, now: int) -> FixedState | None:
        if now // state.period_us > state.last // state.period_us:
            return None
        return state if state.count else None

    def rebase(self, state: FixedState, now: int) -> FixedState:
        return replace(state, last=now)

    def retune(self, state: FixedState, op: Op) -> FixedState:
        del op
        return state

    def used(self, state: FixedState | None, now: int) -> int:
        del now
        return state.count if state else 0

    def charge(self, state: FixedState | None, op: Op, now: int) -> FixedState:
        return FixedState(op.period_us, min(MAX, self.used(state, now) + op.cost), now)

    def refund(self, state: FixedState, op: Op, now: int) -> FixedState:
        return FixedState(op.period_us, max(0, state.count - op.cost), now)

    def unused_at(self, state: FixedState | None, op: Op, now: int) -> int:
        del state
        return (now // op.period_us + 1) * op.period_us
