"""A node finds the counter that most of its decisions meet, in memory and on a store."""

import http.client
import json
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, request
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [user], rate: 100/h}
"""


def told(node: Tidegate) -> list[dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    connection.request("GET", "/v1/hot?top=5")
    answer = connection.getresponse()
    document = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, document
    counters: list[dict[str, Any]] = document["counters"]
    return counters


def send(node: Tidegate, users: list[str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    checks = [{"domain": "shop", "descriptors": [{"user": user}]} for user in users]
    headers = {"content-type": "application/json"}
    connection.request("POST", "/v1/check", json.dumps({"checks": checks}), headers)
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_one_hot_key_among_many_is_found(
    tmp_path: Path, shared_valkey: StoreServer, store: str
) -> None:
    url = None if store == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/5"
    with Tidegate(POLICY, tmp_path, store=url) as node:
        rounds = iter(range(1_000_000))

        def is_found() -> dict[str, Any] | None:
            number = next(rounds)
            # A batch in one rhythm: a look at each 32nd would always see the same one.
            send(node, [user for at in range(50) for user in (f"u{number}-{at}", "ada")])
            first = next(iter(told(node)), None)
            is_it = first is not None and first["values"] == [{"key": "user", "value": "ada"}]
            return first if is_it and number >= 30 else None

        first = wait_for(is_found, "the hot key")
    assert (first["domain"], first["id"]) == ("shop", "each")
    assert 0.2 < first["share"] < 0.8
    assert first["denied_share"] > 0.5, "its limit was used up in the second round"
    assert first["at_least"] < first["per_second"] < first["at_most"]


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_calls_that_arrive_together_are_looked_at(
    tmp_path: Path, shared_valkey: StoreServer, store: str
) -> None:
    url = None if store == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/5"
    with (
        Tidegate(POLICY, tmp_path, store=url) as node,
        grpc.insecure_channel(f"127.0.0.1:{node.grpc_port}") as channel,
    ):
        call = channel.unary_unary(SHOULD_RATE_LIMIT)
        question = request([Descriptor([("user", "grace")])])

        def is_found() -> dict[str, Any] | None:
            pending = [call.future(question, timeout=10) for _ in range(200)]
            for answer in pending:
                assert answer.result()
            return next(iter(told(node)), None)

        first = wait_for(is_found, "the hot key")
    assert first["values"] == [{"key": "user", "value": "grace"}]
    assert first["share"] == 1.0
    assert first["decided_in"] == ("node" if store == "memory" else "store")
