"""Starts the native server inside the test's process, on free loopback ports."""

import http.client
import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tidegate._native import Server, ServiceOptions
from tidegate.compiler import compile_policy

START_US = 1_764_554_400_000_000
"""The start of an hour."""
TOKEN = "s3cret"


def snapshot(policy: str) -> bytes:
    """The compiled form of a policy that has no errors."""
    compiled = compile_policy(policy.encode())
    assert compiled.snapshot is not None, compiled.problems
    return compiled.snapshot.data


@dataclass
class Native:
    """A server of one policy. Use it as a context manager.

    Args:
        policy: The policy, as text.
        store: A shared store's URL; in memory by default.
        is_clock_held: The clock stands at `START_US` until the test moves it.
        deadline_us: How long one decision may wait for the store.
        door_token: What every question must carry.
        forward_auth: The doors for proxies, as JSON.
        drain_notice_us: How long the end is told before it comes.
        metrics: False counts nothing.
    """

    policy: str
    store: str | None = None
    is_clock_held: bool = True
    deadline_us: int = 1_000_000
    door_token: str | None = None
    forward_auth: bytes | None = None
    drain_notice_us: int | None = None
    metrics: bool | None = None
    server: Server = field(init=False)

    def __enter__(self) -> Self:
        options = ServiceOptions(
            http="127.0.0.1:0",
            grpc="127.0.0.1:0",
            workers=2,
            max_counters=10_000,
            store=self.store,
            prefix=None,
            deadline_us=self.deadline_us,
            headers="github",
            drain_notice_us=self.drain_notice_us,
            metrics=self.metrics,
        )
        self.server = Server.start(
            snapshot(self.policy),
            options,
            admin_token=TOKEN,
            door_token=self.door_token,
            forward_auth=self.forward_auth,
        )
        if self.is_clock_held:
            self.at(0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.drain()

    def at(self, after_us: int) -> None:
        """Moves the clock to this many microseconds after the start."""
        self.server.set_clock_us(START_US + after_us)

    def post(self, path: str, body: object, token: str | None = None) -> "HttpAnswer":
        """Sends JSON."""
        host, port = self.server.http_address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        headers = {"content-type": "application/json"}
        if token:
            headers["authorization"] = f"Bearer {token}"
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            document = json.loads(response.read())
            return HttpAnswer(response.status, dict(response.getheaders()), document)
        finally:
            connection.close()

    def check(self, descriptor: dict[str, str], **more: object) -> dict[str, Any]:
        """A decision on one descriptor in domain `shop`."""
        body = {"domain": "shop", "descriptors": [descriptor], **more}
        answer = self.post("/v1/check", body, TOKEN)
        assert answer.status == 200, answer
        return answer.body


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer with a JSON body; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: dict[str, Any]
