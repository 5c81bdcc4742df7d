"""Guards: a block or a function that runs only if its request may pass."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tidegate.errors import ConfigError, RateLimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tidegate._native import Decision

P = ParamSpec("P")
R = TypeVar("R")


class Guard:
    """Asks, and raises `RateLimitExceeded` where the answer is no.

    Use it as a context manager, `with posts.guard(user):`, or as a decorator,
    `@posts.guard(key=lambda user, text: user)`.

    Args:
        ask: Decides on the arguments that a key function gives.
        arguments: What to ask without a key function.
        key: Takes what the decorated function takes; gives what to ask with: one value, or a
            tuple of them.
    """

    __slots__ = ("_arguments", "_ask", "_key")

    def __init__(
        self,
        ask: Callable[..., Decision],
        arguments: tuple[object, ...],
        key: Callable[..., object] | None,
    ) -> None:
        if key is not None and arguments:
            raise ConfigError("guard() takes key parts or key=, not both")
        self._ask = ask
        self._arguments = arguments
        self._key = key

    def __enter__(self) -> Decision:
        """Asks, and gives the decision to the block."""
        if self._key is not None:
            raise ConfigError(
                "guard(key=...) reads the arguments of a function", hint="use it as a decorator"
            )
        return self._passed(self._arguments)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives nothing back: what the block took stays taken."""

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Guards each call of a function."""
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            name = getattr(function, "__qualname__", repr(function))
            raise ConfigError(
                f"guard() on the async function {name}: not supported yet",
                hint="call hit() inside it",
            )

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            self._passed(self._arguments_of(*args, **kwargs))
            return function(*args, **kwargs)

        return guarded

    def _arguments_of(self, *args: object, **kwargs: object) -> tuple[object, ...]:
        if self._key is None:
            return self._arguments
        found = self._key(*args, **kwargs)
        return found if isinstance(found, tuple) else (found,)

    def _passed(self, arguments: tuple[object, ...]) -> Decision:
        decision = self._ask(*arguments)
        if not decision:
            raise RateLimitExceeded(decision)
        return decision
