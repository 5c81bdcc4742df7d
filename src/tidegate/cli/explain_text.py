"""An explanation as a person reads it: what was denied and by what, what would apply and why."""

from __future__ import annotations

from typing import TypedDict

from tidegate.cli.decision_text import spell_ms
from tidegate.policy.problems import quoted


class Entry(TypedDict):
    """One entry of a descriptor."""

    key: str
    value: str | None


class Rate(TypedDict):
    """Requests per period."""

    n: int
    period_ms: int


class KeptLimit(TypedDict):
    """What a limit said of a request that was denied."""

    id: str
    allowed: bool
    shadow: bool
    denied: bool
    reason: str
    action: str
    cost: int
    rate: Rate
    limit: int
    used: int
    remaining: int
    window_ms: int
    reset_ms: int
    reset_at: str
    retry_at: str | None


class Described(TypedDict):
    """One descriptor of a request that was denied."""

    entries: list[Entry]
    entries_left_out: int


class Denial(TypedDict):
    """`GET /v1/decisions/ID`."""

    decision_id: str
    time: str
    reason: str
    degraded: bool
    revision: str
    domain: str
    retry_after_ms: int | None
    retry_at: str | None
    limits: list[KeptLimit]
    limits_left_out: int
    descriptors: list[Described]
    descriptors_left_out: int


class Condition(TypedDict):
    """One row of `when`."""

    key: str
    value: str | None
    wants: str
    matched: str | None


class ExplainedLimit(TypedDict):
    """One limit, held against a request."""

    id: str
    shadow: bool
    algorithm: str
    rate: Rate | None
    limit: int | None
    calendar: dict[str, str] | None
    source: dict[str, str | None]
    when: list[Condition]
    per: list[Entry]
    missing: str
    problems: list[str]


class ExplainedDescriptor(TypedDict):
    """One descriptor and what would apply to it."""

    entries: list[Entry]
    applies: list[ExplainedLimit]
    nearest: list[ExplainedLimit]
    others: int


class Explanation(TypedDict):
    """`POST /v1/explain`."""

    domain: str
    is_known: bool
    revision: str
    descriptors: list[ExplainedDescriptor]


_WHY = {
    "over_limit": "over its limit",
    "cost_exceeds_limit": "the cost is more than it ever passes",
    "blocked": "its rate is 0",
    "missing_key": "the request lacks a key that it counts by",
    "store_failure": "the counter store was away, and this limit is closed then",
}


def denial_page(denial: Denial) -> str:
    """Why a request was denied."""
    lines = [f"denied   {denial['time']}  {plain(denial['domain'])}  {denial['decision_id']}"]
    for descriptor in denial["descriptors"]:
        left_out = descriptor["entries_left_out"]
        more = f"  and {left_out} more" if left_out else ""
        lines.append(f"  asked  {entries_text(descriptor['entries'])}{more}")
    if denial["descriptors_left_out"]:
        lines.append(f"  and {denial['descriptors_left_out']} more descriptors")
    for limit in denial["limits"]:
        lines += _kept(limit)
    if denial["limits_left_out"]:
        lines.append(f"  and {denial['limits_left_out']} more limits")
    lines.append(f"  {_when(denial)}")
    store = "; the counter store did not answer" if denial["degraded"] else ""
    lines.append(f"  policy revision {denial['revision']}{store}")
    return "\n".join(lines)


def _kept(limit: KeptLimit) -> list[str]:
    verdict = "denied it" if limit["denied"] else "let it pass"
    if limit["shadow"] and not limit["allowed"]:
        verdict = "over, but in shadow"
    why = f": {_WHY.get(limit['reason'], limit['reason'])}" if limit["denied"] else ""
    act = {"peek": "looked for", "refund": "gave back"}.get(limit["action"], "asked for")
    told = [f"  {plain(limit['id'])}  {verdict}{why}"]
    if limit["reason"] != "store_failure":
        told.append(
            f"    {limit['used']:,} of {limit['limit']:,} used, {rate_text(limit['rate'])};"
            f" {act} {limit['cost']:,}"
        )
        ends = limit["retry_at"] or limit["reset_at"]
        word = "has room again at" if limit["retry_at"] else "unused again at"
        if limit["reason"] not in {"blocked", "missing_key"}:
            told.append(f"    {word} {ends}")
    return told


def _when(denial: Denial) -> str:
    wait = denial["retry_after_ms"]
    if wait is None:
        return "no wait helps" if denial["reason"] != "store_failure" else "passes with the store"
    return f"the same request passes from {denial['retry_at']} on, after {spell_ms(wait)}"


def explanation_page(told: Explanation) -> str:
    """What would apply to a request."""
    domain = plain(told["domain"])
    if not told["is_known"]:
        return f"no domain {domain} in the policy: everything passes"
    lines: list[str] = []
    for descriptor in told["descriptors"]:
        lines.append(f"{domain}  {entries_text(descriptor['entries'])}")
        if not descriptor["applies"]:
            lines.append("  no limit applies: the request passes")
        for limit in descriptor["applies"]:
            lines += _applying(limit)
        if descriptor["nearest"]:
            lines.append("does not apply:")
        for limit in descriptor["nearest"]:
            lines.append(f"  {plain(limit['id'])}: {plain('; '.join(limit['problems']))}")
        if descriptor["others"]:
            lines.append(f"  and {descriptor['others']} limits further away")
    lines.append(f"policy revision {told['revision']}")
    return "\n".join(lines)


def _applying(limit: ExplainedLimit) -> list[str]:
    rate = limit["rate"]
    calendar = limit["calendar"]
    numbers = "unlimited" if rate is None else rate_text(rate)
    if rate is not None and calendar is not None:
        numbers = f"{rate['n']:,} per {calendar['unit']} in {plain(calendar['time_zone'])}"
    if rate is not None and limit["limit"] not in {None, rate["n"]}:
        numbers += f", {limit['limit']:,} at once"
    shadow = ", in shadow" if limit["shadow"] else ""
    because = [
        f"{plain(str(row['key']))} is {plain(str(row['value']))} ({plain(row['wants'])})"
        for row in limit["when"]
    ]
    lines = [f"  {plain(limit['id'])}  {numbers}, {limit['algorithm']}{shadow}"]
    lines.append(f"    numbers of {_source(limit['source'])}")
    lines.append(
        f"    applies because {' and '.join(because)}" if because else "    always applies"
    )
    if limit["per"]:
        lines.append(f"    counted for {entries_text(limit['per'])}{_missing(limit)}")
    return lines


def _missing(limit: ExplainedLimit) -> str:
    lacking = [plain(entry["key"]) for entry in limit["per"] if entry["value"] is None]
    if not lacking:
        return ""
    fate = "is denied" if limit["missing"] == "deny" else "shares one counter"
    return f"; who lacks {' and '.join(lacking)} {fate}"


def _source(source: dict[str, str | None]) -> str:
    kind = source.get("kind")
    if kind == "plan":
        return f"plan {plain(str(source.get('plan')))}"
    if kind == "override":
        since, until = source.get("from"), source.get("until")
        dates = [f"from {since}"] if since else []
        dates += [f"until {until}"] if until else []
        return f"an override of this tenant, {' '.join(dates) or 'for good'}"
    return "the limit itself"


def rate_text(rate: Rate) -> str:
    """A rate as it is read: `100 per 1 min`."""
    return f"{rate['n']:,} per {spell_ms(rate['period_ms'])}"


def entries_text(entries: list[Entry]) -> str:
    """Entries as KEY=VALUE; one without a value as what is lacking."""
    told = [
        f"{entry['key']}={entry['value']}" if entry["value"] is not None else f"no {entry['key']}"
        for entry in entries
    ]
    return " ".join(plain(text) for text in told)


def plain(text: str) -> str:
    """The text without anything that could command a terminal. What is escaped already stays."""
    return "".join(mark if mark.isprintable() else quoted(mark)[1:-1] for mark in text)
