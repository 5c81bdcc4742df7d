"""Rules about plans, tenants and their overrides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.policy.numbers import Layer, fits_rows, rows_of
from tidegate.policy.problems import Finding, Path, did_you_mean, quoted
from tidegate.policy.sizes import check_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.policy.document import Domain, Limit, Override, Tenant


def check_plans(domain: Domain, path: Path) -> Iterator[Finding]:
    """What is wrong with the plans of a domain."""
    limits = {limit.id: limit for limit in domain.limits}
    for name, plan in domain.plans.items():
        if not name:
            yield Finding((*path, "plans", name), "a plan's name must not be empty", "name it")
        for limit_id, amount in plan.items():
            here = (*path, "plans", name, limit_id)
            limit = limits.get(limit_id)
            if limit is None:
                yield replace(_unknown_limit(limit_id, limits, here), is_about_key=True)
            else:
                yield from _check_owner(limit, domain.tenant_key, here, "a plan")
                yield from _check_amount(limit, [limit, amount], here)


def check_tenants(domain: Domain, path: Path) -> Iterator[Finding]:
    """What is wrong with the tenants of a domain."""
    limits = {limit.id: limit for limit in domain.limits}
    checks = _OverrideChecks(domain, limits)
    for tenant_id, tenant in domain.tenants.items():
        if tenant.plan is not None and tenant.plan not in domain.plans:
            here: Path = (*path, "tenants", tenant_id, "plan")
            hint = did_you_mean(tenant.plan, domain.plans) or f"add it under plans: {tenant.plan}"
            yield Finding(here, f"there is no plan {quoted(tenant.plan)}", hint)
        for index, override in enumerate(tenant.overrides):
            found = checks.of(tenant, override)
            if found:
                here = (*path, "tenants", tenant_id, "overrides", index)
                yield from (replace(one, path=(*here, *one.path)) for one in found)
        if len(tenant.overrides) > 1:
            yield from _check_twins(tenant, (*path, "tenants", tenant_id, "overrides"))


class _OverrideChecks:
    """Checks each distinct override once: thousands of tenants mostly share a few."""

    def __init__(self, domain: Domain, limits: dict[str, Limit]) -> None:
        self._domain = domain
        self._limits = limits
        self._known: dict[tuple[object, ...], list[Finding]] = {}

    def of(self, tenant: Tenant, override: Override) -> list[Finding]:
        """What is wrong with an override, by paths within it."""
        numbers = (override.rate, override.quota, override.burst, override.preset)
        key = (tenant.plan, override.limit, numbers)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = list(self._check(tenant.plan, override))
        since, until = override.from_us, override.until_us
        if since is not None and until is not None and since >= until:
            backward = Finding(("until",), "ends before it begins", "until must be after from")
            return [*found, backward]
        return found

    def _check(self, plan_name: str | None, override: Override) -> Iterator[Finding]:
        limit = self._limits.get(override.limit)
        if limit is None:
            yield _unknown_limit(override.limit, self._limits, ("limit",))
            return
        yield from _check_owner(limit, self._domain.tenant_key, ("limit",), "an override")
        planned = self._domain.plans.get(plan_name or "", {}).get(override.limit)
        layers: list[Layer] = [limit, planned, override] if planned else [limit, override]
        yield from _check_amount(limit, layers, ())


def _check_amount(limit: Limit, layers: list[Layer], path: Path) -> Iterator[Finding]:
    amount = layers[-1]
    own, other = ("rate", "quota") if limit.quota is None else ("quota", "rate")
    if amount.rates is None and amount.burst is None and amount.preset is None:
        example = "rate: 500/min" if own == "rate" else f"quota: {limit.rates}"
        message, hint = "no number is written here", f"add a {own}, such as {example}"
        yield Finding(path, message, hint, is_about_key=True)
        return
    if limit.rates.is_stand_in:
        return
    if getattr(amount, other) is not None:
        message = f"{quoted(limit.id)} has a {own}, and a {other} cannot stand in for it"
        yield Finding((*path, other), message, f"write {own}: here", is_about_key=True)
        return
    if amount.rates is not None and not fits_rows(amount.rates, limit.rates):
        rows = rows_of(limit.rates)
        have = len(amount.rates.items)
        message = f"{limit.id} has {rows} {own}{'s' * (rows > 1)}, this has {have}"
        hint = f"write as many as the limit has: {limit.rates}"
        yield Finding((*path, own), message, hint)
        return
    yield from check_sizes(limit, layers, path)


def _check_owner(limit: Limit, tenant_key: str | None, path: Path, what: str) -> Iterator[Finding]:
    """A counter that tenants share cannot have a number for each of them."""
    if tenant_key is None or tenant_key in limit.per:
        return
    message = f"{what} changes {quoted(limit.id)}, whose counter all tenants share"
    hint = f"add {quoted(tenant_key)} to its per, or change the limit itself"
    yield Finding(path, message, hint, is_about_key=what == "a plan")


def _check_twins(tenant: Tenant, path: Path) -> Iterator[Finding]:
    """Overrides of one limit are told apart by their ids, and ordered by their beginnings."""
    ids: dict[str, int] = {}
    begins: dict[tuple[str, int | None], int] = {}
    for index, override in enumerate(tenant.overrides):
        begin = (override.limit, override.from_us)
        twin = begins.setdefault(begin, index)
        if twin != index:
            message = f"overrides[{twin}] is for the same limit from the same moment"
            hint = "remove one, or let one begin later: the latest from in force wins"
            yield Finding((*path, index), message, hint)
        if override.id is not None:
            twin = ids.setdefault(override.id, index)
            if twin != index:
                message = f"the id {quoted(override.id)} stands twice"
                hint = f"overrides[{twin}] has it: choose another, or leave it out"
                yield Finding((*path, index, "id"), message, hint)


def _unknown_limit(limit_id: str, limits: dict[str, Limit], path: Path) -> Finding:
    return Finding(path, f"there is no limit {quoted(limit_id)}", did_you_mean(limit_id, limits))
