"""Regular expressions are those of the native engine, so it is the one that checks them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def native_check() -> Callable[[str], str | None] | None:
    """The engine's own check: says what is wrong, or `None`. Absent without the native module."""
    try:
        # By name, as a source tree without the built module must pass the type checker too.
        native = import_module("tidegate._native")
    except ImportError:
        return None
    check: Callable[[str], str | None] | None = getattr(native, "check_regex", None)
    return check


def check_regex(pattern: str) -> str | None:
    """What is wrong with a regular expression, or `None`."""
    check = native_check()
    return check(pattern) if check else None
