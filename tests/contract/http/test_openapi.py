"""The server is held to its OpenAPI document: each answer that it names is given, in its form."""

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.http.openapi import Contract, Got
from tests.docs.pages import ROOT
from tests.servers.native import TOKEN, Native
from tests.servers.process import wait_for

POLICY = """
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [who], rate: 2/h}
      - {id: trial, per: [who], rate: 1/h, on_exceed: shadow}
      - {id: shut, when: {path: /shut}, rate: 0/h}
      - {id: careful, when: {path: /careful}, rate: 9/h, on_store_failure: closed}
"""
DOOR = {
    "domain": "shop",
    "cost": 1,
    "descriptors": [{"who": "{method}", "path": "{path}"}],
    "trusted_proxies": ["127.0.0.1"],
    "address": None,
    "uri": "x-uri",
    "method": None,
    "request_id": None,
    "ipv4_prefix": 32,
    "ipv6_prefix": 64,
    "fold_case": False,
    "keep_trailing_slash": False,
    "deny_status": 429,
}
JSON = {"content-type": "application/json"}
ADMIN = {**JSON, "authorization": f"Bearer {TOKEN}"}
DOOR_TOKEN = {"authorization": "Bearer door"}
WRONG = {"authorization": "Bearer wrong"}
ASK: dict[str, Any] = {"domain": "shop", "descriptors": [{"who": "a"}]}
QUESTIONS = ("/v1/check", "/v1/peek", "/v1/reset", "/v1/explain")
FORWARD = "/v1/forward-auth/{door}"
METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")

ELSEWHERE = {("post", path, "503") for path in ("/v1/check", "/v1/peek", "/v1/explain")}
"""Only a node without a policy answers so, and Python starts none: crates/server/tests."""


def send(
    node: Native,
    method: str,
    path: str,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
) -> Got:
    host, port = node.server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request(method.upper(), path, body, headers or {})
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Got(answer.status, named, answer.read())
    finally:
        connection.close()


def send_slowly(node: Native, path: str, headers: dict[str, str]) -> Got:
    """Says that a body comes, and sends none."""
    host, port = node.server.http_address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.putrequest("POST", path)
        for name, value in {**headers, "content-length": "10"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Got(answer.status, named, answer.read())
    finally:
        connection.close()


@pytest.fixture(scope="module")
def node() -> Iterator[Native]:
    doors = json.dumps({"web": DOOR}).encode()
    with Native(POLICY, forward_auth=doors, drain_notice_us=1_000_000) as started:
        yield started


@pytest.fixture(scope="module")
def guarded() -> Iterator[Native]:
    doors = json.dumps({"web": DOOR}).encode()
    with Native(POLICY, forward_auth=doors, door_token="door") as started:
        yield started


@pytest.fixture(scope="module")
def away() -> Iterator[Native]:
    doors = json.dumps({"web": DOOR}).encode()
    store = "redis://127.0.0.1:1"
    with Native(POLICY, store=store, forward_auth=doors, deadline_us=50_000) as started:
        yield started


def test_the_server_is_what_its_document_says(node: Native, guarded: Native, away: Native) -> None:
    got = send(node, "get", "/openapi.json")
    contract = Contract(json.loads(got.body))
    contract.hold("get", "/openapi.json", got)
    _decisions(contract, node)
    _mistakes(contract, node)
    _tokens(contract, node, guarded)
    _denials(contract, node)
    _hot(contract, node)
    _forward_auth(contract, node, guarded, away)
    got = send(away, "post", "/v1/reset", ADMIN, json.dumps(ASK).encode())
    contract.hold("post", "/v1/reset", got)
    for path in ("/healthz", "/readyz", "/metrics"):
        contract.hold("get", path, send(node, "get", path))
    _drained(contract, node)
    assert contract.seen == contract.named() - ELSEWHERE


def _decisions(contract: Contract, node: Native) -> None:
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/v1/check", ASK),
        ("/v1/check", {**ASK, "cost": 2}),
        ("/v1/check", {**ASK, "cost": {"requests": 9}}),
        ("/v1/check", {**ASK, "cost": 1, "refund": True}),
        ("/v1/check", {"checks": [ASK, {**ASK, "descriptors": [{"path": "/shut"}, {}]}]}),
        ("/v1/peek", {**ASK, "cost": 0}),
        ("/v1/peek", {"checks": [ASK] * 3}),
        ("/v1/check", {"domain": "none", "descriptors": [{}]}),
        ("/v1/reset", ASK),
        ("/v1/explain", ASK),
        ("/v1/explain", {**ASK, "descriptors": [{"path": "/shut"}, {}], "cost": {"tokens": 1}}),
        ("/v1/explain", {"domain": "none", "descriptors": [{}]}),
    ]
    for path, question in ways:
        assert contract.takes("post", path, question), question
        got = send(node, "post", path, ADMIN, json.dumps(question).encode())
        assert got.status == 200, got
        contract.hold("post", path, got)


def _mistakes(contract: Contract, node: Native) -> None:
    wrong: list[Any] = [
        {},
        [],
        {**ASK, "colour": 1},
        {**ASK, "domain": ""},
        {**ASK, "descriptors": []},
        {**ASK, "descriptors": [{"who": 1}]},
        {**ASK, "cost": -1},
        {**ASK, "cost": 1.5},
        {**ASK, "cost": {}},
        {**ASK, "refund": "yes"},
        {"checks": []},
        {**ASK, "checks": [ASK]},
    ]
    for path in QUESTIONS:
        for question in wrong:
            assert not contract.takes("post", path, question), (path, question)
            got = send(node, "post", path, ADMIN, json.dumps(question).encode())
            assert got.status == 400, (path, question)
            contract.hold("post", path, got)
        got = send(node, "post", path, {**ADMIN, "content-type": "text/plain"}, b"{}")
        contract.hold("post", path, got)
        assert got.status == 415
        got = send(node, "post", path, {**ADMIN, "content-length": "9999999"}, b"")
        contract.hold("post", path, got)
        assert got.status == 413
    slow = [threading.Thread(target=_is_slow, args=(contract, node, path)) for path in QUESTIONS]
    for thread in slow:
        thread.start()
    for thread in slow:
        thread.join()


def _is_slow(contract: Contract, node: Native, path: str) -> None:
    contract.hold("post", path, send_slowly(node, path, ADMIN))


def _tokens(contract: Contract, node: Native, guarded: Native) -> None:
    refund = json.dumps({**ASK, "refund": True}).encode()
    ask = json.dumps(ASK).encode()
    for path, body in (("/v1/check", refund), ("/v1/reset", ask), ("/v1/explain", ask)):
        for headers, status in ((JSON, 401), ({**JSON, **WRONG}, 403)):
            got = send(node, "post", path, headers, body)
            assert got.status == status
            contract.hold("post", path, got)
        got = send(guarded, "post", path, {**JSON, **DOOR_TOKEN}, body)
        assert got.status == 403, "the door's token is not the admin's"
    asked = (("post", "/v1/check"), ("post", "/v1/peek"), ("get", "/metrics"))
    for method, path in asked:
        for headers, status in (
            (JSON, 401),
            ({**JSON, **WRONG}, 403),
            ({**JSON, **DOOR_TOKEN}, 200),
            (ADMIN, 200),
        ):
            got = send(guarded, method, path, headers, ask if method == "post" else None)
            assert got.status == status, (path, headers)
            contract.hold(method, path, got)
    for path in ("/healthz", "/readyz", "/openapi.json"):
        assert send(guarded, "get", path).status == 200, path


def _denials(contract: Contract, node: Native) -> None:
    wanted = json.dumps({**ASK, "cost": 3}).encode()
    denied = json.loads(send(node, "post", "/v1/check", JSON, wanted).body)
    for decision, headers, status in (
        (denied["decision_id"], ADMIN, 200),
        (denied["decision_id"], {}, 401),
        (denied["decision_id"], WRONG, 403),
        ("01M8S0EQNZVDS9WN4TZ3S5ZGYK", ADMIN, 404),
        ("x", ADMIN, 404),
    ):
        got = send(node, "get", f"/v1/decisions/{decision}", headers)
        assert got.status == status, got
        contract.hold("get", "/v1/decisions/{id}", got)


def _hot(contract: Contract, node: Native) -> None:
    checks = json.dumps({"checks": [{**ASK, "descriptors": [{"who": "hot"}]}] * 1000}).encode()
    assert send(node, "post", "/v1/check", JSON, checks).status == 200
    with Native(POLICY, metrics=False) as unwatched:
        for server, query, headers, status in (
            (node, "", ADMIN, 200),
            (node, "?top=1", ADMIN, 200),
            (node, "?top=0", ADMIN, 400),
            (node, "", {}, 401),
            (node, "", WRONG, 403),
            (unwatched, "", ADMIN, 404),
        ):
            got = send(server, "get", f"/v1/hot{query}", headers)
            assert got.status == status, got
            contract.hold("get", "/v1/hot", got)
            if query == "?top=1":
                assert len(json.loads(got.body)["counters"]) == 1


def _forward_auth(contract: Contract, node: Native, guarded: Native, away: Native) -> None:
    for method in METHODS:
        web, uri = "/v1/forward-auth/web", {"x-uri": "/"}
        sent: list[tuple[Native, str, dict[str, str], int]] = [
            (node, web, uri, 200),
            (node, f"{web}/any/suffix", uri, 200),
            (node, web, uri, 429),
            (node, web, {"x-uri": "/shut"}, 429),
            (node, web, {}, 400),
            (node, "/v1/forward-auth/none", uri, 404),
            (guarded, web, uri, 401),
            (guarded, web, {**uri, **WRONG}, 403),
            (guarded, web, {**uri, **DOOR_TOKEN}, 200),
            (away, web, {"x-uri": "/careful"}, 503),
        ]
        for server, path, headers, status in sent:
            got = send(server, method, path, headers)
            assert got.status == status, (method, path, headers, got)
            contract.hold(method, FORWARD, got)


def _drained(contract: Contract, node: Native) -> None:
    drain = threading.Thread(target=node.server.drain)
    drain.start()

    def unready() -> Got | None:
        got = send(node, "get", "/readyz")
        return got if got.status != 200 else None

    began = time.monotonic()
    contract.hold("get", "/readyz", wait_for(unready, "the drain"))
    assert time.monotonic() - began < 5
    drain.join()


def test_every_path_of_the_server_is_in_the_document() -> None:
    document = json.loads((ROOT / "crates/server/src/http/openapi.json").read_text())
    router = (ROOT / "crates/server/src/http/router.rs").read_text()
    routes = re.findall(r"\((\"[^\"]+\"|[\w:]+), Route::\w+\)", router)
    prefixes = {"forward_auth::PREFIX": FORWARD, "decisions::PATH": "/v1/decisions/{id}"}
    served = {prefixes.get(path, path.strip('"')) for path in routes}
    assert served == set(document["paths"])


def test_every_reason_is_in_the_document() -> None:
    document = json.loads((ROOT / "crates/server/src/http/openapi.json").read_text())
    rust = (ROOT / "crates/core/src/decision.rs").read_text()
    reasons = set(re.findall(r'Self::\w+ => "(\w+)"', rust))
    assert reasons == set(document["components"]["schemas"]["Reason"]["enum"])


def test_every_reference_of_the_document_leads_somewhere() -> None:
    text = Path(ROOT / "crates/server/src/http/openapi.json").read_text()
    document = json.loads(text)
    for target in set(re.findall(r'"\$ref": "#/([^"]+)"', text)):
        found: Any = document
        for part in target.split("/"):
            found = found[part]
