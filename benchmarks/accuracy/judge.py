"""Holds answers against the limit: admitted over, denied under.

When a request was decided is known only up to the time that its answer took. The judge gives the
limiter the benefit of that doubt: what it calls over or under is so, whenever each was decided.
How much is used it lets the oracle say.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.accuracy.rule import Exchange, Rule
from benchmarks.accuracy.spans import Spans
from tests.oracle.fixed_window import FixedState, FixedWindow
from tests.oracle.sliding_window import SlidingState, SlidingWindow
from tests.oracle.token_bucket import BucketState, TokenBucket

Room = Callable[[Exchange], int]
"""The least room that the exact limiter can have had when it met a request."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a limiter did wrong, for sure.

    Args:
        over: The most that was admitted above what the limit permits: in a window, or from a
            bucket over any span.
        under: The most room that there was at a denial; 0: none was wrong.
        wrong: The number of such denials.
        admitted: Requests that passed.
        denied: Requests that did not.
    """

    over: int
    under: int
    wrong: int
    admitted: int
    denied: int


def judge(rule: Rule, seen: Sequence[Exchange]) -> Verdict:
    """Judges all requests that met one counter, which nobody had used before."""
    passed = sorted((it for it in seen if it.allowed), key=lambda it: it.answered_us)
    denied = sorted((it for it in seen if not it.allowed), key=lambda it: it.answered_us)
    over, room_of = _ALGORITHMS[rule.algorithm]
    find_room = room_of(rule, passed)
    rooms = [room for it in denied if (room := find_room(it)) > 0]
    return Verdict(
        over=max(0, over(rule, passed)),
        under=max(rooms, default=0),
        wrong=len(rooms),
        admitted=len(passed),
        denied=len(denied),
    )


def _over_window(rule: Rule, passed: Sequence[Exchange]) -> int:
    windows = Counter(
        rule.window(it.sent_us)
        for it in passed
        if rule.window(it.sent_us) == rule.window(it.answered_us)
    )
    return max(windows.values(), default=0) - rule.n


def _room_in_window(rule: Rule, passed: Sequence[Exchange]) -> Room:
    count = _most_by_window(rule, passed)

    def room(asked: Exchange) -> int:
        return min(
            rule.n - FixedWindow().used(state, asked.answered_us)
            for window in _windows(rule, asked)
            for state in [FixedState(rule.period_us, count(window, asked), asked.answered_us)]
        )

    return room


def _over_sliding(rule: Rule, passed: Sequence[Exchange]) -> int:
    counts: Counter[int] = Counter()
    most = 0
    for it in passed:
        # One that may belong to two windows weighs less in the first.
        counts[rule.window(it.sent_us)] += 1
        window, now = rule.window(it.answered_us), it.answered_us
        state = SlidingState(rule.period_us, counts[window - 1], counts[window], now)
        if counts[window - 1] + counts[window] > rule.n:
            most = max(most, SlidingWindow().used(state, now))
    return most - rule.n


def _room_sliding(rule: Rule, passed: Sequence[Exchange]) -> Room:
    count = _most_by_window(rule, passed)

    def room(asked: Exchange) -> int:
        least = rule.n
        for window in _windows(rule, asked):
            now = max(asked.sent_us, window * rule.period_us)
            before, current = count(window - 1, asked), count(window, asked)
            state = SlidingState(rule.period_us, before, current, now)
            least = min(least, rule.n - SlidingWindow().used(state, now))
        return least

    return room


def _over_log(rule: Rule, passed: Sequence[Exchange]) -> int:
    sent = sorted(it.sent_us for it in passed)
    counts = (
        at + 1 - bisect_right(sent, it.answered_us - rule.period_us) for at, it in enumerate(passed)
    )
    return max(counts, default=0) - rule.n


def _room_in_log(rule: Rule, passed: Sequence[Exchange]) -> Room:
    sent = sorted(it.sent_us for it in passed)
    answered = [it.answered_us for it in passed]

    def room(asked: Exchange) -> int:
        gone = bisect_right(answered, asked.sent_us - rule.period_us)
        return rule.n - (bisect_right(sent, asked.answered_us) - gone)

    return room


def _over_bucket(rule: Rule, passed: Sequence[Exchange]) -> int:
    sent = sorted(it.sent_us for it in passed)
    taken: Counter[int] = Counter()
    spans, most = Spans(len(passed)), 0
    for it in passed:
        place = bisect_left(sent, it.sent_us) + taken[it.sent_us]
        taken[it.sent_us] += 1
        spans.put(place, rule.period_us, rule.n * it.sent_us)
        most = max(most, _owed(rule, spans.best, it.answered_us))
    return most - rule.n


def _room_in_bucket(rule: Rule, passed: Sequence[Exchange]) -> Room:
    """Denials must be asked about in the order of their answers."""
    by_sent = sorted(range(len(passed)), key=lambda place: passed[place].sent_us, reverse=True)
    spans = Spans(len(passed))

    def room(asked: Exchange) -> int:
        while by_sent and passed[by_sent[-1]].sent_us <= asked.answered_us:
            place = by_sent.pop()
            spans.put(place, rule.period_us, rule.n * passed[place].answered_us)
        return rule.n - _owed(rule, spans.best, asked.sent_us)

    return room


def _owed(rule: Rule, best: int, now: int) -> int:
    state = BucketState(rule.n, rule.period_us, max(0, best - rule.n * now), now)
    return TokenBucket().used(state, now)


def _windows(rule: Rule, asked: Exchange) -> range:
    return range(rule.window(asked.sent_us), rule.window(asked.answered_us) + 1)


def _most_by_window(rule: Rule, passed: Sequence[Exchange]) -> Callable[[int, Exchange], int]:
    """The most that can have been in a window before a request: all that may belong there."""
    sent: dict[int, list[int]] = defaultdict(list)
    for it in sorted(passed):
        for window in _windows(rule, it):
            sent[window].append(it.sent_us)

    def count(window: int, asked: Exchange) -> int:
        return bisect_right(sent.get(window, ()), asked.answered_us)

    return count


_ALGORITHMS: dict[
    str,
    tuple[Callable[[Rule, Sequence[Exchange]], int], Callable[[Rule, Sequence[Exchange]], Room]],
] = {
    "fixed_window": (_over_window, _room_in_window),
    "sliding_window": (_over_sliding, _room_sliding),
    "sliding_log": (_over_log, _room_in_log),
    "token_bucket": (_over_bucket, _room_in_bucket),
}
