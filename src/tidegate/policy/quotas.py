"""The grammar of quotas: `N/unit` with a calendar period, several joined by `;`."""

from __future__ import annotations

import re

from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rates import Rate, RateProblem, Rates, parse_joined, read_number
from tidegate.policy.units import MAX_COUNT, QUOTA_SECONDS, QUOTA_UNITS, UNIT_SECONDS

_QUOTA = re.compile(
    r"\s*(?P<n>[0-9]+)(?P<scale>[kM]?)\s*(?:/|per(?![A-Za-z]))"
    r"\s*(?:(?P<m>[0-9]+)\s*)?(?P<unit>[A-Za-z]+)\s*"
)


def parse_quota(text: str) -> Rates:
    """Reads a quota.

    Args:
        text: Such as `5M/month`, `500k/day; 5M/month`, `0/year` or `unlimited`.

    Raises:
        RateError: with all problems, each with its position.
    """
    return parse_joined(text, _read_one)


def _read_one(part: str, at: int) -> Rate | RateProblem:
    match = _QUOTA.fullmatch(part)
    if match is None:
        # Imported here: explaining mistakes is a file of its own, and only mistakes need it.
        from tidegate.policy.rate_mistakes import explain  # noqa: PLC0415

        found = explain(part, at)
        return RateProblem(found.position, found.message, found.hint.replace("/min", "/month"))
    unit = QUOTA_UNITS.get(match["unit"])
    place = at + match.start("unit")
    if unit is None:
        return RateProblem(place, *_no_unit(match["unit"], part.strip()))
    if match["m"] is not None:
        hint = f"write {match['n']}{match['scale']}/{unit}, or a rate, which counts any length"
        return RateProblem(at + match.start("m"), "a quota counts single calendar periods", hint)
    n = read_number(match["n"], match["scale"])
    if n > MAX_COUNT:
        return RateProblem(at + match.start("n"), "the number is 2^53 or more", "use a smaller one")
    return Rate(n, QUOTA_SECONDS[unit], unit=unit)


def _no_unit(word: str, part: str) -> tuple[str, str]:
    if word in UNIT_SECONDS:
        return f"{quoted(word)} is no calendar period", f"write rate: {part}"
    hint = did_you_mean(word.lower(), (name for name in QUOTA_UNITS if len(name) > 2))
    known = "periods: hour, day, week, month, year"
    return f"unknown period {quoted(word)}", hint if hint.startswith("did you mean") else known
