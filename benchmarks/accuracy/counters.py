"""Counters of the simulator: what the oracle models, fast enough for a million requests.

`charge` takes the window that a request was admitted in, for what lands later than that.
"""

from collections import deque
from typing import Protocol, Self, TypeVar

from benchmarks.accuracy.rule import Rule


class Counter(Protocol):
    """The state of one limit. Times never step back."""

    def used(self, now: int) -> int:
        """How much of the limit is taken."""

    def charge(self, now: int, cost: int, window: int) -> None:
        """Takes so much, whether it fits or not."""

    def copy(self) -> Self:
        """The same state, apart."""


class FixedWindow:
    """One count for one window."""

    def __init__(self, rule: Rule) -> None:
        self._period = rule.period_us
        self._window = self._count = 0

    def used(self, now: int) -> int:
        return self._count if now // self._period == self._window else 0

    def charge(self, now: int, cost: int, window: int) -> None:
        current = now // self._period
        if current != self._window:
            self._window, self._count = current, 0
        if window == current:
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

    def charge(self, now: int, cost: int, window: int) -> None:
        self._advance(now)
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
    """What is taken and not yet drained, in parts of 1/period of a unit."""

    def __init__(self, rule: Rule) -> None:
        self._rate, self._period = rule.n, rule.period_us
        self._owed = self._last = 0

    def used(self, now: int) -> int:
        self._advance(now)
        return -(-self._owed // self._period)

    def charge(self, now: int, cost: int, window: int) -> None:
        del window
        self._advance(now)
        self._owed += cost * self._period

    def land(self, now: int, cost: int, drained: int) -> None:
        """Charges what was admitted elsewhere, where `drained` of it had drained meanwhile; here
        that counts as far as this bucket was idle."""
        idle = max(0, self._rate * (now - self._last) - self._owed) // self._period
        self.charge(now, cost - min(drained, idle), 0)

    def copy(self) -> Self:
        return _copy(self)

    def _advance(self, now: int) -> None:
        self._owed = max(0, self._owed - self._rate * (now - self._last))
        self._last = now


class SlidingLog:
    """When each unit was taken, in the order of time."""

    def __init__(self, rule: Rule) -> None:
        self._period = rule.period_us
        self._taken: deque[int] = deque()

    def used(self, now: int) -> int:
        while self._taken and self._taken[0] <= now - self._period:
            self._taken.popleft()
        return len(self._taken)

    def charge(self, now: int, cost: int, window: int) -> None:
        del window
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
