"""The settings of a data plane: one row each, for command line, environment and docs."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

LOOPBACK_HTTP: Final = "127.0.0.1:8080"
LOOPBACK_GRPC: Final = "127.0.0.1:8081"

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(us|ms|s)")
_UNIT_US = {"us": 1, "ms": 1_000, "s": 1_000_000}
_LONGEST_TIMEOUT_US = 60_000_000
_MOST_WORKERS = 1024
_MOST_COUNTERS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What a data plane is started with."""

    http: str = LOOPBACK_HTTP
    grpc: str = LOOPBACK_GRPC
    workers: int = 1
    max_counters: int = 1_000_000
    store: str | None = field(default=None, repr=False)
    prefix: str | None = None
    store_timeout_us: int = 5_000
    headers: str = "github"
    admin_token: str | None = field(default=None, repr=False)

    @property
    def store_name(self) -> str:
        """The store without its password."""
        return masked(self.store) if self.store else "memory"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: its flag and environment variable follow from its name."""

    name: str
    metavar: str
    help: str
    default: str
    read: Callable[[str], object]
    attribute: str = ""

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"TIDEGATE_{self.name.upper().replace('-', '_')}"

    @property
    def field(self) -> str:
        """The field of `Settings`."""
        return self.attribute or self.name.replace("-", "_")


def masked(url: str) -> str:
    """A URL without its password."""
    return re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:***@", url)


def read_address(text: str) -> str:
    """Reads `host:port`, `[v6]:port` or `:port`, which is every address of this machine."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65_535:
        raise ValueError('is no address; write host:port, such as "127.0.0.1:8080"')
    host = host.removeprefix("[").removesuffix("]") or "0.0.0.0"  # noqa: S104  asked for
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f"names a host that is not known ({error.strerror})") from None
    address = str(found[0][4][0])
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def read_count(most: int) -> Callable[[str], int]:
    """Reads a whole number from 1 to `most`."""

    def read(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise ValueError(f"must be a whole number from 1 to {most:,}")
        return int(text)

    return read


def read_duration_us(text: str) -> int:
    """Reads `5ms`, `500us` or `1s` as microseconds."""
    match = _DURATION.fullmatch(text.strip())
    found = round(float(match[1]) * _UNIT_US[match[2]]) if match else 0
    if not 1 <= found <= _LONGEST_TIMEOUT_US:
        raise ValueError("must be a time up to 60s with its unit, such as 5ms")
    return found


def _read_profile(text: str) -> str:
    if text in {"draft03", "ietf"}:
        raise ValueError("is not supported yet; use github or off")
    if text not in {"github", "off"}:
        raise ValueError("is no header profile; use github or off")
    return text


def _read_store(text: str) -> str | None:
    return None if text in {"memory", "memory://"} else text


def _read_token(text: str) -> str | None:
    return text or None


ROWS: tuple[Setting, ...] = (
    Setting("http", "ADDRESS", "where HTTP is served", LOOPBACK_HTTP, read_address),
    Setting("grpc", "ADDRESS", "where gRPC is served", LOOPBACK_GRPC, read_address),
    Setting("workers", "N", "threads that serve", "1", read_count(_MOST_WORKERS)),
    Setting(
        "store",
        "URL",
        "where counters live: memory, or redis://host:6379/0, shared by nodes",
        "memory",
        _read_store,
    ),
    Setting(
        "store-timeout",
        "TIME",
        "after this, on_store_failure decides",
        "5ms",
        read_duration_us,
        "store_timeout_us",
    ),
    Setting(
        "max-counters",
        "N",
        "counters in memory at most; newcomers share some beyond",
        "1000000",
        read_count(_MOST_COUNTERS),
    ),
    Setting("headers", "PROFILE", "header profile: github or off", "github", _read_profile),
    Setting(
        "admin-token",
        "TOKEN",
        "lets its holder reset and refund; better said by the environment",
        "",
        _read_token,
    ),
)
"""Every setting of `tidegate serve`."""


def add_arguments(parser: argparse.ArgumentParser, names: Sequence[str] = ()) -> None:
    """Declares the options of these settings; all of them if none is named."""
    for row in ROWS:
        if not names or row.name in names:
            default = f"; default: {row.default}" if row.default else ""
            parser.add_argument(
                row.flag,
                metavar=row.metavar,
                dest=row.field,
                help=f"{row.help} (or {row.variable}){default}",
            )


def read_settings(
    args: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> Settings:
    """Takes each setting from the command line, else the environment, else its default.

    Raises:
        ConfigError: if a value cannot be used; a secret is not repeated.
    """
    environment = os.environ if environment is None else environment
    found: dict[str, object] = {}
    for row in ROWS:
        if not hasattr(args, row.field):
            continue
        source, text = row.flag, getattr(args, row.field)
        if text is None:
            source, text = row.variable, environment.get(row.variable)
        if text is None:
            continue
        try:
            found[row.field] = row.read(text)
        except ValueError as error:
            raise ConfigError(f'"{masked(text)[:80]}" {error}', path=source) from None
    return Settings(**found)  # type: ignore[arg-type]  # each row reads its field's type
