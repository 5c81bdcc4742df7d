"""The shapes of traffic: when requests come, and to which node."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from benchmarks.accuracy.rule import Rule

CROWD = 0.75
"""Of N, on each side of a window's edge."""
EDGE = 0.1
"""Of the period, on each side: when that crowd comes."""
BURST, PAUSE, BURST_RATE = 0.15, 0.25, 4.0
"""Of the period, and of the limit's rate."""
AT_ONCE, IDLE = 1.5, 1.5
"""Of N at one moment, and of the period between two."""
FEW, FEW_US = 0.004, 45_000
"""Of N that come so long before: what a node admits by itself then is still unknown elsewhere."""

PIECE, PIECE_RATE, PIECE_CROWD = 0.2, (0.3, 2.0), (0.5, 1.5)
"""Of the period at most, of the limit's rate, and of N: what mixed traffic is made of."""


class Arrival(NamedTuple):
    """A request that is due, in microseconds from the beginning, which is a window's."""

    due_us: int
    node: int


@dataclass(frozen=True, slots=True)
class Course:
    """Where a shape is laid out: a limit, the number of nodes, and for how many periods."""

    rule: Rule
    nodes: int
    periods: float
    seed: int = 1

    @property
    def end_us(self) -> int:
        """The length."""
        return int(self.rule.period_us * self.periods)


Shape = Callable[[Course], Iterator[float]]
"""When requests come, in microseconds and in the order of time."""


def arrivals(shape: str, course: Course) -> list[Arrival]:
    """All requests of a course; who is asked has no order."""
    rng = Random(course.seed)
    times = SHAPES[shape](course)
    return [Arrival(int(due), rng.randrange(course.nodes)) for due in times if due < course.end_us]


def _steady(share: float) -> Shape:
    def shape(course: Course) -> Iterator[float]:
        rng, now = Random(course.seed), 0.0
        rate = share * course.rule.n / course.rule.period_us
        while now < course.end_us:
            now += rng.expovariate(rate)
            yield now

    return shape


def _bursty(course: Course) -> Iterator[float]:
    rng, rule, began = Random(course.seed), course.rule, 0.0
    rate = BURST_RATE * rule.n / rule.period_us
    while began < course.end_us:
        now = began
        while (now := now + rng.expovariate(rate)) < began + BURST * rule.period_us:
            yield now
        began += (BURST + PAUSE) * rule.period_us


def _edge(course: Course) -> Iterator[float]:
    rng, rule = Random(course.seed), course.rule
    crowd = int(CROWD * rule.n)
    for window in range(1, int(course.periods) + 1):
        edge = window * rule.period_us
        near = (rng.uniform(-EDGE, EDGE) * rule.period_us for _ in range(2 * crowd))
        yield from sorted(edge + at for at in near)


def _at_once(course: Course) -> Iterator[float]:
    now = 0.3 * course.rule.period_us
    while now < course.end_us:
        yield from [now - FEW_US] * int(FEW * course.rule.n)
        yield from [now] * int(AT_ONCE * course.rule.n)
        now += IDLE * course.rule.period_us


def _mixed(course: Course) -> Iterator[float]:
    rng, rule, now = Random(course.seed), course.rule, 0.0
    while now < course.end_us:
        kind = rng.choice(["few", "pause", "rate", "crowd"])
        if kind == "pause":
            now += rng.uniform(0, PIECE) * rule.period_us
        elif kind == "rate":
            rate = rng.uniform(*PIECE_RATE) * rule.n / rule.period_us
            stop = now + rng.uniform(0, PIECE) * rule.period_us
            while (now := now + rng.expovariate(rate)) < stop:
                yield now
        else:
            share = rng.uniform(0, 3 * FEW) if kind == "few" else rng.uniform(*PIECE_CROWD)
            yield from [now] * int(share * rule.n)
            now += rng.uniform(0, FEW_US)


SHAPES: dict[str, Shape] = {
    "0.5x": _steady(0.5),
    "1x": _steady(1.0),
    "2x": _steady(2.0),
    "bursts": _bursty,
    "edge": _edge,
    "at once": _at_once,
    "mixed": _mixed,
}
"""Steady ones by the limit's rate; bursts with pauses; everybody at a window's edge; all nodes at
once after they were idle, and a few requests just before; and all of that at random."""
