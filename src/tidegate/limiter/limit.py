"""A limit made in code: `limiter.limit("5/minute", id="posts")`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

from tidegate import _native
from tidegate.compiler import compile_rates
from tidegate.errors import ConfigError
from tidegate.limiter.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.limiter.limiter import Limiter

_DOMAIN = ""
"""Limits made in code stand in the domain without a name."""
_EACH_BURST = 'write it into the text: "10/s burst 50; 1000/day"'


class Limit(_native.Limit):
    """One limit; its key parts are compared whole, each kept apart from the others.

    `hit(*parts, cost=1)` takes, `peek` only looks, `refund` gives back, `reset` forgets. A part is
    a `str`, `bytes` or an `int`.
    """

    __slots__ = ("_algorithm", "_burst", "_id", "_limiter", "_rates")

    _limiter: Limiter
    _rates: str
    _id: str
    _algorithm: str
    _burst: int | None

    def __new__(
        cls,
        limiter: Limiter,
        rates: str,
        id: str,  # noqa: A002  the policy's own word
        algorithm: str,
        burst: int | None = None,
    ) -> Self:
        """Compiles the limit; no I/O."""
        if burst is not None and ";" in rates:
            raise ConfigError(
                "burst is of one rate, and there are several", path="burst", hint=_EACH_BURST
            )
        snapshot = compile_rates(
            rates if burst is None else f"{rates} burst {burst}",
            id=id,
            algorithm=algorithm,
            on_store_failure=limiter.fails_as,
        )
        self = super().__new__(cls, limiter.engine, snapshot.data, _DOMAIN)
        self._limiter, self._rates, self._id = limiter, rates, id
        self._algorithm, self._burst = algorithm, burst
        return self

    @property
    def id(self) -> str:
        """The identity of the counters: edits of the numbers keep them."""
        return self._id

    @property
    def rates(self) -> str:
        """The rates, as written."""
        return self._rates

    def guard(
        self,
        *parts: str | bytes | int,
        cost: int = 1,
        key: Callable[..., object] | None = None,
    ) -> Guard:
        """A context manager and decorator that raises `RateLimitExceeded` on a denial.

        Args:
            parts: The key, where it is known now.
            cost: What one pass takes.
            key: For a decorator: takes the function's arguments, gives the part or a tuple of them.
        """
        return Guard(partial(self.hit, cost=cost), parts, key)

    def __reduce__(self) -> tuple[type[Limit], tuple[Limiter, str, str, str, int | None]]:
        return (type(self), (self._limiter, self._rates, self._id, self._algorithm, self._burst))

    def __repr__(self) -> str:
        return f"<Limit {self._id!r}: {self._rates} by {self._algorithm}>"
