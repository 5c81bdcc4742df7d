"""Times hits in this process and prints them as JSON: one system, one round.

python benchmarks/inproc_worker.py tidegate|limits ALGORITHM
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

HITS = 200_000
KEYS = 100_000
SLICES = 20

Hit = Callable[[str], object]


def main() -> None:
    system, algorithm = sys.argv[1:]
    hit = {"tidegate": tidegate, "limits": limits}[system](algorithm)
    keys = [f"user-{number:06}" for number in range(KEYS)]
    random.Random(4).shuffle(keys)
    one = ["user-000000"] * HITS
    # Each counter is there before it is timed: what is measured is a hit, not a first one.
    each(hit, keys)
    figures = {
        "hit_1_key_us": timed(hit, one),
        "hit_100k_keys_us": timed(hit, keys * 2),
        "noop_us": timed(len, one),
    }
    print(json.dumps(figures))


def tidegate(algorithm: str) -> Hit:
    from tidegate import Limiter  # noqa: PLC0415  each system is in an environment of its own

    hit: Hit = Limiter().limit("1M/s", id="posts", algorithm=algorithm).hit
    return hit


def limits(algorithm: str) -> Hit:
    from limits import RateLimitItemPerSecond, storage, strategies  # noqa: PLC0415

    strategy = {
        "fixed_window": strategies.FixedWindowRateLimiter,
        "sliding_window": strategies.SlidingWindowCounterRateLimiter,
    }[algorithm]
    limiter = strategy(storage.MemoryStorage())
    item = RateLimitItemPerSecond(1_000_000)

    def hit(key: str) -> object:
        return limiter.hit(item, key)

    return hit


def each(hit: Hit, keys: Sequence[str]) -> None:
    """One hit for each key."""
    for key in keys:
        hit(key)


def timed(hit: Hit, keys: Sequence[str]) -> float:
    """Microseconds a hit, the loop included: the median over slices."""
    size = len(keys) // SLICES
    taken = []
    for at in range(SLICES):
        part = keys[at * size : (at + 1) * size]
        begin = time.perf_counter()
        each(hit, part)
        taken.append((time.perf_counter() - begin) / size * 1e6)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
