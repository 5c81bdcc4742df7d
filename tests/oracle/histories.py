"""Random histories for all engines to agree on: clocks that step back, other numbers, batches.

A history follows from a seed and a length, and a shorter one is the beginning of a longer one: so
hypothesis finds the shortest that fails, and thousands of decisions a second are drawn.
"""

from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from tests.oracle.model import MAX, SECOND, Action, AlgorithmName, Op

ALGORITHMS: list[AlgorithmName] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
    "quota",
    "sliding_slots",
]
PERIODS = [s * SECOND for s in (1, 2, 10, 60, 3600, 86_400, 366 * 86_400)]
STARTS = [0, SECOND, 1_764_600_000 * SECOND, 2 * 10**15]
LATEST = 4 * 10**15
"""A time in the year 2096."""

ACTIONS: list[Action] = [*("charge",) * 6, "peek", "refund"]


@dataclass(frozen=True, slots=True)
class Step:
    """One batch: requests that are decided one after another at one time."""

    now_us: int
    requests: list[list[Op]]


def histories(steps: int = 80) -> st.SearchStrategy[list[Step]]:
    """Histories of up to so many batches over four counters."""
    return st.builds(history_of, seed=st.integers(0, 2**32 - 1), steps=st.integers(1, steps))


def history_of(seed: int, steps: int) -> list[Step]:
    """The history of a seed."""
    rng = Random(seed)
    counters = [_counter(rng, f"k{number}") for number in range(4)]
    now = rng.choice(STARTS)
    history = []
    for _ in range(steps):
        chosen = rng.randrange(4)
        if rng.random() < 0.15:
            counters[chosen] = _changed(rng, counters[chosen])
        now = _next_time(rng, now, counters[chosen].period_us)
        requests = [
            _request(rng, counters, chosen, now) for _ in range(rng.choice([1, 1, 1, 2, 5]))
        ]
        history.append(Step(now, requests))
    return history


def number_of(rng: Random) -> int:
    """A limit as people write it, or one up to 2^53 - 1."""
    return rng.choice(
        [
            rng.randint(1, 12),
            rng.randint(1, 12),
            rng.randint(1, 12),
            rng.randint(1, 10**6),
            rng.randint(1, MAX),
            MAX - rng.randint(0, 3),
            1 << rng.randint(0, 52),
        ]
    )


def ends_around(counter: Op, caller_now: int) -> tuple[int, int, int]:
    """A calendar of periods as long as the counter's, a part shorter, a part longer, and so on.

    Another burst, which a quota lacks, shifts it: that is another time zone.
    """
    whole, shift = counter.period_us, counter.burst % 86_400 * SECOND
    part = whole // SECOND // 24 * SECOND
    since = max(0, caller_now - shift) // (3 * whole) * (3 * whole)
    starts = [shift + since]
    for length in (whole, whole - part, whole + part) * 2:
        starts.append(starts[-1] + length)
    at = max(0, *(at for at, start in enumerate(starts[:4]) if start <= max(caller_now, starts[0])))
    return starts[at], starts[at + 1], starts[at + 2]


def _clock_error(rng: Random, counter: Op) -> int:
    """How far the caller's clock is ahead of the store's: seconds, seldom more than a period."""
    second, period = rng.randint(-5 * SECOND, 5 * SECOND), counter.period_us
    return rng.choice([0, 0, 0, second, second, rng.randint(-2 * period, 2 * period)])


def _counter(rng: Random, key: str) -> Op:
    return Op(
        key=key,
        algorithm=rng.choice(ALGORITHMS),
        n=number_of(rng),
        period_us=rng.choice(PERIODS),
        burst=number_of(rng),
        slots=rng.choice([1, 2, 3, 7, 60]),
        is_conservative=rng.random() < 0.5,
    )


def _changed(rng: Random, counter: Op) -> Op:
    """The same counter under other numbers; a window's period is in its key and so stays."""

    def other(number: int) -> int:
        near = [number + 1, number - 1, number * 2, number // 2, number_of(rng)]
        return min(MAX, max(1, rng.choice(near)))

    counter = replace(counter, n=other(counter.n), burst=other(counter.burst))
    if counter.algorithm == "token_bucket":
        counter = replace(counter, period_us=rng.choice(PERIODS))
    return counter


def _next_time(rng: Random, now: int, period: int) -> int:
    steps = [
        *(0, 0, 0, 1),
        *(period, period - now % period, 2 * period),
        *(rng.randint(0, period), rng.randint(0, period), rng.randint(0, 4 * period)),
        *(-1, -SECOND, -SECOND - 1, -rng.randint(0, SECOND), -rng.randint(0, 3 * period)),
        *(rng.randint(0, SECOND), rng.randint(0, 10**13)),
    ]
    return max(0, min(LATEST, now + rng.choice(steps)))


def _request(rng: Random, counters: list[Op], chosen: int, now: int) -> list[Op]:
    """One operation mostly, sometimes several, each on another counter."""
    if rng.random() < 0.6:
        return [_op(rng, counters[chosen], now)]
    return [_op(rng, counter, now) for counter in rng.sample(counters, rng.randint(1, 4))]


def _op(rng: Random, counter: Op, now: int) -> Op:
    capacity = counter.capacity
    near = [0, 1, 1, 1, 1, 2, 3, capacity // 3, capacity // 2, capacity, capacity + 1]
    cost = min(MAX, rng.choice([*near, rng.randint(1, capacity)]))
    action = rng.choice(ACTIONS)
    ends = (
        ends_around(counter, now + _clock_error(rng, counter))
        if counter.algorithm == "quota"
        else None
    )
    return replace(
        counter,
        action=action,
        cost=cost if action == "charge" else max(1, cost),
        shadow=rng.random() < 0.15,
        ends=ends,
        count_denied=counter.algorithm != "sliding_log" and rng.random() < 0.25,
    )
