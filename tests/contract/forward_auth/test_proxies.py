"""Each proxy with the files that users are shown: who passes, what a client is told."""

from pathlib import Path

import pytest

from tests.contract.forward_auth.conftest import StartGateway
from tests.servers.process import wait_for
from tests.servers.proxies import EXAMPLES, KINDS, how_to_get, proxy_binary, takes
from tests.servers.tidegate import Tidegate


@pytest.mark.parametrize("name", KINDS)
def test_the_proxy_takes_the_example_as_it_is(name: str) -> None:
    binary = proxy_binary(name)
    if binary is None:
        pytest.skip(how_to_get(name))
    done = takes(binary, name)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr


def test_requests_pass_until_the_limit_and_are_then_told_when_to_come_back(
    start: StartGateway,
) -> None:
    gateway = start()
    assert gateway.statuses("/a", "/a/b", "/a?x") == [200, 200, 200]
    denied = gateway.get("/a")
    assert denied.status == 429
    assert 600 < int(denied.headers["retry-after"]) <= 1200, "one comes back every 20 minutes"
    assert len(gateway.app.seen) == 3, "the application never saw what was denied"
    assert gateway.get("/other").status == 200
    if gateway.kind.passes_body:
        assert denied.headers["content-type"] == "application/problem+json"
        assert denied.json()["violated-policies"] == ["each"]


def test_a_denial_that_no_wait_helps_has_no_retry_after(start: StartGateway) -> None:
    denied = start().get("/shut")
    assert denied.status == 429
    assert "retry-after" not in denied.headers


def test_a_client_cannot_choose_what_it_is_counted_by(start: StartGateway) -> None:
    gateway = start()
    forged = {
        "x_forwarded_for": "192.0.2.7",
        "x_real_ip": "192.0.2.8",
        "x_original_uri": "/free",
        "x_original_method": "PUT",
        "x_forwarded_uri": "/free",
        "x_forwarded_method": "PUT",
        "forwarded": "for=192.0.2.9",
    }
    assert gateway.get("/login", **forged).status == 200
    for path in ("/login", "/login?again", "/x/../login", "//login", "/%6cogin", "/login/"):
        assert gateway.get(path, **forged).status == 429, path
    assert gateway.get("/logins", **forged).status == 200, "another page"


def test_a_client_has_the_address_that_it_comes_from(start: StartGateway) -> None:
    gateway = start()
    assert gateway.statuses(*["/a"] * 4) == [200, 200, 200, 429]
    assert gateway.get("/a", source="127.0.0.2", x_forwarded_for="127.0.0.1").status == 200


def test_a_proxy_outside_the_trusted_networks_is_not_believed(
    start: StartGateway, tmp_path: Path
) -> None:
    doors = tmp_path / "doors.toml"
    text = (EXAMPLES / "doors.toml").read_text()
    doors.write_text(text.replace('["127.0.0.1", "::1"]', '["192.0.2.0/24"]'))
    policy = """
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [ip], rate: 3/h}
      - {id: told, when: {route: "*"}, rate: 0/h}
"""
    gateway = start(doors=doors, policy=policy)
    sources = ("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")
    statuses = [gateway.get("/login", source=source).status for source in sources]
    assert statuses == [200, 200, 200, 429], "all are the proxy"


def test_a_header_may_name_the_tenant(start: StartGateway) -> None:
    gateway = start()
    statuses = [gateway.get("/", x_tenant=tenant).status for tenant in "aabaa"]
    assert statuses == [200, 200, 200, 429, 429]


def test_while_tidegate_is_away_it_passes_or_fails_as_the_file_says(start: StartGateway) -> None:
    gateway = start(is_up=False)
    if not gateway.kind.is_open:
        assert set(gateway.statuses("/", "/a", "/login")) <= {500, 502}
        assert gateway.app.seen == []
        with gateway.tidegate:
            wait_for(lambda: gateway.get("/shut").status == 429, "Tidegate to be asked")
            assert gateway.statuses("/a", "/a", "/a", "/a", "/login") == [200, 200, 200, 429, 200]
        return
    assert gateway.statuses("/", "/a", "/a", "/a", "/a") == [200] * 5
    closed = gateway.get("/login")
    assert (closed.status, closed.headers["retry-after"]) == (503, "1")
    with gateway.tidegate:
        wait_for(lambda: gateway.get("/shut").status == 429, "Tidegate to be asked")
        assert gateway.statuses("/a", "/a", "/a", "/a", "/login") == [200, 200, 200, 429, 200]


def test_a_limit_that_is_closed_without_its_store_is_503(start: StartGateway) -> None:
    gateway = start()
    gateway.tidegate.stop()
    away = Tidegate(
        gateway.tidegate.policy,
        gateway.tidegate.folder,
        "redis://127.0.0.1:1",
        gateway.tidegate.options,
    )
    away.http_port = gateway.tidegate.http_port
    with away:
        closed = gateway.get("/login")
        assert (closed.status, closed.headers["retry-after"]) == (503, "1")
        assert gateway.get("/a").status == 200


def test_a_request_that_nginx_redirects_within_itself_is_charged_once(start: StartGateway) -> None:
    if start.name != "nginx":
        pytest.skip("only nginx does")
    index = """
        location /a {
            auth_request /_tidegate;
            auth_request_set $remaining $upstream_http_x_ratelimit_remaining;
            try_files /none /index-of-a;
        }

        location / {"""
    gateway = start(edit=lambda text: text.replace("\n        location / {", index, 1))
    remaining = [gateway.get("/a").headers["x-ratelimit-remaining"] for _ in range(3)]
    assert remaining == ["2", "1", "0"]
    assert gateway.app.seen == ["/index-of-a"] * 3


@pytest.mark.parametrize("profile", ["draft03", "ietf"])
def test_any_profile_tells_when_to_come_back(start: StartGateway, profile: str) -> None:
    gateway = start("--headers", profile)
    statuses = gateway.statuses(*["/a"] * 3)
    assert statuses == [200] * 3
    assert int(gateway.get("/a").headers["retry-after"]) > 0
