"""What a simulated node does: the rule of each consistency."""

from dataclasses import dataclass
from functools import partial

from benchmarks.accuracy.counters import Counter, counter
from benchmarks.accuracy.policy import SHARE, Mode
from benchmarks.accuracy.simulator import Decide, MakeNode, Store, World
from benchmarks.accuracy.told import Ahead, Taken

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
    return _Local(world, store, nodes, _Hold(most, FLUSH_US)).decide


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
    return _Local(world, store, nodes, _Hold(2 * parts, SAMPLED_FLUSH_US, least=parts)).decide


def _ask(world: World, store: Store) -> None:
    asked_us = world.now

    def arrive() -> None:
        fits, _ = store.ask()
        world.message(partial(world.answer, asked_us, fits))

    world.message(arrive)


@dataclass(frozen=True, slots=True)
class _Hold:
    """What a node admits by itself.

    Args:
        most: Units that it may hold untold.
        flush_us: For how long, microseconds.
        least: Units that it may hold however badly it knows the store's clock.
    """

    most: int
    flush_us: int
    least: int = 0


class _Local:
    """A node that holds a mirror: what the store last said, and what it admitted since.

    It looks at the latest time that the store's clock may show, and has what it admits count from
    the earliest one.
    """

    def __init__(self, world: World, store: Store, nodes: int, hold: _Hold) -> None:
        self._world, self._store = world, store
        self._nodes, self._hold = nodes, hold
        self._mirror = counter(world.rule)
        self._ahead = Ahead()
        self._unflushed = Taken(world.rule)
        """What no flush has left with yet."""
        self._flying = Taken(world.rule)
        """The same of the flush that is under way."""
        self._is_flushing = False
        world.after(world.rng.randrange(hold.flush_us), self._tick)

    def decide(self) -> None:
        world = self._world
        earliest, latest = self._ahead.times(world.now)
        most = max(self._hold.least, self._hold.most - self._blur(latest - earliest))
        if world.rule.window(earliest) != world.rule.window(latest) and not self._is_bucket:
            self._ask()
        elif self._mirror.used(latest) >= world.rule.n:
            world.answer(world.now, allowed=False)
        elif self._unflushed.units + self._flying.units >= most:
            self._ask()
        else:
            self._mirror.charge(earliest, 1, earliest)
            self._unflushed.add(earliest)
            if 2 * self._unflushed.units >= self._hold.most:
                self._flush()
            world.answer(world.now, allowed=True)

    @property
    def _is_bucket(self) -> bool:
        return self._world.rule.algorithm == "token_bucket"

    def _blur(self, width_us: int) -> int:
        """This node's part of what a bucket may have drained, or not, for all that it knows."""
        if not self._is_bucket:
            return 0
        all_nodes = -(-width_us * self._world.rule.n // self._world.rule.period_us)
        return -(-all_nodes // self._nodes)

    def _ask(self) -> None:
        self._flush()
        _ask(self._world, self._store)

    def _tick(self) -> None:
        self._flush()
        self._world.after(self._hold.flush_us, self._tick)

    def _flush(self) -> None:
        if self._is_flushing or not self._unflushed.units:
            return
        self._is_flushing, self._flying = True, self._unflushed.take()
        self._world.message(partial(self._land, self._world.now))

    def _land(self, sent_us: int) -> None:
        state = self._store.land(self._flying.blocks).copy()
        self._world.message(partial(self._hear, self._world.now, sent_us, state))

    def _hear(self, store_us: int, sent_us: int, state: Counter) -> None:
        """The store's state of that time, to which is added what it did not know then."""
        self._is_flushing, self._flying = False, Taken(self._world.rule)
        self._ahead = self._ahead.hear(store_us, sent_us, self._world.now)
        _, latest = self._ahead.times(self._world.now)
        for since, units in self._unflushed.blocks:
            state.charge(max(store_us, since) if self._is_bucket else latest, units, since)
        self._mirror = state
