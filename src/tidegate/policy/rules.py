"""Rules about a domain and its limits that look at more than one field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate.policy.document import Algorithm
from tidegate.policy.numbers import of_preset, resolve
from tidegate.policy.problems import Finding, Path, Severity, printable, quoted
from tidegate.policy.sizes import check_sizes
from tidegate.policy.tenants import check_plans, check_tenants

if TYPE_CHECKING:
    from tidegate.policy.document import Document, Domain, Limit

CheckRegex = Callable[[str], str | None]
"""Says what is wrong with a regular expression, or `None`."""

MOST_KEYS = 65_535
LEAST_LOCAL = 100
_FILLED_BY_THE_GATEWAY = frozenset(
    {
        "destination_cluster", "domain", "generic_key", "header_match", "host", "ip", "client_ip",
        "masked_remote_address", "method", "path", "query_match", "remote_address", "route",
        "source_cluster",
    }
)  # fmt: skip


def check_document(document: Document, check_regex: CheckRegex | None) -> Iterator[Finding]:
    """All problems that a document of the right form may still have."""
    for name, domain in document.domains.items():
        path: Path = ("domains", name)
        if not name:
            yield Finding(path, "a domain's name must not be empty", "name it", is_about_key=True)
        yield from _check_domain(domain, path, check_regex)


def _check_domain(domain: Domain, path: Path, check_regex: CheckRegex | None) -> Iterator[Finding]:
    first: dict[str, int] = {}
    for index, limit in enumerate(domain.limits):
        here = (*path, "limits", index)
        if limit.id in first:
            message = f"the id {quoted(limit.id)} stands twice"
            hint = f"limits[{first[limit.id]}] has it: an id names one counter, so choose another"
            yield Finding((*here, "id"), message, hint)
        first.setdefault(limit.id, index)
        yield from check_limit(limit, here)
        yield from _check_when(limit, here, check_regex)
        yield from _warn_of_missing(limit, here, domain.tenant_key)
    keys = {key for limit in domain.limits for key in (*limit.per, *limit.when)}
    if len(keys) > MOST_KEYS:
        message = f"more than {MOST_KEYS:,} different descriptor keys"
        yield Finding(path, message, "a key names a kind of thing, its values are what differs")
    if domain.tenant_key is None:
        for field in ("plans", "tenants"):
            if getattr(domain, field):
                hint = "add tenant_key: the descriptor key whose value names the tenant"
                message = f"{field} need a tenant_key in their domain"
                yield Finding((*path, field), message, hint, is_about_key=True)
    yield from check_plans(domain, path)
    yield from check_tenants(domain, path)


def check_limit(limit: Limit, path: Path) -> Iterator[Finding]:
    """What is wrong with one limit alone."""
    for index, key in enumerate(limit.per):
        if key in limit.per[:index]:
            yield Finding((*path, "per", index), f"{quoted(key)} stands twice", "remove one")
        if not key:
            yield Finding((*path, "per", index), "a key must not be empty")
    if limit.rate is None and limit.quota is None:
        hint = "add a rate, such as rate: 100/min, or a quota, such as quota: 5M/month"
        yield Finding(path, '"rate" is missing', hint, is_about_key=True)
    yield from check_sizes(limit, [limit], path)
    yield from _check_words(limit, path)
    yield from _check_quota(limit, path)
    yield from _check_slots(limit, path)
    yield from _warn_of_costs(limit, path)


def _check_words(limit: Limit, path: Path) -> Iterator[Finding]:
    """Words that do not go with the algorithm or the rate."""
    hint = "choose another algorithm, such as sliding_window, or leave it out"
    for word in ("count_denied", "request_override"):
        if getattr(limit, word) and limit.algorithm is Algorithm.SLIDING_LOG:
            message = f"{word} does not go with sliding_log: its size would have no bound"
            yield Finding((*path, word), message, hint)
    yield from _check_consistency(limit, (*path, "consistency"))
    if limit.request_override and limit.quota is None and len(limit.rates.items) > 1:
        message = "request_override needs one rate: a request brings one"
        yield Finding((*path, "request_override"), message, "make a limit of each rate")


def _check_quota(limit: Limit, path: Path) -> Iterator[Finding]:
    """What goes with a quota alone, and what does not go with one."""
    if limit.quota is None:
        if limit.time_zone is not None:
            message = "time_zone without quota: a rate counts fixed periods"
            yield Finding((*path, "time_zone"), message, "remove it", is_about_key=True)
        return
    if limit.rate is not None:
        hint = "keep one, or make a limit of each"
        yield Finding((*path, "quota"), "rate and quota together", hint, is_about_key=True)
    if "algorithm" in limit.model_fields_set:
        message = "algorithm has no meaning for a quota, which counts calendar periods"
        yield Finding((*path, "algorithm"), message, "remove it", is_about_key=True)
    if limit.request_override:
        message = "request_override does not go with a quota: a request brings a rate"
        hint = "make a limit with a rate for it"
        yield Finding((*path, "request_override"), message, hint, is_about_key=True)


def _check_consistency(limit: Limit, path: Path) -> Iterator[Finding]:
    """Words that do not go with where a limit is decided."""
    mode = limit.consistency.mode
    if mode == "sharded":
        yield from _check_sharded(limit, path)
    elif mode != "exact":
        yield from _check_local(limit, path)


def _check_local(limit: Limit, path: Path) -> Iterator[Finding]:
    """What a node cannot decide by itself within the bound of the word."""
    word = limit.consistency
    if limit.quota is not None:
        message = f"consistency: {word} does not go with a quota, which adds up to the last request"
        yield Finding(path, message, "write exact")
        return
    if limit.algorithm is Algorithm.SLIDING_LOG:
        message = f"consistency: {word} does not go with sliding_log, whose entries a node lacks"
        yield Finding(path, message, "write exact, or choose sliding_window")
    for other in ("count_denied", "request_override", "slots", "conservative"):
        if getattr(limit, other):
            message = f"consistency: {word} does not go with {other}"
            yield Finding(path, message, "write exact")
    sizes = [numbers.burst for numbers in resolve(limit.algorithm, [limit]) if numbers]
    if sizes and 0 < min(sizes) < LEAST_LOCAL and word.mode != "sampled":
        message = f"consistency: {word} of fewer than {LEAST_LOCAL}: a hundredth is no request"
        hint = "write exact, which it will be in any case"
        yield Finding(path, message, hint, Severity.WARNING)


def _check_sharded(limit: Limit, path: Path) -> Iterator[Finding]:
    """What does not add up over several counters. Too small an N is found with the numbers."""
    word = limit.consistency
    counted = (Algorithm.FIXED_WINDOW, Algorithm.SLIDING_LOG)
    if limit.quota is None and limit.algorithm not in counted:
        name = limit.algorithm.value
        message = f"consistency: {word} does not go with {name}, whose parts do not add up"
        hint = "write local, or choose fixed_window or sliding_log"
        if limit.slots or limit.conservative:
            hint = "write exact, or choose fixed_window or sliding_log"
        yield Finding(path, message, hint)
        return
    words = [word for word in ("count_denied", "request_override") if getattr(limit, word)]
    if limit.on_exceed == "shadow":
        words.append("on_exceed: shadow")
    for other in words:
        message = f"consistency: {word} does not go with {other}"
        yield Finding(path, message, "write exact")


def _check_slots(limit: Limit, path: Path) -> Iterator[Finding]:
    """What belongs to a sliding window alone."""
    words = [word for word in ("slots", "conservative") if getattr(limit, word)]
    if limit.quota is not None:
        for word in words:
            message = f"{word} has no meaning for a quota, which counts calendar periods"
            yield Finding((*path, word), message, "remove it", is_about_key=True)
        return
    if words and limit.algorithm is not Algorithm.SLIDING_WINDOW:
        message = f"{words[0]} belongs to sliding_window alone"
        hint = "remove it, or write algorithm: sliding_window"
        yield Finding((*path, words[0]), message, hint, is_about_key=True)
        return
    if words == ["conservative"] and not limit.rates.is_blocked:
        message = "conservative without slots: steady traffic gets about half of the rate"
        hint = "add slots: 60, which leaves it about 59 of 60"
        yield Finding((*path, "conservative"), message, hint, Severity.WARNING)


def _check_when(limit: Limit, path: Path, check_regex: CheckRegex | None) -> Iterator[Finding]:
    for key, matcher in limit.when.items():
        here = (*path, "when", key)
        if not key:
            yield Finding(here, "a key must not be empty", is_about_key=True)
        if check_regex is None:
            continue
        for pattern in matcher.any:
            wrong = check_regex(pattern.text) if pattern.kind == "regex" else None
            if wrong:
                # Over several lines the first ones draw the pattern, the last one says why.
                reason = wrong.strip().rpartition("\n")[2].removeprefix("error: ").rstrip(".")
                message = f"the regex {quoted(pattern.text)} cannot be used: {reason[:300]}"
                yield Finding(here, message, "the syntax is that of Rust's regex crate")


def _warn_of_missing(limit: Limit, path: Path, tenant_key: str | None) -> Iterator[Finding]:
    """A key that the caller sends, and may leave out, with nothing said about that."""
    if "missing" in limit.model_fields_set or limit.on_exceed == "shadow":
        return
    rates = limit.rates
    known = _FILLED_BY_THE_GATEWAY | {tenant_key} | limit.when.keys()
    loose = [key for key in limit.per if key not in known]
    if loose and (rates.is_stand_in or not rates.is_unlimited):
        keys = " or ".join(map(quoted, loose))
        message = f"leaving out {keys} switches this limit off"
        hint = "say what is meant: missing: shared, deny, or skip where the gateway always sends it"
        yield Finding((*path, "per"), message, hint, Severity.WARNING)


def _warn_of_costs(limit: Limit, path: Path) -> Iterator[Finding]:
    """Costs that can never pass, where that can be seen."""
    rates = sorted(limit.rates.items, key=lambda rate: rate.period_s)
    for short, long in pairwise(rates):
        if 0 < long.n <= short.n:
            message = f"{short} can never be used up: {long} allows no more in a longer time"
            field = "rate" if limit.quota is None else "quota"
            yield Finding((*path, field), message, "remove the first", Severity.WARNING)
    is_window = limit.algorithm.is_window or limit.quota is not None
    if limit.counts == "requests" or is_window or limit.rates.is_blocked:
        return
    for rate in rates:
        size = limit.burst or (of_preset(limit.preset, rate.n) if limit.preset else rate.n)
        if size == 1:
            message = f"a cost of 2 {printable(limit.counts)} or more can never pass: capacity is 1"
            field = "burst" if limit.burst else "preset" if limit.preset else "rate"
            yield Finding((*path, field), message, "write a larger burst", Severity.WARNING)
