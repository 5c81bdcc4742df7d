"""Values of settings: what they may be, and what is said of those that cannot."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.settings.table import ROWS, Setting
from tidegate.settings.values import masked, show_duration_us


def row(name: str) -> Setting:
    """The row of that name."""
    return next(row for row in ROWS if row.name == name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("http", "127.0.0.1:0", "127.0.0.1:0"),
        ("http", ":8080", "0.0.0.0:8080"),
        ("http", "[::1]:8080", "[::1]:8080"),
        ("http", " 10.0.0.1:080 ", "10.0.0.1:80"),
        ("http", "unix:/run/tidegate.sock", "unix:/run/tidegate.sock"),
        ("workers", "4", 4),
        ("max-counters", "10k", 10_000),
        ("max-counters", "5M", 5_000_000),
        ("store-timeout", "5ms", 5_000),
        ("store-timeout", "500us", 500),
        ("store-timeout", "0.5 ms", 500),
        ("store-timeout", "1min", 60_000_000),
        ("drain-notice", "0", 0),
        ("drain-notice", "0s", 0),
        ("drain-notice", "2s", 2_000_000),
        ("store", "memory", None),
        ("store", "memory://", None),
        ("store", "redis://h", "redis://h"),
        (
            "store",
            "redis://u:p?/@[::1]:7000/3?client_name=x",
            "redis://u:p?/@[::1]:7000/3?client_name=x",
        ),
        ("store", "valkey://:p@h:", "valkey://:p@h:"),
        ("store", "redis+unix:///run/x.sock?db=1", "redis+unix:///run/x.sock?db=1"),
        ("admin-token", "", None),
        ("admin-token", "sesame\n", "sesame"),
        ("headers", "off", "off"),
        ("headers", "draft03", "draft03"),
        ("headers", " ietf ", "ietf"),
        ("prefix", "tg:eu", "tg:eu"),
        ("otlp-endpoint", "", None),
        ("otlp-headers", " , ", None),
        ("otlp-headers", "X-Key = a=b%2Cc ,x-t=1", (("x-key", "a=b,c"), ("x-t", "1"))),
        ("otlp-endpoint", "http://127.0.0.1:4318/", "http://127.0.0.1:4318"),
        ("otlp-endpoint", "https://[::1]:4318/otlp", "https://[::1]:4318/otlp"),
        ("tls-client-uris", "", None),
        ("tls-client-uris", "spiffe://m/a, spiffe://m/b/*", ("spiffe://m/a", "spiffe://m/b/*")),
    ],
)
def test_a_value_is_read(name: str, text: str, value: object) -> None:
    assert row(name).kind.read(text) == value


@pytest.mark.parametrize(
    ("name", "text", "fix"),
    [
        ("otlp-endpoint", "127.0.0.1:4318", "write its base"),
        ("otlp-headers", "x-key", "must be pairs"),
        ("otlp-headers", "x key=1", "must be pairs"),
        ("otlp-headers", "x-key=", "must be pairs"),
        ("otlp-headers", "x-key=a%0d%0ab", "must be pairs"),
        ("otlp-headers", "Content-Type=text/plain", "not to be chosen"),
        ("otlp-headers", "X-Key=1,x-t=1,x-key=2", "names the header x-key twice"),
        ("otlp-endpoint", "grpc://collector:4317", "write its base"),
        ("otlp-endpoint", "http://collector:65536", "write its base"),
        ("otlp-endpoint", "http://user:word@collector", "write its base"),
        ("otlp-endpoint", "http://collector:4318/v1/traces", "/v1/traces is added"),
        ("http", "8080", "write host:port"),
        ("http", "127.0.0.1", "write host:port"),
        ("http", "127.0.0.1:65536", "write host:port"),
        ("http", "127.0.0.1:-1", "write host:port"),
        ("http", "no.such.host.invalid:80", "an IP address will do"),
        ("http", "a\0b:80", "an IP address will do"),
        ("http", "unix:tidegate.sock", "its whole path"),
        ("http", "unix:/run/", "its whole path"),
        ("http", "unix:/" + "x" * 107, "107 bytes"),
        ("tls-client-uris", "mesh/a", "must be URIs"),
        ("tls-client-uris", "spiffe://m/a*", '"spiffe://m/a*" is none'),
        ("workers", "0", "from 1 to 1,024"),
        ("workers", "1025", "from 1 to 1,024"),
        ("workers", "2.5", "whole number"),
        ("workers", "-1", "whole number"),
        ("workers", "٣", "whole number"),
        ("workers", "9" * 5000, "whole number"),
        ("max-counters", "1m", "whole number"),
        ("store-timeout", "5", "with its unit"),
        ("store-timeout", "5 minutes", "with its unit"),
        ("store-timeout", "-5ms", "with its unit"),
        ("store-timeout", "0ms", "1us to 1min"),
        ("store-timeout", "61s", "1us to 1min"),
        ("store-timeout", "0.5us", "whole microseconds"),
        ("drain-notice", "6min", "0s to 5min"),
        ("store", "localhost:6379", "redis://host:6379"),
        ("store", "redis://", "redis://host:6379"),
        ("headers", "x", "github, draft03, ietf or off"),
        ("door-token", "two words", "without spaces"),
        ("prefix", "", "1 to 64"),
        ("prefix", "{a}", "braces"),
        ("policy", "", "no path"),
        ("admin-token", "two words", "without spaces"),
        ("admin-token", "schlüssel", "ASCII"),
    ],
)
def test_what_cannot_be_is_refused_with_the_fix(name: str, text: str, fix: str) -> None:
    with pytest.raises(ValueError, match=re.escape(fix)):
        row(name).kind.read(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for one in ROWS:
        if one.name in {"http", "grpc"} and ":" in text:
            continue  # would ask for the names of hosts
        with suppress(ValueError):
            one.kind.read(text)


@given(st.integers(1, 60_000_000))
def test_a_time_is_shown_as_it_can_be_written(time_us: int) -> None:
    assert row("store-timeout").kind.read(show_duration_us(time_us)) == time_us


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://u:secret@h:1/0", "redis://u:***@h:1/0"),
        ("redis://:secret@h", "redis://:***@h"),
        (
            "redis+sentinel://u:secret@h:1,h:2/main?sentinel_password=s@ecret&db=1",
            "redis+sentinel://u:***@h:1,h:2/main?sentinel_password=***&db=1",
        ),
        ("redis://u:se/cr@et@h", "redis://u:***@h"),
        ("redis://a/b:secret@h", "redis://a/b:***@h"),
        ("redis://a@b:secret@h", "redis://a@b:***@h"),
        ("redis+unix://u:secret@/a.sock", "redis+unix://u:***@/a.sock"),
        ("redis://h:1", "redis://h:1"),
        ("redis://[::1]:1", "redis://[::1]:1"),
    ],
)
def test_a_password_is_masked(url: str, shown: str) -> None:
    assert masked(url) == shown
