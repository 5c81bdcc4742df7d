"""Sliding log: every admitted cost counts for exactly one period."""

from dataclasses import dataclass, replace

from tests.oracle.model import Op

Entries = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LogState:
    """(time, cost) of what was admitted, in the order of time, equal times merged; never empty."""

    period_us: int
    entries: Entries


class SlidingLog:
    """The model of `sliding_log`. `last` is the time of the newest entry."""

    def last(self, state: LogState) -> int:
        return state.entries[-1][0]

    def advance(self, state: LogState, now: int) -> LogState | None:
        alive = tuple((t, cost) for t, cost in state.entries if t > now - state.period_us)
        return replace(state, entries=alive) if alive else None

    def rebase(self, state: LogState, now: int) -> LogState:
        entries: Entries = ()
        for t, cost in state.entries:
            entries = _append(entries, min(t, now), cost)
        return replace(state, entries=entries)

    def retune(self, state: LogState, op: Op) -> LogState:
        del op
        return state

    def used(self, state: LogState | None, now: int) -> int:
        del now
        return sum(cost for _, cost in state.entries) if state else 0

    def charge(self, state: LogState | None, op: Op, now: int) -> LogState:
        return LogState(op.period_us, _append(state.entries if state else (), now, op.cost))

    def refund(self, state: LogState, op: Op, now: int) -> LogState | None:
        del now
        entries, back = list(state.entries), op.cost
        while entries and back:
            t, cost = entries.pop()
            if cost > back:
                entries.append((t, cost - back))
            back -= min(cost, back)
        return replace(state, entries=tuple(entries)) if entries else None

    def unused_at(self, state: LogState | None, op: Op, now: int) -> int:
        return self.last(state) + op.period_us if state else now


def _append(entries: Entries, t: int, cost: int) -> Entries:
    if entries and entries[-1][0] == t:
        return (*entries[:-1], (t, entries[-1][1] + cost))
    return (*entries, (t, cost))
