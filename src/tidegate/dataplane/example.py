"""A request worth trying against a policy: one that meets a limit of it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate.policy.document import Document, Domain, Limit
    from tidegate.policy.matchers import Matcher

_SAMPLES = {"tenant": "acme", "ip": "203.0.113.7", "remote_address": "203.0.113.7", "user": "ada"}


@dataclass(frozen=True, slots=True)
class Example:
    """A request: a domain and one descriptor."""

    domain: str
    descriptor: dict[str, str]

    def curl(self, url: str) -> str:
        """The request as a curl line."""
        body = json.dumps(
            {"domain": self.domain, "descriptors": [self.descriptor]},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        # Without the type curl says that it sends a form, which the service refuses to guess at.
        typed = "-H content-type:application/json"
        return f"curl -s {typed} -d {shlex.quote(body)} {url}/v1/check"

    def hit(self) -> str:
        """The request as a command of ours."""
        pairs = [shlex.quote(f"{key}={value}") for key, value in self.descriptor.items()]
        return " ".join(["tidegate hit", shlex.quote(self.domain), *pairs])


def example_of(document: Document) -> Example | None:
    """The request that says most: one that meets a limit with conditions, else any limit."""
    found: list[tuple[int, Example]] = []
    for name, domain in document.domains.items():
        for limit in domain.limits:
            descriptor = _descriptor(domain, limit)
            if descriptor and limit.counts == "requests":
                found.append((len(limit.when), Example(name, descriptor)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _descriptor(domain: Domain, limit: Limit) -> dict[str, str] | None:
    descriptor: dict[str, str] = {}
    for key in limit.per:
        is_tenant = key == domain.tenant_key
        known = next(iter(domain.tenants), None) if is_tenant else None
        descriptor[key] = known or _SAMPLES.get(key, f"{key}-1")
    for key, matcher in limit.when.items():
        value = _value(matcher)
        if value is None:
            return None
        descriptor[key] = value
    return descriptor


def _value(matcher: Matcher) -> str | None:
    """A value that matches, where one can be read off the pattern."""
    if matcher.is_negated:
        return None
    for pattern in matcher.any:
        if pattern.kind in {"exact", "prefix"} and pattern.text:
            return pattern.text
    return None
