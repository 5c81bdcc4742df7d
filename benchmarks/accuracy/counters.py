"""Counters of the simulator: what the oracle models, fast enough for a million requests.

`charge` takes the time from which on a request counts, for what lands later than that.
"""

from collections import deque
from typing import Protocol, Self, TypeVar

from benchmarks.accuracy.rule import Rule

KEPT_US, MOST_GAPS = 600_000, 12
"""So long, and so many, a bucket knows when it was idle."""


class Counter(Protocol):
    """The state of one limit. Times never step back."""

    def used(self, now: int) -> int:
        """How much of the limit is taken."""

    def charge(self, now: int, cost: int, since: int) -> None:
        """Takes so much, whether it fits or not, of what came then."""

    def copy(self) -> Self:
        """The same state, apart."""


class FixedWindow:
    """One count for one window."""

    def __init__(self, rule: Rule) -> None:
        self._period = rule.period_us
        self._window = self._count = 0

    def used(self, now: int) -> int:
        return self._count if now // self._period == self._window else 0

    def charge(self, now: int, cost: int, since: int) -> None:
        current = now // self._period
        if current != self._window:
            self._window, self._count = current, 0
        if since // self._period == current:
            self._count += cost

    def copy(self) -> Self:
        return _copy(self)


class SlidingWindow:
    """The counts of two windows."""

    def __init__(self, rule: Rule) -> None:
        self._period = rule.period_us
        self._window = self._before = self._count = 0

    def used(self, now: int) -> int:
        self._advance(now)
        left = self._period - now % self._period
        return -(-self._before * left // self._period) + self._count

    def charge(self, now: int, cost: int, since: int) -> None:
        self._advance(now)
        window = since // self._period
        if window == self._window:
            self._count += cost
        elif window == self._window - 1:
            self._before += cost

    def copy(self) -> Self:
        return _copy(self)

    def _advance(self, now: int) -> None:
        current = now // self._period
        if current != self._window:
            self._before = self._count if current == self._window + 1 else 0
            self._window, self._count = current, 0


class TokenBucket:
    """What is taken and not yet drained, in parts of 1/period of a unit, of which n drain in a
    microsecond; and when it was idle lately: ends and lengths, in the same parts.

    What came before now fills the time since then in which the bucket was idle.
    """

    def __init__(self, rule: Rule) -> None:
        self._rate, self._period = rule.n, rule.period_us
        self._owed = self._last = 0
        self._gaps = [(0, rule.n * KEPT_US)]

    def used(self, now: int) -> int:
        owed = self._owed - self._rate * max(0, now - self._last)
        return max(0, -(-owed // self._period))

    def charge(self, now: int, cost: int, since: int) -> None:
        self._advance(max(now, self._last))
        need, left = cost * self._period, []
        for stop, idle in self._gaps:
            usable = min(idle, self._rate * max(0, stop - since))
            taken = min(need, usable)
            need -= taken
            left += [(min(stop, since), idle - usable), (stop, usable - taken)]
        self._owed += need
        self._gaps = [it for it in left if it[1] and it[0] > self._last - KEPT_US]
        while len(self._gaps) > MOST_GAPS:
            self._gaps.remove(min(self._gaps, key=lambda it: it[1]))

    def copy(self) -> Self:
        return _copy(self)

    def _advance(self, now: int) -> None:
        owed = self._owed - self._rate * (now - self._last)
        if owed < 0:
            idle = -owed
            if self._gaps and idle == self._rate * (now - self._gaps[-1][0]):
                idle += self._gaps[-1][1]
                self._gaps = self._gaps[:-1]
            self._gaps = [*self._gaps, (now, min(idle, self._rate * KEPT_US))]
        self._owed, self._last = max(0, owed), now


class SlidingLog:
    """When each unit was taken, in the order of time."""

    def __init__(self, rule: Rule) -> None:
        self._period = rule.period_us
        self._taken: deque[int] = deque()

    def used(self, now: int) -> int:
        while self._taken and self._taken[0] <= now - self._period:
            self._taken.popleft()
        return len(self._taken)

    def charge(self, now: int, cost: int, since: int) -> None:
        del since
        self._taken.extend([now] * cost)

    def copy(self) -> Self:
        alike = _copy(self)
        alike.__dict__["_taken"] = self._taken.copy()
        return alike


Flat = TypeVar("Flat")


def _copy(state: Flat) -> Flat:
    alike = object.__new__(type(state))
    alike.__dict__.update(state.__dict__)
    return alike


def counter(rule: Rule) -> Counter:
    """An unused one."""
    return _KINDS[rule.algorithm](rule)


_KINDS: dict[str, type[FixedWindow | SlidingWindow | TokenBucket | SlidingLog]] = {
    "fixed_window": FixedWindow,
    "sliding_window": SlidingWindow,
    "token_bucket": TokenBucket,
    "sliding_log": SlidingLog,
}
