"""Exactly N: threads and processes against one limit, memory store."""

import multiprocessing
import threading
from collections.abc import Callable

import pytest

from tidegate import Limiter
from tidegate.limiter import Limit

THREADS = 20
ALGORITHMS = ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]
NOW = 1_760_000_000.0


def _admitted(hit: Callable[[], bool], threads: int, calls: int) -> int:
    """How many of `calls` from each of `threads`, all at once, were admitted."""
    counts = [0] * threads
    barrier = threading.Barrier(threads)

    def work(at: int) -> None:
        barrier.wait()
        counts[at] = sum(hit() for _ in range(calls))

    workers = [threading.Thread(target=work, args=(at,)) for at in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_500_of_1000_parallel_calls_pass_b48(algorithm: str) -> None:
    limit = Limiter(clock=lambda: NOW).limit("500/hour", id="l", algorithm=algorithm)
    assert _admitted(lambda: bool(limit.hit("a")), THREADS, 50) == 500


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_1_of_50_calls_at_once_passes_b48(algorithm: str) -> None:
    limit = Limiter(clock=lambda: NOW).limit("1/hour", id="l", algorithm=algorithm)
    assert _admitted(lambda: bool(limit.hit("a")), 50, 1) == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_several_limits_and_costs_stay_exact(algorithm: str) -> None:
    limiter = Limiter(clock=lambda: NOW)
    limit = limiter.limit("300/hour; 310/day", id="l", algorithm=algorithm)
    assert _admitted(lambda: bool(limit.hit("a", cost=3)), THREADS, 20) == 100
    assert [one.remaining for one in limit.peek("a").limits] == [0, 10]


def _count_in_child(limit: Limit, answers: "multiprocessing.Queue[int]") -> None:
    answers.put(sum(bool(limit.hit("a")) for _ in range(20)))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_counts_on_from_what_its_parent_had() -> None:
    limit = Limiter(clock=lambda: NOW).limit("10/hour", id="l")
    assert limit.hit("a", cost=4)
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[int] = context.Queue()
    child = context.Process(target=_count_in_child, args=(limit, answers))
    child.start()
    assert answers.get(timeout=30) == 6
    child.join(30)
    assert (child.exitcode, limit.peek("a").limits[0].remaining) == (0, 6)
