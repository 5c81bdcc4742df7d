"""The table: each setting of `tidegate serve` once, with its default, its limits and its help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tidegate.settings import values
from tidegate.settings.values import Kind, masked

LOOPBACK_HTTP: Final = "127.0.0.1:8080"
LOOPBACK_GRPC: Final = "127.0.0.1:8081"
VARIABLES: Final = "TIDEGATE_"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a data plane is started with: a field for each row. Their defaults stand there."""

    config: str | None
    policy: str | None
    http: str
    grpc: str
    workers: int
    max_connections: int
    max_connections_per_peer: int | None
    store: str | None = field(repr=False)
    prefix: str
    store_timeout_us: int
    store_wait_replicas: int
    store_batch: int
    max_counters: int
    state_file: str | None
    headers: str
    admin_token: str | None = field(repr=False)
    door_token: str | None = field(repr=False)
    forward_auth: str | None
    drain_notice_us: int
    denials_kept: int
    metrics: str
    tls_cert: str | None
    tls_key: str | None
    tls_client_ca: str | None
    tls_client_uris: tuple[str, ...] | None
    log_level: str
    log_format: str
    otlp_endpoint: str | None
    otlp_headers: tuple[tuple[str, str], ...] | None = field(repr=False)
    otlp_ca: str | None

    @property
    def store_name(self) -> str:
        """The store without its password."""
        return masked(self.store) if self.store else "memory"


@dataclass(frozen=True, slots=True)
class Setting:
    """One row: its flag, its variable and its key in a settings file follow from its name.

    Args:
        name: The key, such as `store-timeout`.
        kind: How it is written, with its limits.
        default: As text; empty: none.
        help: One sentence without its full stop, for `--help` and the docs.
        unit: What a number counts.
        attribute: The field of `Settings`, where it is not the name.
        is_in_file: Whether a settings file may say it.
    """

    name: str
    kind: Kind
    default: str
    help: str
    unit: str = ""
    attribute: str = ""
    is_in_file: bool = True

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{VARIABLES}{self.name.upper().replace('-', '_')}"

    @property
    def field(self) -> str:
        """The field of `Settings`."""
        return self.attribute or self.name.replace("-", "_")

    @property
    def metavar(self) -> str:
        """The word for its value."""
        return self.kind.metavar


ROWS: tuple[Setting, ...] = (
    Setting(
        "config",
        values.path(),
        "",
        "a settings file (TOML), for what neither flags nor environment say",
        is_in_file=False,
    ),
    Setting("policy", values.path(), "", "the policy file, which is followed; needed"),
    Setting("http", values.address(), LOOPBACK_HTTP, "where HTTP is served"),
    Setting("grpc", values.address(), LOOPBACK_GRPC, "where gRPC is served"),
    Setting("workers", values.count(1_024), "1", "threads that serve", "threads"),
    Setting(
        "max-connections",
        values.count(1_000_000),
        "10000",
        "connections open at once, both doors together; further ones are closed",
        "connections",
    ),
    Setting(
        "max-connections-per-peer",
        values.count(1_000_000),
        "",
        "of these, by one address (of IPv6: one /64) at most; three quarters, if nothing is said",
        "connections",
    ),
    Setting(
        "store",
        values.store_url(),
        "memory",
        "where counters live: memory, or redis://host:6379/0 (rediss:// for TLS), shared by nodes",
    ),
    Setting(
        "prefix",
        values.prefix(),
        "tg",
        "what keys in a shared store begin with; nodes with the same one share counters",
    ),
    Setting(
        "store-timeout",
        values.duration(1, 60_000_000),
        "5ms",
        "after this, on_store_failure decides",
        attribute="store_timeout_us",
    ),
    Setting(
        "store-wait-replicas",
        values.count(16, least=0),
        "0",
        "replicas of the store that must have a charge before it is answered, in half of"
        " --store-timeout; 0 waits for none",
        "replicas",
    ),
    Setting(
        "store-batch",
        values.count(64),
        "64",
        "requests that one call to a shared store decides at most; fewer hold a store that others"
        " use for less time at once",
        "requests",
    ),
    Setting(
        "max-counters",
        values.count(1_000_000_000),
        "1000000",
        "counters in memory at most; newcomers share some beyond",
        "counters",
    ),
    Setting(
        "state-file",
        values.path(),
        "",
        "where counters in memory are kept from a clean stop to the next start; of one node alone",
    ),
    Setting(
        "headers",
        values.choice("PROFILE", "github", "draft03", "ietf", "off"),
        "github",
        "which headers tell clients where they stand: github, draft03, ietf or off",
    ),
    Setting(
        "admin-token",
        values.token(),
        "",
        "lets its holder reset, refund, and see what tenants send; better said by the environment",
    ),
    Setting(
        "door-token",
        values.token(),
        "",
        "what every question must carry, over HTTP and gRPC; better said by the environment",
    ),
    Setting(
        "forward-auth",
        values.path(),
        "",
        "a file (TOML) of the doors for proxies: nginx, HAProxy, Traefik, Caddy",
    ),
    Setting(
        "drain-notice",
        values.duration(0, 300_000_000),
        "500ms",
        "how long a node that is told to stop says so, and still serves, before it takes leave",
        attribute="drain_notice_us",
    ),
    Setting(
        "denials-kept",
        values.count(1_048_576, least=0),
        "4096",
        "the last denials that can be explained, 1 KiB each at most; 0 keeps none",
        "denials",
    ),
    Setting(
        "metrics",
        values.choice("on|off", "on", "off"),
        "on",
        "whether decisions are counted and timed for /metrics, and hot counters looked for",
    ),
    Setting(
        "tls-cert",
        values.path(),
        "",
        "the certificate (PEM) of both doors, with what links it to its authority; followed",
    ),
    Setting("tls-key", values.path(), "", "the key (PEM) of that certificate"),
    Setting(
        "tls-client-ca",
        values.path(),
        "",
        "authorities (PEM) of clients; those without a certificate of theirs are turned away",
    ),
    Setting(
        "tls-client-uris",
        values.uris(),
        "",
        "which clients of these authorities may come, by a URI in their certificate",
    ),
    Setting(
        "log-level",
        values.choice("LEVEL", "debug", "info", "warning", "error"),
        "info",
        "what is logged: lines of this level and above; debug tells of some denials, too",
    ),
    Setting(
        "log-format",
        values.choice("FORMAT", "text", "json"),
        "text",
        "a line as words, or as a JSON object",
    ),
    Setting(
        "otlp-endpoint",
        values.collector(),
        "",
        "the OpenTelemetry collector that is sent a span of each request with a sampled trace",
    ),
    Setting(
        "otlp-headers",
        values.http_headers(),
        "",
        "what it is sent beside the spans, such as a key; better said by the environment",
    ),
    Setting(
        "otlp-ca",
        values.path(),
        "",
        "authorities (PEM) of its certificate, in place of the system's",
    ),
)
"""Every setting of `tidegate serve`."""
