"""The running server passes every case of conformance/, on both stores."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from tests.oracle.conformance import Answer, Case, load_cases, run_case
from tests.oracle.planning import Descriptor, Verb
from tests.servers.native import TOKEN, Native, snapshot
from tests.servers.valkey import StoreServer

EMPTY = "version: 1\ndomains: {}\n"
_numbers = count()


class HttpSubject:
    """A case on a server that serves others too: its domain's name is its own."""

    def __init__(self, node: Native) -> None:
        self._node = node
        self._suffix = f"#{next(_numbers)}"

    def use(self, policy: str) -> None:
        document = json.loads(snapshot(policy))
        for domain in document["domains"]:
            domain["name"] += self._suffix
        self._node.server.load(json.dumps(document).encode())

    def decide(
        self,
        now_us: int,
        domain: str,
        descriptors: Sequence[Descriptor],
        costs: Mapping[str, int],
        verb: Verb,
    ) -> Answer:
        self._node.server.set_clock_us(now_us)
        body: dict[str, Any] = {
            "domain": domain + self._suffix,
            "descriptors": [dict(descriptor) for descriptor in descriptors],
            "cost": dict(costs),
        }
        if verb == "refund":
            body["refund"] = True
        answer = self._node.post("/v1/peek" if verb == "peek" else "/v1/check", body, TOKEN)
        assert answer.status == 200, answer
        assert not answer.body["degraded"], answer
        return answer.body


@pytest.fixture(scope="module", params=["memory", "redis"])
def node(request: pytest.FixtureRequest, shared_valkey: StoreServer) -> Iterator[Native]:
    url = None if request.param == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/8"
    with Native(EMPTY, store=url) as node:
        yield node


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_the_server_answers_as_the_case_says(node: Native, case: Case) -> None:
    run_case(case, HttpSubject(node))
