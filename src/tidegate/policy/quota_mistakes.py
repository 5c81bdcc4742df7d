"""Says what is wrong with a text that is no quota, where, and what was probably meant."""

from __future__ import annotations

import re
from fractions import Fraction

from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rate_mistakes import Words, amount, found_at, rest
from tidegate.policy.rates import RateError, RateProblem, parse_rates
from tidegate.policy.units import MAX_COUNT, QUOTA_UNITS, UNIT_SECONDS

_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}
_FRACTION = re.compile(
    r"\s*([0-9]{1,18}\.[0-9]{1,18})([kM]?)\s*(?:/|per(?![A-Za-z]))\s*([A-Za-z]+)\s*"
)
_COUNT = re.compile(r"[+-]?[0-9][0-9.,_]*\s*")
_LETTERS = re.compile(r"[^\W\d_]+")


def explain(part: str, at: int) -> RateProblem:
    """Finds the first mistake of one quota.

    Args:
        part: The text between two `;`.
        at: Where that text begins in the whole.
    """
    found = amount(part, at, _QUOTA)
    if isinstance(found, RateProblem):
        return found
    number, start = found
    count = _COUNT.match(part, start)
    begin = count.end() if count else start
    word = _LETTERS.match(part, begin)
    if word is None:
        message = f"expected a calendar period, {found_at(part, begin)}"
        return RateProblem(at + begin, message, f"write {number}/month")
    unit = QUOTA_UNITS.get(word[0])
    if unit is None:
        return RateProblem(at + begin, *_no_unit(word[0], part.strip()))
    if count:
        hint = f"say how many in one {unit}"
        if _is_rate(part):
            hint = f"write rate: {part.strip()}, or {hint}"
        return RateProblem(at + start, "a quota counts single calendar periods", hint)
    end = word.end()
    if part[end:].strip().startswith("burst"):
        place = at + end + len(part[end:]) - len(part[end:].lstrip())
        return RateProblem(place, "a quota has no burst", "remove it")
    return rest(part, at, end, _QUOTA.noun)


def _no_unit(word: str, part: str) -> tuple[str, str]:
    if word in UNIT_SECONDS:
        hint = f"write rate: {part}" if _is_rate(part) else _PERIODS
        return f"{quoted(word)} is no calendar period", hint
    hint = did_you_mean(word.lower(), (name for name in QUOTA_UNITS if len(name) > 2))
    return f"unknown period {quoted(word)}", hint if hint.startswith("did you mean") else _PERIODS


def _is_rate(part: str) -> bool:
    try:
        parse_rates(part, is_burst_allowed=False)
    except RateError:
        return False
    return True


def _fraction(part: str, at: int) -> RateProblem:
    hint = "choose a whole number"
    match = _FRACTION.fullmatch(part)
    if match and match[3] in QUOTA_UNITS:
        n = Fraction(match[1]) * _SCALES[match[2]]
        if n.denominator == 1 and n <= MAX_COUNT:
            hint = f"write {n}/{QUOTA_UNITS[match[3]]}, which is the same"
    return RateProblem(at, "numbers are whole", hint)


_PERIODS = "periods: hour, day, week, month, year"
_QUOTA = Words("quota", "write it as 5M/month", "{}/month", "month", _fraction)
