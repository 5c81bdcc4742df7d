"""The limiter on a real shared store."""

import multiprocessing
import pickle
import threading
import time
import uuid
from multiprocessing.context import ForkContext, SpawnContext
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.memory import histories
from tests.contract.memory.expected import Rule, expect
from tests.contract.memory.test_agrees import rounded, said
from tests.oracle.request import Oracle
from tests.servers.valkey import StoreServer
from tidegate import Limiter, StoreError
from tidegate.limiter import Limit

ALGORITHMS = ["token_bucket", "fixed_window", "sliding_window", "sliding_log"]
PATIENT_S = 10.0
"""So long that a busy machine is no store failure."""


def _limiter(server: StoreServer, **options: object) -> Limiter:
    made = {"prefix": uuid.uuid4().hex, "store_timeout": PATIENT_S, **options}
    return Limiter(server.url, **made)  # type: ignore[arg-type]


def test_every_verb_reaches_the_store(shared_valkey: StoreServer) -> None:
    with _limiter(shared_valkey, on_store_failure="raise") as limiter:
        limit = limiter.limit("5/hour; 100/day", id="l")
        taken = limit.hit("a", 7, b"\xff", cost=4)
        assert [one.remaining for one in taken.limits] == [1, 96]
        assert not limit.hit("a", 7, b"\xff", cost=2)
        assert [one.remaining for one in limit.refund(taken).limits] == [5, 100]
        made = limit.hit_many([("b", 3), ("b", 3), (("b", "c"), 5)])
        assert [bool(one) for one in made] == [True, False, True]
        limit.reset("b")
        assert limit.peek("b").limits[0].remaining == 5
        assert not any(one.degraded for one in made)


def test_limiters_of_one_prefix_share_their_counters(shared_valkey: StoreServer) -> None:
    one = _limiter(shared_valkey)
    other = pickle.loads(pickle.dumps(one))
    assert one.limit("1/hour", id="l").hit("a")
    assert not other.limit("1/hour", id="l").hit("a")
    assert _limiter(shared_valkey).limit("1/hour", id="l").hit("a")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_500_of_1000_parallel_calls_pass_b48(shared_valkey: StoreServer, algorithm: str) -> None:
    # Fixed windows may end meanwhile; a period of days makes that unlikely beyond worry.
    limit = _limiter(shared_valkey).limit("500 per 300 d", id="l", algorithm=algorithm)
    counts: list[int] = []

    def work() -> None:
        counts.append(sum(bool(limit.hit("a")) for _ in range(50)))

    workers = [threading.Thread(target=work) for _ in range(20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(counts) == 500


def _count_in_child(limit: Limit, answers: "multiprocessing.Queue[int]") -> None:
    answers.put(sum(bool(limit.hit("a")) for _ in range(50)))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    "context",
    [multiprocessing.get_context("fork"), multiprocessing.get_context("spawn")],
    ids=["fork", "spawn"],
)
def test_processes_share_one_limit(
    shared_valkey: StoreServer, context: ForkContext | SpawnContext
) -> None:
    limit = _limiter(shared_valkey).limit("60 per 300 d", id="l")
    # The parent's connection is open before the fork, and must not be used by the children.
    assert limit.hit("a")
    answers: multiprocessing.Queue[int] = context.Queue()
    children = [context.Process(target=_count_in_child, args=(limit, answers)) for _ in range(3)]
    for child in children:
        child.start()
    admitted = sum(answers.get(timeout=60) for _ in children)
    for child in children:
        child.join(30)
    assert admitted == 59
    assert not limit.hit("a")


def test_a_store_that_is_away_raises_where_asked_to(valkey: StoreServer) -> None:
    limit = _limiter(valkey, on_store_failure="raise").limit("5/hour", id="l")
    assert limit.hit("a")
    valkey.stop()
    with pytest.raises(StoreError) as caught:
        limit.hit("a")
    assert isinstance(caught.value.may_have_written, bool)
    with pytest.raises(StoreError):
        limit.reset("a")


def test_a_store_that_dies_between_two_charges_leaves_the_answer_alone_b80(
    valkey: StoreServer,
) -> None:
    limit = _limiter(valkey).limit("5/hour", id="l")
    first = limit.hit("a")
    assert not first.degraded
    valkey.stop()
    late = limit.hit("a", cost=3)
    assert (late.allowed, late.degraded) == (True, True)
    assert limit.refund(first).degraded
    assert first.headers()["x-ratelimit-remaining"] == "4", "what was said stays"
    assert "x-ratelimit-remaining" not in late.headers(), "what nobody knows is not said"


def test_answers_of_windows_that_end_under_load_are_whole_b08(shared_valkey: StoreServer) -> None:
    limit = _limiter(shared_valkey, on_store_failure="raise").limit(
        "100/second", id="l", algorithm="fixed_window"
    )
    resets: list[float] = []
    admitted: list[float] = []
    ends = time.monotonic() + 3.5

    def work() -> None:
        while time.monotonic() < ends:
            decision = limit.hit("a")
            resets.append(decision.limits[0].reset_after)
            if decision:
                admitted.append(time.monotonic())

    workers = [threading.Thread(target=work) for _ in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(resets) > 400, "each asked on, past the end of windows"
    assert all(0 < reset <= 1 for reset in resets)
    assert 300 <= len(admitted) <= 500, "three whole windows, and parts of two"


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 60))
def test_a_limit_decides_as_the_oracle_does(
    shared_valkey: StoreServer, seed: int, steps: int
) -> None:
    rng = Random(seed)
    named = rng.choice(histories.ALGORITHMS)
    n, period_s = rng.randint(1, 9), rng.choice(histories.PERIODS_S)
    rule = Rule("l", named, n, period_s, n, named != "token_bucket")
    oracle, now_us = Oracle(), histories.START_US
    with _limiter(shared_valkey, on_store_failure="raise") as limiter:
        limit = limiter.limit(f"{n} per {period_s} s", id="l", algorithm=named)
        for _ in range(steps):
            now_us += histories.time_between(rng, period_s)
            limiter.engine.set_clock_us(now_us)
            verb, cost = rng.choice(histories.VERBS), rng.randint(0, n + 1)
            ask = {"hit": limit.hit, "peek": limit.peek, "refund": limit.refund}[verb]
            expected = expect(oracle, now_us, [(rule, "a", cost)], verb)
            assert said(ask("a", cost=cost)) == rounded(expected)
