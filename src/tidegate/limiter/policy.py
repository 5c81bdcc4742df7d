"""A policy file asked in this process: the same rules as the service."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from tidegate import _native
from tidegate.compiler import Snapshot, compile_policy, year_of
from tidegate.errors import ConfigError
from tidegate.limiter.guard import Guard

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from tidegate.limiter.limiter import Limiter

    Source = str | os.PathLike[str] | bytes


class Policy(_native.Policy):
    """One domain of a policy.

    `hit({"tenant": "acme", "route": "/search"}, cost=2)` takes; `peek`, `refund` and `reset` are
    asked alike. Several descriptors go as a list, costs by kind as a dict.
    """

    __slots__ = ("_limiter", "_source")

    _limiter: Limiter
    _source: Source

    def __new__(cls, limiter: Limiter, source: Source, domain: str | None = None) -> Self:
        """Reads, checks and compiles the policy."""
        snapshot, name = _compiled(source, domain)
        self = super().__new__(cls, limiter.engine, snapshot.data, name)
        self._limiter, self._source = limiter, source
        return self

    def reload(self, source: Source | None = None) -> None:
        """Reads the policy again, or another one; what was counted stays.

        Raises:
            ConfigError: if it cannot be used; the policy in force stays.
        """
        source = self._source if source is None else source
        snapshot, _ = _compiled(source, self.domain)
        self.load(snapshot.data)
        self._source = source

    def explain(
        self,
        descriptors: Mapping[str, str | bytes | int] | list[Mapping[str, str | bytes | int]],
        cost: int | dict[str, int] = 1,
    ) -> dict[str, object]:
        """Says what would apply to a request and why, and why the nearest other limits do not.

        Takes nothing. The form is that of `POST /v1/explain`.
        """
        told = json.loads(self.explain_json(descriptors, cost))
        return cast("dict[str, object]", told)

    def guard(
        self,
        *descriptors: Mapping[str, str],
        cost: int | dict[str, int] = 1,
        key: Callable[..., object] | None = None,
    ) -> Guard:
        """A context manager and decorator that raises `RateLimitExceeded` on a denial.

        Args:
            descriptors: What describes the request, where it is known now.
            cost: What one pass takes.
            key: For a decorator: takes the function's arguments, gives the descriptor.
        """
        return Guard(partial(self.hit, cost=cost), descriptors, key)

    def __reduce__(self) -> tuple[type[Policy], tuple[Limiter, Source, str]]:
        return (type(self), (self._limiter, self._source, self.domain))

    def __repr__(self) -> str:
        return f"<Policy {self.domain!r}, revision {self.revision}>"


def _compiled(source: Source, domain: str | None) -> tuple[Snapshot, str]:
    content = source if isinstance(source, bytes) else Path(source)
    compiled = compile_policy(content, year=year_of(time.time()))
    if compiled.snapshot is None or compiled.document is None:
        told = [
            f"{problem.place}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")
            for problem in compiled.problems
            if problem.is_error
        ]
        raise ConfigError("the policy cannot be used:\n" + "\n".join(told))
    known = list(compiled.document.domains)
    if domain is None and len(known) == 1:
        domain = known[0]
    if domain not in known:
        asked = "which domain?" if domain is None else f'no domain "{domain}" in the policy'
        raise ConfigError(asked, path="domain", hint=f"it has {', '.join(known) or 'none'}")
    return compiled.snapshot, domain
