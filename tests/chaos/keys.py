"""The policy under load, the keys that it counts, and what became of each request."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from tests.servers.cluster import SLOTS, slot_of

DOMAIN = "chaos"
WINDOW_S = 2
ROOMY = 1_000_000
EARLY, LATE, WINDOW = 12, 40, 12
"""Each key is asked for 10 times a second."""
POLICY = f"""\
version: 1
domains:
  {DOMAIN}:
    tenant_key: tenant
    limits:
      - {{id: roomy, when: {{kind: roomy}}, per: [tenant], rate: {ROOMY} per 365 days,
         algorithm: fixed_window}}
      - {{id: closed, when: {{kind: closed}}, per: [tenant], rate: {ROOMY} per 365 days,
         algorithm: fixed_window, on_store_failure: closed}}
      - {{id: early, when: {{kind: early}}, per: [tenant], rate: {EARLY} per 365 days,
         algorithm: fixed_window}}
      - {{id: late, when: {{kind: late}}, per: [tenant], rate: {LATE} per 365 days,
         algorithm: fixed_window}}
      - {{id: pair, when: {{kind: pair}}, per: [tenant], rate: {ROOMY} per 365 days,
         algorithm: fixed_window}}
      - {{id: all, when: {{kind: pair}}, per: [run], rate: {ROOMY} per 365 days,
         algorithm: fixed_window, on_store_failure: closed}}
      - {{id: local, when: {{kind: local}}, per: [tenant], rate: {ROOMY} per 365 days,
         algorithm: fixed_window, consistency: local}}
      - {{id: window, when: {{kind: window}}, per: [tenant], rate: {WINDOW} per {WINDOW_S} s,
         algorithm: fixed_window}}
"""
FREE = "free"
"""Meets no limit: such a request needs no store, and shows what the machine takes for itself."""
PAIR = "pair"
"""Meets a limit of its own, and one of all of its kind in the run, whose counter lies elsewhere."""
LOCAL = "local"
"""Is decided at the nodes, which tell the store 20 times a second, each charge once or never."""
LIMITS = {
    "roomy": ROOMY,
    "closed": ROOMY,
    PAIR: ROOMY,
    LOCAL: ROOMY,
    "early": EARLY,
    "late": LATE,
    "window": WINDOW,
    FREE: ROOMY,
}
SHARDS = 3


@dataclass(frozen=True, slots=True)
class Key:
    """A tenant of one kind of limit, whose counter lies in one third of the slots."""

    tenant: str
    kind: str
    shard: int
    run: str = ""

    @property
    def limit(self) -> int:
        """What its limit lets pass in one window."""
        return LIMITS[self.kind]

    @property
    def is_counted(self) -> bool:
        """Whether the store is asked for it."""
        return self.kind != FREE

    @property
    def has_windows(self) -> bool:
        """False if the window is longer than any run."""
        return self.kind == "window"

    @property
    def slot(self) -> int:
        """Where its counter lies in a Cluster."""
        return slot_of(f"{DOMAIN}|{self.tenant}")

    @property
    def entries(self) -> dict[str, str]:
        """The descriptor that meets its limit and no other."""
        entries = {"tenant": self.tenant, "kind": self.kind}
        return {**entries, "run": self.run} if self.run else entries


def fresh_keys(scenario: str) -> list[Key]:
    """A key of each kind in each third of the slots, which no other scenario uses."""
    found: dict[tuple[str, int], Key] = {}
    # In the first third, to which most happens.
    run = next(name for name in _names(f"{scenario}-run") if _shard(name) == 0)
    for kind in LIMITS:
        for tenant in _names(f"{scenario}-{kind}"):
            key = Key(tenant, kind, _shard(tenant), run if kind == PAIR else "")
            found.setdefault((kind, key.shard), key)
    return list(found.values())


def _names(stem: str) -> list[str]:
    return [f"{stem}-{at}" for at in range(100)]


def _shard(tenant: str) -> int:
    return slot_of(f"{DOMAIN}|{tenant}") * SHARDS // SLOTS


@dataclass(frozen=True, slots=True)
class Sample:
    """One request. Times are seconds of the wall clock, which stores and nodes share.

    Args:
        key: Its place among the keys.
        sent: When it was first sent.
        answered: When its answer came, or it was given up.
        allowed: The answer; None where none came.
        degraded: Whether `on_store_failure` decided.
        attempts: How often it was sent to a node: again where one died with it.
        error: What the caller saw in place of an answer.
    """

    key: int
    sent: float
    answered: float
    allowed: bool | None
    degraded: bool = False
    attempts: int = 1
    error: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether the store decided."""
        return self.allowed is not None and not self.degraded

    @property
    def unknown(self) -> int:
        """How many charges it may have left beside the one that its answer tells of."""
        return self.attempts - 1 if self.is_exact else self.attempts


@dataclass(frozen=True, slots=True)
class Plan:
    """What the load is: `rate` requests a second over all keys, in turn, at all nodes in turn.

    Args:
        keys: Who is asked for.
        http: The nodes' HTTP ports.
        grpc: Their gRPC ports; set, these are asked.
        rate: Requests a second.
        results: The file that the samples go to.
    """

    keys: Sequence[Key]
    http: Sequence[int]
    grpc: Sequence[int]
    rate: float
    results: str

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Reads it."""
        return cls(**{**document, "keys": [Key(**key) for key in document["keys"]]})
