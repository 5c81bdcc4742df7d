"""The grammar of quotas: `N/unit` with a calendar period, several joined by `;`."""

from __future__ import annotations

import re

from tidegate.policy.rates import Rate, RateProblem, Rates, parse_joined, read_number
from tidegate.policy.units import MAX_COUNT, QUOTA_SECONDS, QUOTA_UNITS

_QUOTA = re.compile(
    r"\s*(?P<n>[0-9]+)(?P<scale>[kM]?)\s*(?:/|per(?![A-Za-z]))"
    r"\s*(?P<unit>[A-Za-z]+)\s*"
)


def parse_quota(text: str) -> Rates:
    """Reads a quota.

    Args:
        text: Such as `5M/month`, `500k/day; 5M/month`, `0/year` or `unlimited`.

    Raises:
        RateError: with all problems, each with its position.
    """
    return parse_joined(text, _read_one, "quota", "0/month")


def _read_one(part: str, at: int) -> Rate | RateProblem:
    match = _QUOTA.fullmatch(part)
    unit = QUOTA_UNITS.get(match["unit"]) if match else None
    if match is None or unit is None:
        # Imported here: explaining mistakes is a file of its own, and only mistakes need it.
        from tidegate.policy.quota_mistakes import explain  # noqa: PLC0415

        return explain(part, at)
    n = read_number(match["n"], match["scale"])
    if n > MAX_COUNT:
        return RateProblem(at + match.start("n"), "the number is 2^53 or more", "use a smaller one")
    return Rate(n, QUOTA_SECONDS[unit], unit=unit)
