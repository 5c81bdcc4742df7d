"""What is asked and by which policy: ours, and the same one in the words of the peer."""

from dataclasses import dataclass

TENANTS = 10_000
"""Tenants with plans and overrides in the policy of five limits."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One policy and the requests that meet it; no request is ever over a limit.

    Args:
        policy: Ours.
        entries: The descriptors of a request, in the form of the generator.
        peer_config: The policy as envoyproxy/ratelimit has it.
        peer_entries: The descriptors that charge as many limits there.
    """

    policy: str
    entries: str
    peer_config: str
    peer_entries: str


ONE_LIMIT = Workload(
    policy="""\
version: 1
domains:
  bench:
    tenant_key: tenant
    limits:
      - id: per-key
        per: [tenant, api_key]
        rate: 1M/min
""",
    entries="tenant=acme-{i%100},api_key=key-{i}",
    peer_config="""\
domain: bench
descriptors:
  - key: tenant
    descriptors:
      - key: api_key
        rate_limit: {unit: minute, requests_per_unit: 1000000}
""",
    peer_entries="tenant=acme-{i%100},api_key=key-{i}",
)

_FIVE_HEAD = """\
version: 1
domains:
  bench:
    tenant_key: tenant
    limits:
      - {id: per-key, per: [tenant, api_key], missing: skip, rate: 1M/min}
      - {id: per-tenant, per: [tenant], missing: skip, rate: 100M/min}
      - {id: search, when: {route: /search}, per: [tenant], missing: skip, rate: 1M/min}
      - {id: per-address, per: [remote_address], missing: skip, rate: 10M/min}
      - {id: all, rate: 1000M/min}
    plans:
      free: {per-key: {rate: 1M/min}}
      pro: {per-key: {rate: 2M/min}}
    tenants:
"""
_FIVE_TENANT = """\
      tenant-{index}:
        plan: {plan}
        overrides:
          - {{limit: search, rate: {rate}k/min, reason: the contract of tenant {index}}}
"""
_FIVE_PEER = """\
domain: bench
descriptors:
  - key: tenant
    rate_limit: {unit: minute, requests_per_unit: 100000000}
    descriptors:
      - key: api_key
        rate_limit: {unit: minute, requests_per_unit: 1000000}
      - key: route
        value: /search
        rate_limit: {unit: minute, requests_per_unit: 1000000}
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 10000000}
  - key: all
    rate_limit: {unit: minute, requests_per_unit: 1000000000}
"""


def _five_limits() -> Workload:
    """Three descriptors that meet five limits: two through the first, one through all three.

    The peer charges one limit for each descriptor, so it is asked with five.
    """
    tenants = (
        _FIVE_TENANT.format(index=index, plan=("free", "pro")[index % 2], rate=1000 + index)
        for index in range(TENANTS)
    )
    key = "tenant=tenant-{i},api_key=key-{i}"
    search = "tenant=tenant-{i},route=/search"
    address = "remote_address=192.0.2.{i%250}"
    return Workload(
        policy=_FIVE_HEAD + "".join(tenants),
        entries=f"{key};{search};{address}",
        peer_config=_FIVE_PEER,
        peer_entries=f"{key};tenant=tenant-{{i}};{search};{address};all=all",
    )


FIVE_LIMITS = _five_limits()
