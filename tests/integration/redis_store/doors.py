"""The two ways to a shared store: a thread that blocks, and a worker of the service."""

from contextlib import ExitStack
from typing import Protocol

from tests.servers.native import Native
from tests.servers.process import wait_for
from tidegate import Limiter, StoreError

PATIENT_S = 2.0
POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - id: hits
        per: [tenant]
        rate: 1000 per 365 days
        algorithm: fixed_window
        on_store_failure: closed      # what is let pass would be charged afterwards
"""


class Door(Protocol):
    """One of the two ways to the store."""

    def left(self) -> int | str:
        """What a hit leaves of the limit; where the store was not asked, why."""


class Blocking:
    """A thread that asks by itself."""

    def __init__(self, url: str) -> None:
        limiter = Limiter(url, store_timeout=PATIENT_S, on_store_failure="raise")
        self._limit = limiter.limit("1000 per 365 days", id="hits")

    def left(self) -> int | str:
        """What a hit leaves."""
        try:
            return self._limit.hit("acme").limits[0].remaining or 0
        except StoreError as error:
            return str(error)


class Service:
    """A node's worker, which does not block."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._node = stack.enter_context(Native(POLICY, store=url, is_clock_held=False))

    def left(self) -> int | str:
        """What a hit leaves."""
        decision = self._node.check({"tenant": "acme"})
        if decision["degraded"]:
            return str(self._node.server.store_error)
        left: int = decision["limits"][0]["remaining"]
        return left


class Way:
    """Opens doors of one kind."""

    def __init__(self, kind: str, stack: ExitStack) -> None:
        self._kind, self._stack = kind, stack

    def __call__(self, url: str) -> Door:
        return Blocking(url) if self._kind == "blocking" else Service(url, self._stack)


def exact(door: Door, within_s: float = 10.0) -> int:
    """What the first hit that the store decides leaves."""
    answers: list[int] = []

    def asked() -> bool:
        answer = door.left()
        if isinstance(answer, int):
            answers.append(answer)
        return bool(answers)

    wait_for(asked, "the store to decide", within_s)
    return answers[0]


def is_steady(door: Door) -> bool:
    """True if the store decides many hits in a row: any worker that may be asked has reached it."""
    return all(isinstance(door.left(), int) for _ in range(20))


def refused(door: Door, *words: str) -> str:
    """Waits until the door says all these words of its store, and that it does not count."""

    def said() -> str | None:
        answer = door.left()
        assert isinstance(answer, str), f"it counted: {answer}"
        return answer if all(word in answer for word in words) else None

    return wait_for(said, f"a failure of {words}", 10.0)
