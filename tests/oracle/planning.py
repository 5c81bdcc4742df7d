"""From a snapshot and a request to the operations of the oracle: matching in its plainest form."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.oracle.calendar import UNITS, around
from tests.oracle.model import SECOND, Op

Verb = Literal["hit", "peek", "refund"]
Descriptor = Mapping[str, str]
Json = Any
"""A snapshot is read as the JSON that it is; its shape is checked by those who compile it."""


@dataclass(frozen=True, slots=True)
class Met:
    """One limit that the request meets: who answers, and the operation where the store does."""

    id: str
    shadow: bool
    verdict: Literal["ask", "blocked", "missing_key"]
    op: Op


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came."""

    descriptors: Sequence[Descriptor]
    costs: Mapping[str, int]
    verb: Verb


def plan(snapshot: Json, now_us: int, domain: str, asked: Asked) -> list[Met]:
    """Everything that the request meets, each counter once, in the order of first meeting."""
    rules = next((d for d in snapshot["domains"] if d["name"] == domain), None)
    met: dict[str, Met] = {}
    if rules is None:
        return []
    for descriptor in asked.descriptors:
        for index, limit in enumerate(rules["limits"]):
            numbers = _numbers(rules, index, descriptor, now_us)
            if limit["counts"] in asked.costs and numbers and _matches(limit["when"], descriptor):
                one = _meet(limit, numbers, descriptor, asked, now_us)
                if one and (one.op.key not in met or met[one.op.key].op.cost < one.op.cost):
                    met[one.op.key] = one
    if any(one.verdict != "ask" and not one.shadow for one in met.values()):
        return [
            one if one.op.is_taken_anyway else replace(one, op=replace(one.op, action="peek"))
            for one in met.values()
        ]
    return list(met.values())


def _meet(
    limit: Json, numbers: Json, descriptor: Descriptor, asked: Asked, now_us: int
) -> Met | None:
    cost = asked.costs[limit["counts"]]
    values: list[str | None] = [descriptor.get(key) for key in limit["per"]]
    if None in values and limit["missing"] == "skip":
        return None
    period = numbers["period_us"] if limit["keyed_by_period"] else 0
    verdict: Literal["ask", "blocked", "missing_key"] = "blocked" if numbers["n"] == 0 else "ask"
    if None in values and limit["missing"] == "deny":
        verdict = "missing_key"
    ends = None
    if limit["time_zone"] is not None:
        ends = around(limit["time_zone"], UNITS[numbers["period_us"] // SECOND], now_us)
    split = (limit["slots"], limit["conservative"])
    op = Op(
        key=repr((limit["id"], limit["algorithm"], period, split, values)),
        algorithm=limit["algorithm"],
        n=numbers["n"],
        period_us=numbers["period_us"],
        burst=numbers["burst"],
        action="peek" if cost == 0 else "charge" if asked.verb == "hit" else asked.verb,
        cost=max(1, cost),
        shadow=limit["on_exceed"] == "shadow",
        count_denied=limit["count_denied"],
        ends=ends,
        slots=limit["slots"],
        is_conservative=limit["conservative"],
    )
    return Met(limit["id"], op.shadow, verdict, op)


def _numbers(rules: Json, index: int, descriptor: Descriptor, now_us: int) -> Json:
    """The numbers in force: an override, else the plan's, else the limit's own."""
    tenant = rules["tenants"].get(descriptor.get(rules["tenant_key"] or "", ""))
    for override in tenant["overrides"] if tenant else []:
        starts, ends = override["from_us"] or 0, override["until_us"]
        if override["limit"] == index and starts <= now_us and (ends is None or now_us < ends):
            return override["numbers"]
    if tenant and tenant["plan"] is not None:
        for row, numbers in rules["plans"][tenant["plan"]]["numbers"]:
            if row == index:
                return numbers
    return rules["limits"][index]["numbers"]


def _matches(when: Json, descriptor: Descriptor) -> bool:
    return all(
        row["key"] in descriptor
        and any(_holds(test, descriptor[row["key"]]) for test in row["any"]) != row["negate"]
        for row in when
    )


def _holds(test: dict[str, str], value: str) -> bool:
    ((kind, wanted),) = test.items()
    match kind:
        case "exact":
            return value == wanted
        case "prefix":
            return value.startswith(wanted)
        case "regex":
            return re.search(wanted, value) is not None
        case "cidr":
            try:
                return ipaddress.ip_address(value) in ipaddress.ip_network(wanted)
            except ValueError:
                return False
    msg = f"unknown kind of test: {kind}"
    raise ValueError(msg)
