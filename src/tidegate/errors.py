"""The errors of Tidegate: three families under one root, and the one that carries a denial."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate._native import Decision


class TidegateError(Exception):
    """Root of everything that Tidegate raises about itself; a denial is not among it."""


class ConfigError(TidegateError):
    """The author's mistake: what was written cannot be used.

    Args:
        message: What is wrong, with the value.
        path: Where in the document or among the options, such as `domains.shop.limits[0].rate`.
        hint: What to write instead.
        position: Offset of the mistake in the text that was given, counted from 0.
    """

    def __init__(
        self, message: str, *, path: str = "", hint: str = "", position: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.hint = hint
        self.position = position

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        at = f" (at position {self.position})" if self.position is not None else ""
        fix = f"; {self.hint}" if self.hint else ""
        return f"{where}{self.message}{at}{fix}"


class StoreError(TidegateError):
    """The counter store did not answer, or answered that it cannot.

    Args:
        message: What happened, without secrets.
        retry: Whether the same call may be sent again with hope of an answer.
        may_have_written: Whether the write may have happened although no answer came.
    """

    def __init__(
        self, message: str, *, retry: bool = False, may_have_written: bool = False
    ) -> None:
        super().__init__(message)
        self.retry = retry
        self.may_have_written = may_have_written


class InternalError(TidegateError):
    """A bug of Tidegate: please report it with the message."""


class RateLimitExceeded(Exception):  # noqa: N818  the name that users of such libraries know
    """A request must not pass: raised by guards alone. It stands apart: a denial is no error.

    Args:
        decision: What was decided, with each limit and the wait.
    """

    def __init__(self, decision: Decision) -> None:
        super().__init__(repr(decision))
        self.decision = decision
