"""Document to snapshot: the bytes that the native engine loads, all defaults filled in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.compiler.calendars import FIRST_YEAR, Calendars, start_of_year
from tidegate.policy.document import Algorithm, Document, Domain, Limit, Override, Tenant
from tidegate.policy.numbers import Layer, Numbers, resolve
from tidegate.policy.yaml_text import paused_gc
from tidegate.policy.zones import UTC

if TYPE_CHECKING:
    from tidegate.policy.matchers import Matcher

FORMAT = 1
_REVISION_DIGITS = 12

Json = None | bool | int | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A compiled policy.

    Attributes:
        data: What the native engine loads.
        revision: The first 12 hex digits of the hash of all but the calendars. So it names the
            document, whatever the year in which it is compiled.
        stale_at_s: When that year is over, seconds since 1970; none without quotas.
    """

    data: bytes
    revision: str
    stale_at_s: int | None = None


def compile_document(document: Document, year: int = FIRST_YEAR) -> Snapshot:
    """Compiles a checked document; with the same year the same document gives the same bytes.

    Args:
        document: Without errors.
        year: From which the calendars of quotas are made ahead; who runs the snapshot gives the
            present one, and compiles again when that is over.
    """
    with paused_gc():
        calendars = Calendars(year)
        domains: list[Json] = []
        for name, domain in sorted(document.domains.items()):
            domains.append(_domain(name, domain))
            calendars.add(domain)
        snapshot = encode(domains, calendars.json())
        if not calendars.json():
            return snapshot
        return replace(snapshot, stale_at_s=start_of_year(year + 1))


def encode(domains: Sequence[Json], calendars: Mapping[str, Json]) -> Snapshot:
    """Writes the canonical bytes of a snapshot, keys in order, and names it."""
    rest = b',"domains":%s,"format":%d,"revision":"' % (_written(domains), FORMAT)
    revision = hashlib.sha256(b'{"calendars":{}%s"}' % rest).hexdigest()[:_REVISION_DIGITS]
    data = b'{"calendars":%s%s%s"}' % (_written(calendars), rest, revision.encode())
    return Snapshot(data, revision)


def _written(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def limit_rows(limit: Limit) -> list[Json]:
    """The rows of a limit, one for each of its rates."""
    algorithm, is_quota = limit.algorithm, limit.quota is not None
    if algorithm is Algorithm.LEAKY_BUCKET:
        algorithm = Algorithm.TOKEN_BUCKET
    all_numbers = resolve(limit.algorithm, [limit])
    row: dict[str, Json] = {
        "id": limit.id,
        "when": [_condition(key, matcher) for key, matcher in sorted(limit.when.items())],
        "per": list(limit.per),
        "missing": limit.missing,
        "counts": limit.counts,
        "algorithm": _counting(limit, algorithm),
        "slots": limit.slots or 1,
        "conservative": limit.conservative,
        "time_zone": (limit.time_zone or UTC) if is_quota else None,
        "keyed_by_period": is_quota or algorithm.is_window or len(all_numbers) > 1,
        "on_store_failure": limit.on_store_failure,
        "on_exceed": limit.on_exceed,
        "count_denied": limit.count_denied,
        "request_override": limit.request_override,
        "consistency": limit.consistency.plain,
    }
    return [{**row, "numbers": _numbers(numbers)} for numbers in all_numbers]


def _counting(limit: Limit, algorithm: Algorithm) -> str:
    """The word of the engine."""
    if limit.quota is not None:
        return "quota"
    return "sliding_slots" if limit.slots or limit.conservative else algorithm.value


class _Rows:
    """The limits of a domain, and at which row each begins."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self.json: list[Json] = []
        self.limits: dict[str, Limit] = {}
        self.first: dict[str, int] = {}
        for limit in limits:
            self.limits[limit.id] = limit
            self.first[limit.id] = len(self.json)
            self.json.extend(limit_rows(limit))

    def numbered(self, layers: Sequence[Layer], limit_id: str) -> list[tuple[int, Json]]:
        """Row and numbers of a limit under a plan or override."""
        resolved = resolve(self.limits[limit_id].algorithm, layers)
        first = self.first[limit_id]
        return [(first + index, _numbers(numbers)) for index, numbers in enumerate(resolved)]


def _domain(name: str, domain: Domain) -> Json:
    rows = _Rows(domain.limits)
    plan_names = sorted(domain.plans)
    plans: list[Json] = []
    for plan_name in plan_names:
        numbered: list[tuple[int, Json]] = []
        for limit_id, amount in domain.plans[plan_name].items():
            numbered.extend(rows.numbered([rows.limits[limit_id], amount], limit_id))
        numbered.sort(key=lambda pair: pair[0])
        plans.append({"name": plan_name, "numbers": numbered})
    numbers_of_plan = {plan_name: index for index, plan_name in enumerate(plan_names)}
    compiler = _TenantCompiler(domain, rows, numbers_of_plan)
    return {
        "name": name,
        "tenant_key": domain.tenant_key,
        "limits": rows.json,
        "plans": plans,
        "tenants": {key: compiler.tenant(tenant) for key, tenant in domain.tenants.items()},
    }


class _TenantCompiler:
    """Compiles tenants; each distinct set of numbers is resolved once."""

    def __init__(self, domain: Domain, rows: _Rows, numbers_of_plan: dict[str, int]) -> None:
        self._domain = domain
        self._rows = rows
        self._numbers_of_plan = numbers_of_plan
        self._known: dict[tuple[object, ...], list[tuple[int, Json]]] = {}

    def tenant(self, tenant: Tenant) -> Json:
        overrides: list[tuple[int, int, dict[str, Json]]] = []
        for override in tenant.overrides:
            begin = -1 if override.from_us is None else override.from_us
            for row, numbers in self._numbered(tenant.plan, override):
                entry: dict[str, Json] = {
                    "limit": row,
                    "from_us": override.from_us,
                    "until_us": override.until_us,
                    "numbers": numbers,
                }
                overrides.append((row, -begin, entry))
        # The first in force wins: of one limit the latest beginning stands first.
        overrides.sort(key=lambda one: one[:2])
        plan = None if tenant.plan is None else self._numbers_of_plan[tenant.plan]
        return {"plan": plan, "overrides": [entry for _, _, entry in overrides]}

    def _numbered(self, plan: str | None, override: Override) -> list[tuple[int, Json]]:
        key = (plan, override.limit, override.rates, override.burst, override.preset)
        found = self._known.get(key)
        if found is None:
            limit = self._rows.limits[override.limit]
            planned = self._domain.plans.get(plan, {}).get(override.limit) if plan else None
            layers: list[Layer] = [limit, planned, override] if planned else [limit, override]
            found = self._known[key] = self._rows.numbered(layers, override.limit)
        return found


def _condition(key: str, matcher: Matcher) -> Json:
    patterns: list[Json] = [{pattern.kind: pattern.text} for pattern in matcher.any]
    return {"key": key, "negate": matcher.is_negated, "any": patterns}


def _numbers(numbers: Numbers | None) -> Json:
    if numbers is None:
        return None
    return {"n": numbers.n, "period_us": numbers.period_s * 1_000_000, "burst": numbers.burst}
