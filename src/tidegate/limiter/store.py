"""Store URLs: which engine a limiter runs on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.policy.problems import did_you_mean

if TYPE_CHECKING:
    from tidegate._native import Engine

Clock = Callable[[], float]
"""Gives unix seconds, whole or with a fraction."""

_SHARED = (
    *("redis", "valkey", "rediss", "valkeys", "redis+unix", "valkey+unix"),
    *("redis+cluster", "valkey+cluster", "rediss+cluster", "valkeys+cluster"),
    *("redis+sentinel", "valkey+sentinel", "rediss+sentinel", "valkeys+sentinel"),
)
_MOST_REPLICAS = 16
_LATER = {
    "tidegate": "asking a service",
    "tidegates": "asking a service",
    "tidegate+unix": "asking a service",
}


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Everything that an engine is made of."""

    url: str
    prefix: str | None
    clock: Clock | None
    max_counters: int
    store_timeout: float
    store_wait_replicas: int
    is_raising: bool

    @property
    def masked_url(self) -> str:
        """The URL without its passwords."""
        url = re.sub(r"(sentinel_password=)[^&]*", r"\1***", self.url)
        return re.sub(r"(//[^:]*):.*@", r"\1:***@", url)


def open_engine(options: StoreOptions) -> Engine:
    """Makes the engine of a URL; asks nobody, but reads the certificates that a URL names.

    Raises:
        ConfigError: if the URL or an option cannot be used.
    """
    from tidegate._native import Engine  # noqa: PLC0415  what only pickles a limiter needs none

    scheme, separator, rest = options.url.partition("://")
    if not separator:
        # Not repeated: what is no URL may still hold a password.
        raise ConfigError("no store URL", path="url", hint="such as memory:// or redis://host:6379")
    if scheme in _LATER:
        raise ConfigError(
            f"{scheme}:// ({_LATER[scheme]}): not supported yet",
            path="url",
            hint="use memory:// or redis://host:6379",
        )
    if scheme == "memory":
        if rest:
            raise ConfigError(f'memory:// takes nothing, found "{rest}"', path="url")
        if options.max_counters < 1:
            raise ConfigError(f"{options.max_counters} is below 1", path="max_counters")
        return Engine.memory(max_counters=options.max_counters, clock=options.clock)
    if scheme not in _SHARED:
        hint = did_you_mean(scheme, ["memory", *_SHARED]) or "use memory:// or redis://host:6379"
        raise ConfigError(f'unknown store "{scheme}://"', path="url", hint=hint)
    if options.clock is not None:
        raise ConfigError(
            "a shared store takes the time from itself", path="clock", hint="use memory://"
        )
    if not 0 < options.store_timeout <= 60:
        raise ConfigError(f"{options.store_timeout} s is not in (0, 60]", path="store_timeout")
    if not 0 <= options.store_wait_replicas <= _MOST_REPLICAS:
        raise ConfigError(
            f"{options.store_wait_replicas} is not in 0 to {_MOST_REPLICAS}",
            path="store_wait_replicas",
        )
    return Engine.redis(
        options.url,
        prefix=None if options.prefix is None else f"{options.prefix}:",
        deadline_us=max(1, round(options.store_timeout * 1_000_000)),
        wait_replicas=options.store_wait_replicas,
        is_raising=options.is_raising,
    )
