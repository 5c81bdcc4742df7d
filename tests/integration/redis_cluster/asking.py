"""A node on a Cluster, asked by several clients at once."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from tests.servers.tidegate import Tidegate

CLIENTS = 4
"""Those of a load, unless it says otherwise."""


@dataclass
class Asker:
    """One HTTP connection to a node. Use it as a context manager."""

    node: Tidegate

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", self.node.http_port, timeout=10)

    def check(self, cost: int = 1, **entries: str) -> dict[str, Any]:
        """One decision."""
        return self.ask("/v1/check", {"descriptors": [entries], "cost": cost})

    def peek(self, **entries: str) -> dict[str, Any]:
        """The same without taking anything."""
        return self.ask("/v1/peek", {"descriptors": [entries]})

    def metrics(self) -> str:
        """The node's metrics page."""
        self._connection.request("GET", "/metrics")
        return self._connection.getresponse().read().decode()

    def ask(
        self, path: str, question: Mapping[str, object], token: str | None = None
    ) -> dict[str, Any]:
        """One question in the domain `shop`, or one of several that name theirs."""
        domain = {} if "checks" in question else {"domain": "shop"}
        body = json.dumps({**domain, **question})
        headers = {"content-type": "application/json"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        self._connection.request("POST", path, body, headers)
        answer = self._connection.getresponse()
        document = json.loads(answer.read())
        assert answer.status == http.client.OK, document
        assert isinstance(document, dict)
        return document


def remaining(decision: Mapping[str, Any], limit: str) -> int:
    """What a limit has left."""
    found: int = next(row["remaining"] for row in decision["limits"] if row["id"] == limit)
    return found


@dataclass
class Tally:
    """What many decisions came to."""

    allowed: Counter[str] = field(default_factory=Counter)
    degraded: int = 0
    asked: int = 0
    slowest_s: float = 0.0

    def count(self, tenant: str, decision: Mapping[str, Any], took_s: float) -> None:
        """One more."""
        self.asked += 1
        self.degraded += decision["degraded"]
        if decision["allowed"] and not decision["degraded"]:
            self.allowed[tenant] += 1
        self.slowest_s = max(self.slowest_s, took_s)


@contextmanager
def load(node: Tidegate, tenants: Sequence[str], clients: int = CLIENTS) -> Iterator[Tally]:
    """Clients that ask for these tenants, over and over, until the block ends."""
    tally, guard, is_over = Tally(), threading.Lock(), threading.Event()
    failures: list[BaseException] = []

    def run(first: int) -> None:
        at = first
        try:
            with Asker(node) as asker:
                while not is_over.is_set():
                    tenant = tenants[at % len(tenants)]
                    at += 1
                    began = time.monotonic()
                    decision = asker.check(tenant=tenant)
                    with guard:
                        tally.count(tenant, decision, time.monotonic() - began)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def until(condition: Callable[[], bool], what: str, deadline_s: float = 20.0) -> float:
    """Waits; says how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < deadline_s, f"waited for {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def more(tally: Tally, count: int, what: str) -> None:
    """Waits for so many further decisions."""
    wanted = tally.asked + count
    until(lambda: tally.asked > wanted, what)
