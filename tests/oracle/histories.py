"""Random histories for all engines to agree on: clocks that step back, other numbers, batches."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tests.oracle.model import MAX, SECOND, Action, AlgorithmName, Op

ALGORITHMS: list[AlgorithmName] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
]
PERIODS = [s * SECOND for s in (1, 2, 10, 60, 3600, 86_400, 366 * 86_400)]
LATEST = 4 * 10**15
"""A time in the year 2096."""

ACTIONS: list[Action] = [*("charge",) * 6, "peek", "refund"]


@dataclass(frozen=True, slots=True)
class Step:
    """One batch: requests that are decided one after another at one time."""

    now_us: int
    requests: list[list[Op]]


def numbers() -> SearchStrategy[int]:
    """Limits as people write them, and limits up to 2^53 - 1."""
    small = st.integers(1, 12)
    huge = st.one_of(
        st.integers(1, MAX),
        st.integers(MAX - 3, MAX),
        st.integers(0, 52).map(lambda bits: 2**bits),
    )
    return st.one_of(small, small, st.integers(1, 10**6), huge)


@st.composite
def histories(draw: DrawFn, steps: int = 40) -> list[Step]:
    """A history of up to `steps` batches over four counters."""
    counters = [draw(_counters(f"k{number}")) for number in range(4)]
    now = draw(st.sampled_from([0, SECOND, 1_764_600_000 * SECOND, 2 * 10**15]))
    history = []
    for _ in range(draw(st.integers(1, steps))):
        chosen = draw(st.integers(0, 3))
        if draw(st.integers(0, 6)) == 0:
            counters[chosen] = draw(_changed(counters[chosen]))
        now = draw(_next_time(now, counters[chosen].period_us))
        requests = [
            [draw(_ops(counters[index])) for index in draw(_some_counters(chosen))]
            for _ in range(draw(st.sampled_from([1, 1, 1, 2, 5])))
        ]
        history.append(Step(now, requests))
    return history


@st.composite
def _counters(draw: DrawFn, key: str) -> Op:
    return Op(
        key=key,
        algorithm=draw(st.sampled_from(ALGORITHMS)),
        n=draw(numbers()),
        period_us=draw(st.sampled_from(PERIODS)),
        burst=draw(numbers()),
    )


@st.composite
def _changed(draw: DrawFn, counter: Op) -> Op:
    """The same counter under other numbers; a window's period is in its key and so stays."""

    def other(number: int) -> int:
        nearby = [number + 1, number - 1, number * 2, number // 2]
        return min(MAX, max(1, draw(st.one_of(st.sampled_from(nearby), numbers()))))

    counter = replace(counter, n=other(counter.n), burst=other(counter.burst))
    if counter.algorithm == "token_bucket":
        counter = replace(counter, period_us=draw(st.sampled_from(PERIODS)))
    return counter


@st.composite
def _next_time(draw: DrawFn, now: int, period: int) -> int:
    step: int = draw(
        st.one_of(
            st.just(0),
            st.sampled_from([0, 1, period, period - now % period, 2 * period]),
            st.integers(0, period),
            st.integers(0, 4 * period),
            st.sampled_from([-1, -SECOND, -SECOND - 1]),
            st.integers(-SECOND, SECOND),
            st.integers(-3 * period, 0),
            st.integers(0, 10**13),
        )
    )
    return max(0, min(LATEST, now + step))


def _some_counters(chosen: int) -> SearchStrategy[list[int]]:
    """Which counters a request meets, each of them once."""
    several = st.lists(st.integers(0, 3), min_size=2, max_size=4, unique=True)
    return st.one_of(st.just([chosen]), st.just([chosen]), several)


@st.composite
def _ops(draw: DrawFn, counter: Op) -> Op:
    capacity = counter.capacity
    near = [0, 1, 1, 1, 2, 3, capacity // 3, capacity // 2, capacity, capacity + 1]
    action = draw(st.sampled_from(ACTIONS))
    cost = min(MAX, draw(st.one_of(st.sampled_from(near), st.integers(1, capacity))))
    if action != "charge":
        cost = max(1, cost)
    return replace(counter, action=action, cost=cost, shadow=draw(st.integers(0, 6)) == 0)
