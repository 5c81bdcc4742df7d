"""Limits that count in the master that sentinels name, through fail-overs of both kinds."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import pytest
import redis

from tests.integration.redis_store.conftest import TlsStore
from tests.integration.redis_store.doors import Way, exact, refused
from tests.servers.counters import counters
from tests.servers.native import Native
from tests.servers.ports import free_port
from tests.servers.process import wait_for
from tests.servers.sentinels import SERVICE, Watched, client
from tests.servers.valkey import StoreServer
from tidegate import Limiter, StoreError

OPEN_POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: hits, per: [tenant], rate: 2 per 365 days, algorithm: fixed_window,
         on_store_failure: MODE}
"""


@pytest.fixture(scope="module")
def shared(valkey_path: str) -> Iterator[Watched]:
    """For tests that leave the master where it is."""
    with Watched(valkey_path) as watched:
        yield watched


@pytest.fixture
def watched(valkey_path: str) -> Iterator[Watched]:
    """For tests that fail over."""
    with Watched(valkey_path) as started:
        yield started


def fresh(watched: Watched) -> str:
    """The URL, on counters that nobody has used."""
    client(watched.master()).flushall()
    return watched.url


def decided(node: Native) -> bool:
    """Whether the first hit that the store decides is allowed."""

    def asked() -> list[bool] | None:
        decision = node.check({"tenant": "acme"})
        return None if decision["degraded"] else [decision["allowed"]]

    return wait_for(asked, "the store to decide", 10.0)[0]


def acknowledged(watched: Watched) -> None:
    """Waits until the replicas have what the master has."""
    assert client(watched.master()).wait(2, 5000) == 2


def test_hits_are_counted_in_the_master(shared: Watched, way: Way) -> None:
    door = way(fresh(shared))
    assert [exact(door), door.left()] == [999, 998]
    assert len(counters(client(shared.master()))) == 1
    database = way(shared.url.replace("redis+", "valkey+") + "/3")
    assert exact(database) == 999
    with redis.Redis(port=shared.master().port, db=3) as third:
        assert len(counters(third)) == 1


def test_a_service_that_sentinels_do_not_know_is_named(shared: Watched, way: Way) -> None:
    refused(way(shared.url.replace(f"/{SERVICE}", "/other")), 'no service "other"', "monitor")


def test_a_port_that_is_no_sentinels_is_named(shared: Watched, way: Way) -> None:
    store = shared.stores[0].port
    refused(way(f"redis+sentinel://127.0.0.1:{store}/{SERVICE}"), "no sentinel's port")


def test_dead_and_silent_sentinels_are_passed_over(
    shared: Watched, way: Way, valkey_path: str
) -> None:
    fresh(shared)
    with StoreServer(valkey_path) as silent:
        os.kill(silent.pid, signal.SIGSTOP)
        try:
            nodes = f"127.0.0.1:{free_port()},127.0.0.1:{silent.port},{shared.nodes}"
            door = way(f"redis+sentinel://{nodes}/{SERVICE}")
            assert exact(door) == 999
        finally:
            os.kill(silent.pid, signal.SIGCONT)


def test_no_sentinel_at_all_is_said(way: Way) -> None:
    nodes = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    refused(way(f"redis+sentinel://{nodes}/{SERVICE}"), "no master of limits", nodes[-5:])


def test_a_fail_over_by_command_is_followed(watched: Watched) -> None:
    with ExitStack() as stack:
        # Both at once: sentinels take ten seconds until they demote a master that is well.
        doors = [Way(kind, stack)(watched.url) for kind in ("blocking", "service")]
        assert [exact(door) for door in doors] == [999, 999]
        acknowledged(watched)
        watched.fail_over()
        for door in doors:
            assert [exact(door), exact(door)] == [998, 997]
        assert len(counters(client(watched.master()))) == 2


def test_a_coordinated_fail_over_loses_no_count(watched: Watched, way: Way) -> None:
    door = way(watched.url)
    assert exact(door) == 999
    acknowledged(watched)
    answers: list[int | str] = []
    with ThreadPoolExecutor(1) as threads:
        moved = threads.submit(watched.fail_over, "COORDINATED")
        while not moved.done():
            answers.append(door.left())
            wait([moved], timeout=0.02)
        moved.result()
    counted = sum(isinstance(answer, int) for answer in answers)
    used = 1000 - exact(door) - 2
    # One whose answer was lost may have been counted.
    assert counted <= used <= len(answers)


def test_a_master_that_is_killed_is_replaced_and_its_counts_go_on(
    watched: Watched, way: Way
) -> None:
    door = way(watched.url)
    assert exact(door) == 999
    acknowledged(watched)
    dead = watched.kill_master()
    assert isinstance(door.left(), str), "nobody to ask yet"
    watched.wait_for_another(dead)
    assert exact(door) == 998
    # The old one comes back, at first as the master that it was, and is not asked.
    dead.start()
    assert exact(door) == 997
    assert exact(way(watched.url)) == 996


def test_a_sentinel_that_is_killed_does_not_hide_a_fail_over(watched: Watched, way: Way) -> None:
    door = way(watched.url)
    assert exact(door) == 999
    acknowledged(watched)
    watched.sentinels[0].stop(signal.SIGKILL)
    dead = watched.kill_master()
    watched.wait_for_another(dead)
    assert exact(door) == 998


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_while_it_fails_over_on_store_failure_answers_and_then_it_is_exact(
    watched: Watched, mode: str
) -> None:
    policy = OPEN_POLICY.replace("MODE", mode)
    with Native(policy, store=watched.url, is_clock_held=False) as node:
        assert decided(node)
        acknowledged(watched)
        dead = watched.kill_master()
        meanwhile = [node.check({"tenant": "acme"}) for _ in range(5)]
        degraded = [decision for decision in meanwhile if decision["degraded"]]
        assert degraded
        assert {decision["allowed"] for decision in degraded} == {mode == "open"}
        watched.wait_for_another(dead)
        # Each worker has a connection of its own, and comes back by itself.
        # What was let pass by calls that were never sent is charged, and may be all of the limit.
        assert decided(node) or mode == "open"
        assert not decided(node)


RIGHTS = (
    "+eval +evalsha +get +set +del +time +pttl +pexpire +lrange +lindex +llen +rpush +lset +ltrim "
    "+role ~tg:*"
)
"""What the page on operations asks for."""


def test_the_sentinels_own_login_and_the_stores_are_apart(valkey_path: str, way: Way) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(StoreServer(valkey_path))
        client(store).execute_command("ACL", "SETUSER", "app", "on", ">store", *RIGHTS.split())
        client(store).execute_command("ACL", "SETUSER", "default", "on", ">sesame")
        sentinel = StoreServer(valkey_path)
        sentinel.configuration = (
            f"sentinel monitor {SERVICE} 127.0.0.1 {store.port} 1\n"
            f"sentinel auth-pass {SERVICE} sesame\n"
            "user default off\n"
            "user node on >watch +sentinel|get-master-addr-by-name\n"
        )
        stack.enter_context(sentinel)
        place = f"127.0.0.1:{sentinel.port}/{SERVICE}"
        own = "sentinel_username=node&sentinel_password"
        assert exact(way(f"redis+sentinel://app:store@{place}?{own}=watch")) == 999
        refused(way(f"redis+sentinel://app:store@{place}"), "NOAUTH", "sentinel_password")
        refused(way(f"redis+sentinel://{place}?{own}=watch"), "NOAUTH")
        refused(way(f"redis+sentinel://app:store@{place}?{own}=store"), "WRONGPASS")


def test_sentinels_and_store_are_spoken_to_over_tls(tls_store: TlsStore, way: Way) -> None:
    with ExitStack() as stack:
        sentinel = StoreServer(tls_store.server.binary)
        port = free_port()
        sentinel.options |= {**tls_store.settings, "tls-port": str(port), "tls-replication": "yes"}
        sentinel.configuration = f"sentinel monitor {SERVICE} 127.0.0.1 {tls_store.port} 1\n"
        stack.enter_context(sentinel)
        query = f"ssl_ca_certs={tls_store.ca}"
        assert exact(way(f"rediss+sentinel://127.0.0.1:{port}/{SERVICE}?{query}")) == 999
        plain = way(f"rediss+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}?{query}")
        refused(plain, "use redis:// for a port without TLS")


def test_over_tls_with_two_logins_a_fail_over_is_followed_b16(
    tls_store: TlsStore, way: Way
) -> None:
    options = {"user node": "on >watch +sentinel|get-master-addr-by-name"}
    with Watched(
        tls_store.server.binary, sentinel_options=options, tls=tls_store.settings
    ) as watched:
        for store in watched.stores:
            client(store).execute_command("ACL", "SETUSER", "app", "on", ">store", *RIGHTS.split())
        query = f"ssl_ca_certs={tls_store.ca}&sentinel_username=node&sentinel_password=watch"
        url = f"{watched.url.replace('//', '//app:store@')}?{query}"
        refused(way(url.replace("store@", "other@")), "WRONGPASS")
        refused(way(url.replace("=watch", "=other")), "WRONGPASS", "sentinel_password")
        door = way(url)
        assert exact(door) == 999
        acknowledged(watched)
        dead = watched.kill_master()
        watched.wait_for_another(dead)
        assert exact(door) == 998
        ours = [one for one in client(watched.master()).client_list() if one["user"] == "app"]
        port = watched.master().peers_port
        assert ours
        assert {one["laddr"] for one in ours} == {f"127.0.0.1:{port}"}


def test_a_replica_that_a_sentinel_takes_for_the_master_is_refused(
    shared: Watched, valkey_path: str
) -> None:
    replica = next(store for store in shared.stores if store is not shared.master())
    sentinel = StoreServer(valkey_path)
    sentinel.configuration = f"sentinel monitor wrong 127.0.0.1 {replica.port} 3\n"
    with sentinel:
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/wrong"
        limit = Limiter(url, store_timeout=2, on_store_failure="raise").limit("5/day", id="l")
        with pytest.raises(StoreError, match="no master but a slave"):
            limit.hit("ada")
