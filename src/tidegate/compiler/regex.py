"""Regular expressions are those of the native engine, so it is the one that checks them."""

from __future__ import annotations

from collections.abc import Callable


def native_check() -> Callable[[str], str | None] | None:
    """The engine's own check: says what is wrong, or `None`. Absent without the native module."""
    try:
        from tidegate import _native  # noqa: PLC0415  only files with a regex need the engine
    except ImportError:
        return None
    check: Callable[[str], str | None] | None = getattr(_native, "check_regex", None)
    return check


def check_regex(pattern: str) -> str | None:
    """What is wrong with a regular expression, or `None`."""
    check = native_check()
    return check(pattern) if check else None
