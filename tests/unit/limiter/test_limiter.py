"""The limiter's options: what is taken, what is refused, what stays secret."""

import pickle

import pytest

from tidegate import ConfigError, Limiter


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "no store URL"),
        ("memory", "no store URL"),
        ("memory://host", "takes nothing"),
        ("memroy://", 'did you mean "memory"'),
        ("ftp://x", "unknown store"),
        ("rediss://x?ssl_ca_certs=/no.pem", "ssl_ca_certs=/no.pem: cannot read"),
        ("rediss://x?ssl_cert_reqs=none", "ssl_ca_certs"),
        ("redis://x?ssl_ca_certs=/ca.pem", "rediss://"),
        ("rediss+cluster://x,y?ssl_ca_certs=/no.pem", "ssl_ca_certs=/no.pem: cannot read"),
        ("redis+cluster://x?ssl_ca_certs=/ca.pem", "rediss://"),
        ("redis+sentinel://x", "no service"),
        ("redis://x?sentinel_password=a", "redis\\+sentinel://"),
        ("tidegate://x", "asking a service.*not supported yet"),
        ("redis://host:port", "port"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Limiter(url)


@pytest.mark.parametrize("count", [-1, 17])
def test_a_number_of_replicas_that_no_store_has_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=r"store_wait_replicas.*not in 0 to 16"):
        Limiter("redis://127.0.0.1:1", store_wait_replicas=count)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "redis+unix:///nowhere.sock"])
def test_making_a_limiter_asks_nobody(url: str) -> None:
    with Limiter(url) as limiter:
        limiter.limit("5/minute", id="l")


def test_a_store_that_is_away_is_decided_by_on_store_failure() -> None:
    url = "redis://127.0.0.1:1/0"
    opened = Limiter(url).limit("5/minute", id="l").hit("a")
    assert (bool(opened), opened.degraded, opened.reason) == (True, True, "ok")
    closed = Limiter(url, on_store_failure="closed").limit("5/minute", id="l").hit("a")
    assert (bool(closed), closed.degraded, closed.reason) == (False, True, "store_failure")


@pytest.mark.parametrize("word", ["local", "ignore", ""])
def test_an_unknown_failure_mode_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="open, closed, raise"):
        Limiter(on_store_failure=word)  # type: ignore[arg-type]


def test_a_shared_store_takes_no_clock() -> None:
    with pytest.raises(ConfigError, match="clock"):
        Limiter("redis://127.0.0.1", clock=lambda: 1.0)


@pytest.mark.parametrize("timeout", [0.0, -1.0, 61.0])
def test_a_timeout_out_of_bounds_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigError, match="store_timeout"):
        Limiter("redis://127.0.0.1", store_timeout=timeout)


def test_no_counter_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_counters"):
        Limiter(max_counters=0)


def test_a_password_is_never_shown() -> None:
    for url in (
        "redis://me:secret@127.0.0.1:1/0",
        "redis+sentinel://h:1,h:2/main?sentinel_password=secret&db=1",
    ):
        assert "secret" not in repr(Limiter(url))
    with pytest.raises(ConfigError) as caught:
        Limiter("redis://me:secret@host:port")
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        Limiter("rdis:/me:secret@host")
    assert "secret" not in str(caught.value)


def test_a_limiter_pickles_as_its_configuration() -> None:
    limiter = Limiter("redis://127.0.0.1:1/0", prefix="shop", on_store_failure="closed")
    copy = pickle.loads(pickle.dumps(limiter))
    assert copy.limit("5/minute", id="l").hit("a").reason == "store_failure"


def test_the_memory_store_is_bounded() -> None:
    limiter = Limiter(max_counters=100)
    limit = limiter.limit("5/hour", id="l")
    for number in range(1000):
        limit.hit(number)
    assert limiter.engine.counters <= 100
    assert limiter.engine.folded >= 900
    newcomer = limit.hit(1000)
    assert newcomer.limits[0].folded
    assert "'folded': True" in str(newcomer.as_dict())
    assert not limit.hit(0).limits[0].folded
    assert "folded" not in str(limit.hit(0).as_dict())


@pytest.mark.parametrize("login", ["u:se/cr?et@t", "a/b:secret", ":secret"])
def test_its_text_holds_no_part_of_a_password(login: str) -> None:
    limiter = Limiter(f"redis://{login}@127.0.0.1:1")
    user = login.partition(":")[0]
    assert repr(limiter) == f"<Limiter redis://{user}:***@127.0.0.1:1>"
