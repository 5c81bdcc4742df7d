"""Limits in a Python process that count in a real server: exact, bounded in time, fork-safe."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from tests.servers.process import wait_for
from tests.servers.valkey import StoreServer
from tidegate import Limiter, StoreError

PATIENT_S = 2.0
"""A deadline that a busy test machine keeps."""


def client(server: StoreServer) -> Any:
    """A client that knows nothing of ours."""
    return redis.Redis(port=server.port)


def connections(server: StoreServer) -> int:
    """How many of our connections the server sees."""
    return sum(row["name"] == "tidegate" for row in client(server).client_list())


@contextmanager
def paused(server: StoreServer) -> Iterator[None]:
    """The server takes bytes and does nothing with them."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_b48_threads_admit_exactly_the_limit(valkey: StoreServer) -> None:
    limit = Limiter(valkey.url, store_timeout=PATIENT_S).limit("100/day", id="posts")
    with ThreadPoolExecutor(10) as threads:
        admitted = sum(threads.map(lambda _: bool(limit.hit("ada")), range(300)))
    assert admitted == 100


def test_b19_a_thread_has_one_connection_and_takes_it_along(valkey: StoreServer) -> None:
    limit = Limiter(valkey.url, store_timeout=PATIENT_S).limit("5/day", id="posts")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: limit.hit(number % 7), range(400)))
        assert connections(valkey) <= 4
    wait_for(lambda: connections(valkey) == 0, "the threads' connections to close")


def test_many_hits_are_one_trip_in_order(valkey: StoreServer) -> None:
    limit = Limiter(valkey.url, store_timeout=PATIENT_S).limit("5/day", id="posts")
    limit.hit("warm-up")
    calls = client(valkey).info("commandstats")["cmdstat_evalsha"]["calls"]
    decisions = limit.hit_many([("ada", 2), ("ada", 4), ("ada", 3), ("bob", 5)])
    assert [bool(decision) for decision in decisions] == [True, False, True, True]
    assert client(valkey).info("commandstats")["cmdstat_evalsha"]["calls"] == calls + 1


def test_a_fork_speaks_on_a_connection_of_its_own(valkey: StoreServer) -> None:
    limit = Limiter(valkey.url, store_timeout=PATIENT_S).limit("1000/day", id="posts")
    limit.hit("ada")
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            is_whole = all(limit.hit("ada") for _ in range(100))
            os._exit(0 if is_whole else 1)
        children.append(child)
    assert all(limit.hit("ada") for _ in range(100))
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert limit.peek("ada").limits[0].remaining == 1000 - 1 - 4 * 100


def test_a_killed_store_is_decided_without_at_once_and_is_back_soon(valkey: StoreServer) -> None:
    limiter = Limiter(valkey.url, store_timeout=0.05)
    raising = Limiter(valkey.url, store_timeout=0.05, on_store_failure="raise")
    limit, strict = limiter.limit("5/day", id="posts"), raising.limit("5/day", id="posts")
    assert not limit.hit("ada").degraded
    assert strict.hit("ada")
    valkey.stop(signal.SIGKILL)
    start = time.monotonic()
    for _ in range(50):
        decision = limit.hit("ada")
        assert decision
        assert decision.degraded
        with pytest.raises(StoreError):
            strict.hit("ada")
    assert time.monotonic() - start < 1.0
    valkey.start()
    start = time.monotonic()
    wait_for(lambda: not limit.hit("ada").degraded, "the store to be used again")
    assert time.monotonic() - start < 2.0


def test_a_store_that_stands_still_costs_no_more_than_the_deadline(valkey: StoreServer) -> None:
    limit = Limiter(valkey.url, store_timeout=0.02, on_store_failure="closed").limit(
        "1000/day", id="posts"
    )
    wait_for(lambda: not limit.hit("ada").degraded, "a first answer")
    with paused(valkey):
        for _ in range(20):
            start = time.monotonic()
            decision = limit.hit("ada")
            assert not decision
            assert decision.reason == "store_failure"
            # A new connection may take the deadline twice; the rest is the machine's.
            assert time.monotonic() - start < 0.09
    wait_for(lambda: not limit.hit("ada").degraded, "the store to be used again")


def test_a_wrong_login_is_said_without_the_password(valkey: StoreServer) -> None:
    client(valkey).config_set("requirepass", "right")
    url = f"redis://:hunter2@127.0.0.1:{valkey.port}"
    limit = Limiter(url, on_store_failure="raise").limit("5/day", id="posts")
    with pytest.raises(StoreError, match="WRONGPASS") as caught:
        limit.hit("ada")
    assert "hunter2" not in str(caught.value)


def test_socket_login_and_database_of_the_url_are_used(valkey: StoreServer) -> None:
    client(valkey).config_set("requirepass", "p@ss")
    for at, url in enumerate(
        [
            f"redis://default:p%40ss@127.0.0.1:{valkey.port}/3",
            f"redis+unix://:p%40ss@{valkey.socket_path}?db=3",
        ]
    ):
        limit = Limiter(url, store_timeout=PATIENT_S).limit("5/day", id="posts")
        decision = limit.hit("ada")
        assert not decision.degraded
        assert decision.limits[0].remaining == 4 - at
