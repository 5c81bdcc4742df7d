"""The conformance cases, asked of a running service over HTTP, whose clock the case sets."""

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.oracle.conformance import Answer, Case, load_cases, run_case
from tidegate._native import Server, ServiceOptions
from tidegate.compiler import compile_policy

TOKEN = "a-token"


def options(store: str | None) -> ServiceOptions:
    """A service on free ports."""
    return ServiceOptions(
        http="127.0.0.1:0",
        grpc="127.0.0.1:0",
        workers=1,
        max_counters=100_000,
        store=store,
        prefix=None,
        deadline_us=5_000 if store is None else 2_000_000,
        headers="github",
    )


class OverHttp:
    """A service in this process; a build for tests lets its clock be set."""

    def __init__(self, store: str | None = None) -> None:
        self._options = options(store)
        self._server: Server | None = None
        self._connection: http.client.HTTPConnection | None = None

    def use(self, policy: str) -> None:
        compiled = compile_policy(policy)
        assert compiled.snapshot is not None, compiled.problems
        if self._server is None:
            self._server = Server.start(compiled.snapshot.data, self._options, admin_token=TOKEN)
            self._connection = http.client.HTTPConnection(self._server.http_address, timeout=10)
        else:
            self._server.load(compiled.snapshot.data)

    def decide(
        self,
        now_us: int,
        domain: str,
        descriptors: Sequence[Mapping[str, str]],
        costs: Mapping[str, int],
        verb: str,
    ) -> Answer:
        assert self._server is not None
        assert self._connection is not None
        self._server.set_clock_us(now_us)
        body = {"domain": domain, "descriptors": [dict(one) for one in descriptors]}
        asked = {**body, "cost": dict(costs), **({"refund": True} if verb == "refund" else {})}
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
        path = "/v1/peek" if verb == "peek" else "/v1/check"
        self._connection.request("POST", path, json.dumps(asked), headers)
        answer = self._connection.getresponse()
        document = json.loads(answer.read())
        assert answer.status == http.client.OK, document
        assert isinstance(document, dict)
        return document

    def close(self) -> None:
        """Ends the service."""
        if self._connection is not None:
            self._connection.close()
        if self._server is not None:
            self._server.drain()


@pytest.fixture
def subject() -> Iterator[OverHttp]:
    made = OverHttp()
    yield made
    made.close()


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_a_running_service_decides_the_case(case: Case, subject: OverHttp) -> None:
    run_case(case, subject)
