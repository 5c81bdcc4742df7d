"""Limits that count in a store behind TLS, asked by threads that block and by the service."""

import datetime as dt
import http.client
import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.contract.tls.certificates import Authority
from tests.integration.redis_store.conftest import TlsStore
from tests.integration.redis_store.doors import PATIENT_S, POLICY, Way, exact, is_steady, refused
from tests.servers.native import TOKEN, Native
from tests.servers.process import wait_for
from tests.servers.proxy import Proxy
from tests.servers.tidegate import Tidegate
from tidegate import ConfigError, Limiter


def test_hits_are_counted_over_tls(tls_store: TlsStore, way: Way) -> None:
    door = way(tls_store.url())
    assert [exact(door), door.left(), door.left()] == [999, 998, 997]
    for host in ("localhost", "127.0.0.1"):
        assert exact(way(tls_store.url().replace("127.0.0.1", host))) < 997
    assert exact(way(tls_store.url().replace("rediss", "valkeys"))) < 997


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_are_spoken(tls_store: TlsStore, way: Way, version: str) -> None:
    tls_store.set(**{"tls-protocols": version})
    door = way(tls_store.url())
    assert [exact(door), door.left()] == [999, 998]


def test_login_and_database_of_the_url_are_used(tls_store: TlsStore, way: Way) -> None:
    tls_store.client().config_set("requirepass", "p@ss")
    url = tls_store.url().replace("//", "//:p%40ss@").replace("?", "/3?")
    assert exact(way(url)) == 999


def test_an_authority_that_is_not_ours_is_refused(tls_store: TlsStore, way: Way) -> None:
    other = Authority("other").write(tls_store.folder / "other.pem")
    refused(way(tls_store.url(ssl_ca_certs=other)), "not trusted", "ssl_ca_certs")
    # Nor is the test's own authority one of the system's.
    refused(way(tls_store.url(ssl_ca_certs=None)), "not trusted")


def test_an_authority_that_the_system_comes_to_trust_is_ours(
    tls_store: TlsStore, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = Authority("other").write(tls_store.folder / "system.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    door = way(tls_store.url(ssl_ca_certs=None))
    refused(door, "not trusted", "ssl_ca_certs")
    tls_store.authority.write(trusted)
    assert exact(door) == 999


def test_a_certificate_of_another_host_is_refused(tls_store: TlsStore, way: Way) -> None:
    tls_store.show(tls_store.authority.named("store.example"))
    refused(way(tls_store.url()), "another host", "127.0.0.1")
    assert exact(way(tls_store.url(ssl_check_hostname="false"))) == 999
    other = Authority("other").write(tls_store.folder / "other.pem")
    lax = way(tls_store.url(ssl_check_hostname="false", ssl_ca_certs=other))
    refused(lax, "not trusted")


def test_a_certificate_that_is_over_is_refused(tls_store: TlsStore, way: Way) -> None:
    tls_store.show(tls_store.authority.named("localhost", life=-dt.timedelta(hours=1)))
    refused(way(tls_store.url(ssl_check_hostname="false")), "expired")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_client_certificate_is_shown_where_it_is_demanded(
    tls_store: TlsStore, way: Way, version: str
) -> None:
    tls_store.set(**{"tls-auth-clients": "yes", "tls-protocols": version})
    refused(way(tls_store.url()), "client certificate", "ssl_certfile")
    certificate, key = tls_store.write(Authority("other").client(), "wrong")
    wrong = way(tls_store.url(ssl_certfile=certificate, ssl_keyfile=key))
    refused(wrong, "refused the client certificate")
    # Files are read anew at each attempt: the door that was refused comes in.
    tls_store.write(tls_store.authority.client(), "wrong")
    assert exact(wrong) == 999


def test_an_authority_that_changes_is_followed_by_the_next_connection(
    tls_store: TlsStore, way: Way
) -> None:
    door = way(tls_store.url())
    assert exact(door) == 999
    following = Authority("following")
    tls_store.show(following.server())
    assert door.left() == 998, "a connection keeps what it began with"
    tls_store.cut()
    refused(door, "not trusted")
    following.write(tls_store.ca)
    assert exact(door) == 997


def test_a_file_that_goes_bad_is_named_and_the_next_good_one_used(
    tls_store: TlsStore, way: Way
) -> None:
    door = way(tls_store.url())
    assert exact(door) == 999
    good = tls_store.ca.read_bytes()
    tls_store.ca.write_text("nothing")
    tls_store.cut()
    refused(door, f"ssl_ca_certs={tls_store.ca}", "no certificate in this file")
    tls_store.ca.unlink()
    refused(door, f"ssl_ca_certs={tls_store.ca}", "cannot read")
    tls_store.ca.write_bytes(good)
    assert exact(door) == 998


def test_a_file_that_is_bad_at_the_start_is_refused(tls_store: TlsStore) -> None:
    folder = tls_store.folder
    certificate, key = tls_store.write(tls_store.authority.client(), "client")
    _, other = tls_store.write(tls_store.authority.client(), "other")
    for query, words in [
        ({"ssl_ca_certs": folder / "no.pem"}, "no.pem: cannot read"),
        ({"ssl_ca_certs": key}, f"ssl_ca_certs={key}: no certificate"),
        ({"ssl_certfile": certificate}, "without ssl_keyfile"),
        ({"ssl_keyfile": key}, "without ssl_certfile"),
        ({"ssl_certfile": certificate, "ssl_keyfile": certificate}, "no PEM private key"),
        ({"ssl_certfile": certificate, "ssl_keyfile": other}, "not the key of the certificate"),
    ]:
        with pytest.raises(ConfigError, match=words):
            Limiter(tls_store.url(**query))


def test_a_server_that_was_killed_is_used_again(tls_store: TlsStore, way: Way) -> None:
    door = way(tls_store.url())
    assert exact(door) == 999
    tls_store.server.stop(signal.SIGKILL)
    assert isinstance(door.left(), str)
    tls_store.server.start()
    start = time.monotonic()
    exact(door)
    assert time.monotonic() - start < 2.0


def test_a_port_without_tls_and_one_with_it_are_told_apart(tls_store: TlsStore, way: Way) -> None:
    start = time.monotonic()
    plain = tls_store.url().replace(str(tls_store.port), str(tls_store.server.port))
    refused(way(plain), "use redis:// for a port without TLS")
    refused(way(f"redis://127.0.0.1:{tls_store.port}"), "use rediss://")
    assert time.monotonic() - start < 6.0


def test_a_server_that_says_nothing_costs_the_time_to_connect(way: Way) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        start = time.monotonic()
        door = way(f"rediss://127.0.0.1:{port}?ssl_check_hostname=false")
        refused(door, "no TLS handshake")
        assert time.monotonic() - start < 4.0


def test_much_at_once_goes_through_and_is_counted_once(tls_store: TlsStore) -> None:
    limit = Limiter(tls_store.url(), store_timeout=PATIENT_S).limit("5000/day", id="posts")
    name = "n" * 4000
    # Megabytes in both directions: more than the socket and the session hold.
    decisions = limit.hit_many([(f"{name}{number % 50}", 1) for number in range(6000)])
    assert not any(decision.degraded for decision in decisions)
    assert limit.peek(f"{name}7").limits[0].remaining == 5000 - 120


def is_above(proxy: Proxy, before: int) -> bool:
    """Whether more is unsent now."""
    return proxy.unsent_bytes() > before


def test_what_the_socket_does_not_take_at_once_leaves_later(tls_store: TlsStore) -> None:
    # Calls of 250 keys: one by one, the session takes each whole, and soon the socket none.
    names = [f"{number:064}" for number in range(250)]
    body = {"domain": "shop", "descriptors": [{"tenant": name} for name in names]}
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(tls_store.port))
        url = tls_store.url().replace(str(tls_store.port), str(proxy.port))
        node = stack.enter_context(
            Native(POLICY, store=url, is_clock_held=False, deadline_us=5_000_000)
        )
        threads = stack.enter_context(ThreadPoolExecutor(6))
        for _ in range(20):
            assert not node.check({"tenant": "first"})["degraded"]
        proxy.hold()
        asked = []
        for _ in range(6):
            grown = partial(is_above, proxy, proxy.unsent_bytes())
            asked.append(threads.submit(node.post, "/v1/check", body, TOKEN))
            with suppress(TimeoutError):
                wait_for(grown, "a call to leave", 0.3)
        assert proxy.unsent_bytes() > 60_000
        proxy.release()
        assert not any(answer.result().body["degraded"] for answer in asked)
        left = node.post("/v1/peek", body).body["limits"]
        assert {limit["remaining"] for limit in left} == {1000 - 6}


def test_a_call_whose_answer_is_lost_is_not_sent_again(tls_store: TlsStore, way: Way) -> None:
    direct = way(tls_store.url())
    assert exact(direct) == 999
    with Proxy(tls_store.port) as proxy:
        door = way(tls_store.url().replace(str(tls_store.port), str(proxy.port)))
        # One whose connection is cut off before it stands has nothing to send on.
        wait_for(lambda: is_steady(door), "each worker's connection")
        left = exact(door)
        proxy.swallow()
        assert isinstance(door.left(), str)
        assert direct.left() == left - 2, "charged once, though nobody heard of it"


def test_the_node_says_what_is_wrong_with_tls(tls_store: TlsStore, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    other = Authority("other").write(tls_store.folder / "other.pem")
    url = tls_store.url(ssl_ca_certs=other).replace("//", "//:sesame@")
    with Tidegate(POLICY, folder, store=url) as node:
        # Before its first attempt has failed, it can only say that it is not connected yet.
        wait_for(lambda: "ssl_ca_certs" in (_readyz_store_error(node) or ""), "readiness to say it")
        wait_for(lambda: "ssl_ca_certs" in node.log(), "the log to say it")
        assert "sesame" not in node.log()
        tls_store.client().config_set("requirepass", "sesame")
        tls_store.authority.write(other)
        wait_for(lambda: _readyz_store_error(node) is None, "the store to be used")


def _readyz_store_error(node: Tidegate) -> str | None:
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    connection.request("GET", "/readyz")
    document = json.loads(connection.getresponse().read())
    connection.close()
    error: str | None = document["store"]["error"]
    return error
