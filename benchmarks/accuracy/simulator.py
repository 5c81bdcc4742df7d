"""Many nodes and a store without a process: one event after another, on a clock of its own.

Messages take a random time each way. The store decides in the order in which they arrive.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from benchmarks.accuracy.counters import Counter, counter
from benchmarks.accuracy.rule import Exchange, Rule
from benchmarks.accuracy.traffic import Arrival

ONE_WAY_US = (100, 1_000)
"""The least and the longest time of a message."""

LAST_ANSWERS_US = 1_000_000
"""For so long after the last request."""

Event = Callable[[], None]


@dataclass
class World:
    """The clock, what is to happen, and what was asked and answered so far."""

    rule: Rule
    rng: Random
    now: int = 0
    seen: list[Exchange] = field(default_factory=list)
    calls: int = 0
    """Messages that reached the store."""
    _events: list[tuple[int, int, Event]] = field(default_factory=list)
    _order: int = 0

    def after(self, wait_us: int, event: Event) -> None:
        """Has something happen later; what is due at once happens in the order it was said in."""
        self._order += 1
        heapq.heappush(self._events, (self.now + wait_us, self._order, event))

    def message(self, event: Event) -> None:
        """Has something happen when a message arrives."""
        self.after(self.rng.randint(*ONE_WAY_US), event)

    def answer(self, asked_us: int, allowed: bool) -> None:
        """A request that came then is answered now."""
        self.seen.append(Exchange(asked_us, self.now, allowed))

    def until(self, time_us: int) -> None:
        """Lets everything happen that is due by then."""
        while self._events and self._events[0][0] <= time_us:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = max(self.now, time_us)


class Store:
    """One counter, or K shards of it with their parts of N."""

    def __init__(self, world: World, shards: int = 1) -> None:
        n = world.rule.n
        self._world = world
        self._counters = [counter(world.rule) for _ in range(shards)]
        self._sizes = [n // shards + (at < n % shards) for at in range(shards)]

    def ask(self, cost: int = 1, shard: int = 0) -> tuple[bool, Counter]:
        """Decides now; brings the state along."""
        world, found = self._world, self._counters[shard]
        world.calls += 1
        fits = found.used(world.now) + cost <= self._sizes[shard]
        if fits:
            found.charge(world.now, cost, world.now)
        return fits, found

    def land(self, blocks: Iterable[tuple[int, int]]) -> Counter:
        """Charges what a node has admitted, by the times it counts from, whether it fits or not."""
        self._world.calls += 1
        (found,) = self._counters
        for since, cost in blocks:
            found.charge(self._world.now, cost, since)
        return found


Decide = Callable[[], None]
"""A node decides about a request that has come now."""
MakeNode = Callable[[World, Store, int], Decide]


def simulate(
    rule: Rule, nodes: int, make: MakeNode, due: Sequence[Arrival], shards: int = 1
) -> World:
    """Lets all requests come, and the last of them be answered."""
    world = World(rule, Random(7))
    store = Store(world, shards)
    deciders = [make(world, store, nodes) for _ in range(nodes)]
    for arrival in due:
        world.until(arrival.due_us)
        deciders[arrival.node]()
    world.until(world.now + LAST_ANSWERS_US)
    return world
