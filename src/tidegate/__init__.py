"""Tidegate, a distributed rate limiter."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate._native import Decision, LimitReport
    from tidegate.errors import (
        ConfigError,
        InternalError,
        RateLimitExceeded,
        StoreError,
        TidegateError,
    )
    from tidegate.limiter import Limiter

__all__ = [
    "ConfigError",
    "Decision",
    "InternalError",
    "LimitReport",
    "Limiter",
    "RateLimitExceeded",
    "StoreError",
    "TidegateError",
]

_HOMES = {"Decision": "_native", "LimitReport": "_native", "Limiter": "limiter"}


def __getattr__(name: str) -> object:
    """Loads an export when it is first asked for: the command line needs few of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
