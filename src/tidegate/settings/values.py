"""The kinds of values that settings have: how each is written, read, limited and shown."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable

_COUNT = re.compile(r"([0-9]{1,15})([kM]?)")
_THOUSANDS: Final = {"": 1, "k": 1_000, "M": 1_000_000}
_DURATION = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?\s*(us|ms|s|min)")
_UNIT_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000}
_PORT = re.compile(r"[0-9]{1,5}")
_PREFIX = re.compile(r"[!-z|~]{1,64}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s*,]+(?:/\*)?")
_COLLECTOR = re.compile(
    r"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[A-Za-z0-9/._~-]*)?"
)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_OWN_HEADERS: Final = {"connection", "content-length", "content-type", "host", "transfer-encoding"}
_UNIX: Final = "unix:"
_UNIX_PATH_BYTES: Final = 107
_LOGIN = re.compile(r"(//[^:]*):.*@")
_SENTINELS_PASSWORD = re.compile(r"(sentinel_password=)[^&]*")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value is.

    Args:
        metavar: The word for it in a command line.
        form: How it is written, and its limits, for people.
        read: Text to value.

            A `ValueError` of it goes on after the value: `"0" must be …`.
        show: Value to text, without secrets; `read` takes what it gives, unless that is masked.
        is_number: Whether a settings file may say it as a number, without quotes.
        is_path: Whether a settings file may say it relative to its own folder.
        is_secret: Whether the text may hold a secret, so that no message repeats it.
    """

    metavar: str
    form: str
    read: Callable[[str], object]
    show: Callable[[object], str] = str
    is_number: bool = False
    is_path: bool = False
    is_secret: bool = False


def masked(url: str) -> str:
    """A URL without its passwords."""
    return _LOGIN.sub(r"\1:***@", _SENTINELS_PASSWORD.sub(r"\1***", url))


def quoted(text: str) -> str:
    """What somebody wrote, in quotes, cut, and without anything that a terminal would act on."""
    shown = "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text[:80])
    return f'"{shown}"'


def address() -> Kind:
    """Where to listen: `host:port`, `[v6]:port`, `:port` (all of this machine), `unix:/path`."""
    form = "`host:port`, `:port` for every address of the machine, or `unix:/path`, a socket file"
    return Kind("ADDRESS", form, read_address)


def read_address(text: str) -> str:
    """Reads an address; a name becomes the first address that it has."""
    if text.strip().startswith(_UNIX):
        return _read_unix(text.strip())
    host, _, port = text.strip().rpartition(":")
    if not _PORT.fullmatch(port) or int(port) > 65_535 or ":" not in text:
        raise ValueError('is no address; write host:port, such as "127.0.0.1:8080"')
    host = host.removeprefix("[").removesuffix("]") or "0.0.0.0"  # noqa: S104  asked for
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        raise ValueError("names a host that is not known; an IP address will do") from None
    name = str(found[0][4][0])
    return f"[{name}]:{int(port)}" if ":" in name else f"{name}:{int(port)}"


def _read_unix(text: str) -> str:
    path = text.removeprefix(_UNIX)
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise ValueError('is no socket file; write its whole path, as "unix:/run/tidegate.sock"')
    if len(path.encode(errors="surrogateescape")) > _UNIX_PATH_BYTES:
        raise ValueError(f"is too long a path; a socket file takes {_UNIX_PATH_BYTES} bytes")
    return text


def count(most: int, least: int = 1) -> Kind:
    """A whole number from `least` to `most`; `10k` and `5M` are numbers."""
    form = f"a whole number from {least} to {most:,}; `k` and `M` may follow it"
    return Kind("N", form, lambda text: _read_count(text, least, most), is_number=True)


def _read_count(text: str, least: int, most: int) -> int:
    match = _COUNT.fullmatch(text.strip())
    found = int(match[1]) * _THOUSANDS[match[2]] if match else 0
    if match is None or not least <= found <= most:
        raise ValueError(f"must be a whole number from {least} to {most:,}, such as 100 or 10k")
    return found


def duration(least_us: int, most_us: int) -> Kind:
    """A time with its unit, in microseconds."""
    form = f"a time from {show_duration_us(least_us)} to {show_duration_us(most_us)}"
    return Kind(
        "TIME",
        f"{form}, in `us`, `ms`, `s` or `min`",
        lambda text: _read_duration_us(text, least_us, most_us),
        show_duration_us,
    )


def _read_duration_us(text: str, least_us: int, most_us: int) -> int:
    text = text.strip()
    match = _DURATION.fullmatch("0s" if text == "0" else text)
    if match is None:
        raise ValueError("must be a time with its unit (us, ms, s or min), such as 5ms")
    whole, part, unit = match[1], match[2] or "", match[3]
    scale: int = 10 ** len(part)
    found, rest = divmod(int(whole + part) * _UNIT_US[unit], scale)
    if rest or not least_us <= found <= most_us:
        limits = f"{show_duration_us(least_us)} to {show_duration_us(most_us)}"
        raise ValueError(f"must be a time from {limits}, in whole microseconds")
    return found


def show_duration_us(value: object) -> str:
    """The time in the largest unit that gives a whole number."""
    time_us = int(str(value))
    units = [unit for unit, size in _UNIT_US.items() if time_us % size == 0]
    unit = units[-1] if time_us else "s"
    return f"{time_us // _UNIT_US[unit]}{unit}"


def choice(metavar: str, *choices: str) -> Kind:
    """One of a few words."""
    words = f"{', '.join(choices[:-1])} or {choices[-1]}"

    def read(text: str) -> str:
        word = text.strip()
        if word not in choices:
            raise ValueError(f"is unknown; use {words}")
        return word

    return Kind(metavar, " or ".join(f"`{word}`" for word in choices), read)


def store_url() -> Kind:
    """Where counters live. Whether a shared store can be used is the engine's to say."""
    form = (
        "`memory`, `redis://[user:password@]host[:port][/database]`, `rediss` for TLS in each,"
        " `redis+cluster://[user:password@]host[:port][,host[:port]...]`,"
        " `redis+sentinel://host[:port][,host[:port]...]/service` or `redis+unix:///socket`"
    )
    return Kind("URL", form, _read_store, _show_store, is_secret=True)


def _read_store(text: str) -> str | None:
    url = text.strip()
    if url in {"memory", "memory://"}:
        return None
    scheme, separator, rest = url.partition("://")
    if not separator or not scheme or not rest:
        # What is no URL may still hold a password.
        raise ValueError("is no store; use memory or redis://host:6379")
    return url


def _show_store(value: object) -> str:
    return "memory" if value is None else masked(str(value))


def collector() -> Kind:
    """The base URL of a collector that takes OTLP over HTTP; none if empty."""
    form = "`http://host:port` or `https://host:port`; `/v1/traces` is added"
    return Kind("URL", form, _read_collector)


def _read_collector(text: str) -> str | None:
    url = text.strip().rstrip("/")
    if not url:
        return None
    match = _COLLECTOR.fullmatch(url)
    if match is None or int(match[1] or 0) > 65_535:
        raise ValueError('is no collector; write its base, such as "http://127.0.0.1:4318"')
    if url.endswith("/v1/traces"):
        raise ValueError("names more than the collector: /v1/traces is added to it")
    return url


def http_headers() -> Kind:
    """Headers of HTTP as pairs of name and value; none if empty."""
    form = "`name=value` pairs with commas between them, `%2C` for a comma in a value"
    return Kind("HEADERS", form, _read_headers, _show_headers, is_secret=True)


def _read_headers(text: str) -> tuple[tuple[str, str], ...] | None:
    found: list[tuple[str, str]] = []
    for pair in filter(None, map(str.strip, text.split(","))):
        name, is_pair, value = (part.strip() for part in pair.partition("="))
        value = unquote(value, errors="surrogateescape")
        if not is_pair or not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ValueError("must be pairs of header and value, such as x-team=limits,x-key=abc")
        if name.lower() in _OWN_HEADERS:
            raise ValueError(f"names the header {name.lower()}, which is not to be chosen")
        if any(name.lower() == other for other, _ in found):
            raise ValueError(f"names the header {name.lower()} twice")
        found.append((name.lower(), value))
    return tuple(found) or None


def _show_headers(value: object) -> str:
    return ",".join(f"{name}=***" for name, _ in value) if isinstance(value, tuple) else ""


def path() -> Kind:
    """A file, which need not be there yet."""
    return Kind(
        "FILE", "a path; in a settings file, from that file's folder", _read_path, is_path=True
    )


def _read_path(text: str) -> str:
    if not text or "\0" in text:
        raise ValueError("is no path of a file")
    return text


def uris() -> Kind:
    """Names of clients, with commas between them; none if empty."""
    form = "URIs with commas between them; `/*` at an end stands for all below"
    return Kind("URIS", form, _read_uris, _show_uris)


def _read_uris(text: str) -> tuple[str, ...] | None:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for uri in found:
        if not _URI.fullmatch(uri):
            raise ValueError(
                f'must be URIs, such as "spiffe://mesh/ns/web" or "spiffe://mesh/*"; {quoted(uri)}'
                " is none"
            )
    return found or None


def _show_uris(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else ""


def prefix() -> Kind:
    """What keys begin with. Braces would choose a Cluster slot."""
    return Kind("TEXT", "1 to 64 printable characters without spaces and braces", _read_prefix)


def _read_prefix(text: str) -> str:
    if not _PREFIX.fullmatch(text):
        raise ValueError('must be 1 to 64 printable characters without spaces and braces, as "tg"')
    return text


def token() -> Kind:
    """A secret word; none if empty."""
    return Kind(
        "TOKEN", "a word that is hard to guess", _read_token, lambda _: "***", is_secret=True
    )


def _read_token(text: str) -> str | None:
    found = text.strip()
    if not all("!" <= mark <= "~" for mark in found):
        raise ValueError("must be printable ASCII without spaces, as HTTP headers carry no other")
    return found or None
