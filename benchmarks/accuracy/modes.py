"""What a simulated node does: the rule of each consistency."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from benchmarks.accuracy.counters import Counter, counter
from benchmarks.accuracy.policy import SHARE, Mode
from benchmarks.accuracy.simulator import ONE_WAY_US, Decide, MakeNode, Store, World

FLUSH_US = 50_000
SAMPLED_FLUSH_US = 500_000


def node_of(mode: Mode) -> MakeNode:
    """The rule of a mode."""
    makers: dict[str, MakeNode] = {
        "exact": exact,
        "local": local,
        "sharded": partial(sharded, mode.parts),
        "sampled": partial(sampled, mode.parts),
    }
    return makers[mode.name]


def exact(world: World, store: Store, nodes: int) -> Decide:
    """Asks the store about everything."""
    del nodes
    return lambda: _ask(world, store)


def local(world: World, store: Store, nodes: int) -> Decide:
    """Admits a small share by itself, and has it charged a little later."""
    most = int(SHARE * world.rule.n / nodes)
    return _Local(world, store, most, FLUSH_US).decide


def sharded(parts: int, world: World, store: Store, nodes: int) -> Decide:
    """Asks one part after another, from a random one on, until one has room."""
    del nodes

    def ask_from(shard: int, left: int, asked_us: int) -> None:
        fits, _ = store.ask(shard=shard)
        if fits or left == 1:
            world.message(partial(world.answer, asked_us, fits))
        else:
            again = partial(ask_from, (shard + 1) % parts, left - 1, asked_us)
            world.message(lambda: world.message(again))

    def decide() -> None:
        world.message(partial(ask_from, world.rng.randrange(parts), parts, world.now))

    return decide


def sampled(parts: int, world: World, store: Store, nodes: int) -> Decide:
    """Admits up to 2 K by itself, and has them charged once they are K or rather old."""
    del nodes
    return _Local(world, store, 2 * parts, SAMPLED_FLUSH_US).decide


def _ask(
    world: World,
    store: Store,
    cost: int = 1,
    hear: Callable[[int, Counter], None] | None = None,
) -> None:
    asked_us = world.now

    def arrive() -> None:
        fits, state = store.ask(cost)
        told = partial(hear, world.now, state.copy()) if hear else None

        def back() -> None:
            if told:
                told()
            world.answer(asked_us, fits)

        world.message(back)

    world.message(arrive)


class _Local:
    """A node that holds a mirror: what the store last said, and what it admitted since."""

    def __init__(self, world: World, store: Store, most: int, flush_us: int) -> None:
        self._world, self._store = world, store
        self._most, self._flush_us = most, flush_us
        self._mirror = counter(world.rule)
        self._told = counter(world.rule)
        """The mirror without what was admitted here."""
        self._heard_us = -1
        self._unflushed: dict[int, int] = defaultdict(int)
        """By window, what no flush has left with yet."""
        self._flying: dict[int, int] = {}
        """The same of the flush that is under way; empty once it has landed."""
        self._landed_us = -1
        self._is_flushing = False
        self._sent_us, self._round_trip_us = 0, 2 * ONE_WAY_US[1]
        world.after(world.rng.randrange(flush_us), self._tick)

    def decide(self) -> None:
        world = self._world
        if self._mirror.used(world.now) >= world.rule.n:
            world.answer(world.now, allowed=False)
            return
        waiting = sum(self._unflushed.values())
        if waiting + sum(self._flying.values()) >= self._most:
            self._flush()
            _ask(world, self._store, hear=self._hear)
            return
        self._mirror.charge(world.now, 1, world.window)
        self._unflushed[world.window] += 1
        if 2 * (waiting + 1) >= self._most:
            self._flush()
        world.answer(world.now, allowed=True)

    def _tick(self) -> None:
        self._flush()
        self._world.after(self._flush_us, self._tick)

    def _flush(self) -> None:
        if self._is_flushing or not self._unflushed:
            return
        self._is_flushing, self._landed_us = True, -1
        self._flying, self._unflushed = dict(self._unflushed), defaultdict(int)
        now, taken = self._world.now, sum(self._flying.values())
        rule = self._world.rule
        on_the_way = -(-rule.n * self._round_trip_us // rule.period_us) + 2
        left = max(0, self._mirror.used(now) - self._told.used(now) - on_the_way)
        self._sent_us = now
        self._world.message(partial(self._land, max(0, taken - left)))

    def _land(self, drained: int) -> None:
        state = self._store.land(self._flying, drained).copy()
        landed_us = self._landed_us = self._world.now

        def back() -> None:
            self._is_flushing, self._flying = False, {}
            self._round_trip_us = self._world.now - self._sent_us
            self._hear(landed_us, state)

        self._world.message(back)

    def _hear(self, time_us: int, state: Counter) -> None:
        """The store's state of that time, to which is added what it did not know then."""
        if time_us < self._heard_us:
            return
        self._heard_us, self._told = time_us, state.copy()
        has_landed = 0 <= self._landed_us <= time_us
        for taken in ({} if has_landed else self._flying, self._unflushed):
            for window, cost in taken.items():
                state.charge(max(time_us, window * self._world.rule.period_us), cost, window)
        self._mirror = state
