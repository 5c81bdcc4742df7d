"""Token bucket (and leaky bucket): what was taken drains away at n units a period."""

from dataclasses import dataclass, replace

from tests.oracle.model import MAX, Op


@dataclass(frozen=True, slots=True)
class BucketState:
    """`owed` is what is taken and not yet drained, in parts of 1/period of a unit.

    In these parts exactly `n` drain in every microsecond, so nothing is ever rounded.
    """

    n: int
    period_us: int
    owed: int
    last: int


class TokenBucket:
    """The model of `token_bucket`. Its size is no part of the state, its rate is."""

    def last(self, state: BucketState) -> int:
        return state.last

    def advance(self, state: BucketState, now: int) -> BucketState | None:
        owed = state.owed - state.n * (now - state.last)
        return replace(state, owed=owed, last=now) if owed > 0 else None

    def rebase(self, state: BucketState, now: int) -> BucketState:
        return replace(state, last=now)

    def retune(self, state: BucketState, op: Op) -> BucketState:
        whole, part = divmod(state.owed, state.period_us)
        owed = whole * op.period_us + part * op.period_us // state.period_us
        return replace(state, n=op.n, period_us=op.period_us, owed=owed)

    def used(self, state: BucketState | None, now: int) -> int:
        del now
        return -(-state.owed // state.period_us) if state else 0

    def charge(self, state: BucketState | None, op: Op, now: int) -> BucketState:
        owed = state.owed if state else 0
        # Only what is taken anyway gets above the burst: up to twice of it, and never down to that.
        most = max(owed, min(2 * op.burst, MAX) * op.period_us)
        owed = min(owed + op.cost * op.period_us, most)
        return BucketState(op.n, op.period_us, owed, now)

    def refund(self, state: BucketState, op: Op, now: int) -> BucketState:
        return replace(state, owed=max(0, state.owed - op.cost * op.period_us), last=now)

    def unused_at(self, state: BucketState | None, op: Op, now: int) -> int:
        return now + -(-state.owed // op.n) if state else now
