"""The words of the oracle: one operation, its outcome, and what an algorithm has to say."""

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

MAX = 2**53 - 1
"""Every time that is said saturates here."""

SECOND = 1_000_000
FREEZE = SECOND
"""A clock behind the last write by at most this stands still; further behind it is taken over."""

NEVER = -1
"""The wait of a cost above the capacity."""

AlgorithmName = Literal[
    "fixed_window", "sliding_window", "sliding_log", "token_bucket", "quota", "sliding_slots"
]
Action = Literal["charge", "peek", "refund"]


@dataclass(frozen=True, slots=True)
class Op:
    """One counter's part of a request: which counter, under which numbers, and what to do."""

    key: str
    algorithm: AlgorithmName
    n: int
    period_us: int
    burst: int
    action: Action = "charge"
    cost: int = 1
    shadow: bool = False
    count_denied: bool = False
    """A charge is taken whatever this limit or another one says."""
    ends: tuple[int, int, int] | None = None
    """Of a quota: begin and end of the period that the caller is in, and the end of the next.

    Without them its periods are those of a fixed window.
    """

    slots: int = 1
    """Of sliding_slots: the parts of a window."""
    is_conservative: bool = False
    """Of sliding_slots: the oldest part counts whole."""

    @property
    def periods(self) -> tuple[int, int, int]:
        """The ends, or those of the first two fixed windows that ever were."""
        return self.ends or (0, self.period_us, 2 * self.period_us)

    @property
    def capacity(self) -> int:
        """The largest cost that could ever pass."""
        return self.burst if self.algorithm == "token_bucket" else self.n

    @property
    def asked(self) -> int:
        """The cost to look at: a cost of 0 sees what a cost of 1 would see."""
        return max(self.cost, 1)

    @property
    def is_taken_anyway(self) -> bool:
        """Whether a denial, of its own or of another limit, leaves it charged."""
        return self.count_denied and self.action == "charge" and self.cost > 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one limit answers, after whatever the request did to it."""

    fits: bool
    remaining: int
    wait_us: int
    reset_us: int


S = TypeVar("S")


class Algorithm(Protocol, Generic[S]):
    """The pure part of one algorithm. A state of None is a counter that nobody has used.

    Times are absolute microseconds. `now` is never before `last(state)` except in `rebase`.
    """

    def last(self, state: S) -> int:
        """When the state was last written (sliding log: the time of its newest entry)."""

    def advance(self, state: S, now: int) -> S | None:
        """The state as time alone has made it by `now`; None when nothing is left of it.

        It may be advanced again from there.
        """

    def rebase(self, state: S, now: int) -> S:
        """The state taken over by a clock that is far behind `last`, without credit."""

    def retune(self, state: S, op: Op) -> S:
        """The state under the rate of `op`: only a bucket holds one, a window's is in its key."""

    def used(self, state: S | None, now: int) -> int:
        """How much of the capacity is taken at `now`, in whole units."""

    def charge(self, state: S | None, op: Op, now: int) -> S:
        """The state after `op.cost` more."""

    def refund(self, state: S, op: Op, now: int) -> S | None:
        """The state after giving `op.cost` back; None when that removes the state."""

    def unused_at(self, state: S | None, op: Op, now: int) -> int:
        """When the counter is as good as unused (fixed window, quota: when it ends)."""
