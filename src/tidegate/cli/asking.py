"""What commands that ask have in common: the entries and the cost of a request, and whom to ask."""

from __future__ import annotations

from typing import Final

from tidegate.errors import ConfigError

DEFAULT_SERVER: Final = "http://127.0.0.1:8080"

Cost = int | dict[str, int]


def read_descriptor(entries: list[str]) -> dict[str, str]:
    """Reads KEY=VALUE, one or more."""
    descriptor: dict[str, str] = {}
    for entry in entries:
        key, separator, value = entry.partition("=")
        if not separator or not key:
            raise ConfigError(f'"{entry}" is no KEY=VALUE', hint="such as tenant=acme")
        if key in descriptor:
            raise ConfigError(f'"{key}" is given twice', hint="one value for each key")
        descriptor[key] = value
    if not descriptor:
        raise ConfigError("nothing describes the request", hint="add KEY=VALUE, as tenant=acme")
    return descriptor


def read_cost(texts: list[str]) -> Cost:
    """Reads N or KIND=N, several of them."""
    if not texts:
        return 1
    by_kind: dict[str, int] = {}
    for text in texts:
        kind, separator, number = text.rpartition("=")
        if not number.isdecimal() or (separator and not kind) or len(number) > 16:
            raise ConfigError(
                f'"{text}" is no cost', path="--cost", hint="write N or KIND=N, as tokens=900"
            )
        kind = kind or "requests"
        if kind in by_kind:
            raise ConfigError(f"{kind} is given twice", path="--cost")
        by_kind[kind] = int(number)
    return by_kind["requests"] if list(by_kind) == ["requests"] else by_kind
