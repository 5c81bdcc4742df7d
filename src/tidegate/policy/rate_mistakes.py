"""Says what is wrong with a text that is no rate, where, and what was probably meant."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rates import Rate, RateProblem
from tidegate.policy.units import CALENDAR_UNITS, MAX_COUNT, MAX_PERIOD_S, UNIT_SECONDS

_EXAMPLE = "write it as 100/min or 5 per 15min"
_NUMBER = re.compile(r"\s*([+-]?)([0-9][0-9_.,]*)")
_LETTERS = re.compile(r"[^\W\d_]+")
_SCALE_FIXES = {"K": "k", "m": "M", "G": "000M", "g": "000M", "kk": "M", "mm": "M", "mil": "M"}
_FRACTION = re.compile(
    r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)([kM]?)\s*(?:/|per(?![A-Za-z]))"
    r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)?\s*([a-z]+)\s*"
)
_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}


def explain(part: str, at: int) -> RateProblem:
    """Finds the first mistake of one rate.

    Args:
        part: The text between two `;`.
        at: Where that text begins in the whole.
    """
    number = _NUMBER.match(part)
    if number is None:
        return _no_number(part, at)
    start, end = number.start(1), number.end()
    if number[1] == "-":
        return RateProblem(at + start, "a rate cannot be negative", "0/min blocks")
    if number[1] == "+":
        return RateProblem(at + start, "a number has no sign", f"write {number[2]}")
    if re.fullmatch(r"[0-9]+(?:[_,][0-9]+)+", number[2]):
        digits = re.sub("[_,]", "", number[2])
        return RateProblem(at + start, "a number is digits alone", f"did you mean {digits}?")
    if not number[2].isdigit():
        return _fraction(part, at + start)
    return _after_number(part, at, number[2], end)


def _no_number(part: str, at: int) -> RateProblem:
    word = part.strip()
    start = at + len(part) - len(part.lstrip())
    if not word:
        return RateProblem(at, "a rate is missing here", _EXAMPLE)
    if word == "unlimited":
        return RateProblem(start, "unlimited stands alone", "remove the other rates")
    if word.lower() in {"unlimited", "none", "inf", "infinite", "no limit", "unlimted"}:
        return RateProblem(start, f"{quoted(word)} is no rate", "did you mean unlimited?")
    return RateProblem(start, f"expected a number, found {quoted(word)}", _EXAMPLE)


def _fraction(part: str, at: int) -> RateProblem:
    fix = ""
    match = _FRACTION.fullmatch(part)
    if match and match[4] in UNIT_SECONDS:
        whole = _whole(
            Fraction(match[1]) * _SCALES[match[2]],
            Fraction(match[3] or 1) * UNIT_SECONDS[match[4]],
        )
        fix = f"write {whole}, which is the same" if whole else ""
    return RateProblem(at, "numbers are whole", fix or "choose a longer period, such as 3 per 2s")


def _whole(n: Fraction, period_s: Fraction) -> Rate | None:
    """The same rate in whole numbers, if one lies within the bounds."""
    factor = math.lcm(n.denominator, period_s.denominator)
    rate = Rate(int(n * factor), int(period_s * factor))
    fits = rate.n <= MAX_COUNT and 1 <= rate.period_s <= MAX_PERIOD_S
    return rate if fits else None


def _after_number(part: str, at: int, number: str, end: int) -> RateProblem:
    """`part[end:]` follows the digits: a scale, then `/` or `per`."""
    letters = _LETTERS.match(part, end)
    if letters and letters[0] != "per":
        word = letters[0]
        if word not in {"k", "M"}:
            known = _SCALE_FIXES.get(word)
            hint = f"did you mean {number}{known}?" if known else "k and M are the only ones"
            return RateProblem(at + end, f"{quoted(word)} is no multiplier", hint)
        end = letters.end()
        number += word
    apart = re.match(r"\s+([kKmM])(?![A-Za-z])", part[end:])
    if apart:
        scale = {"K": "k", "m": "M"}.get(apart[1], apart[1])
        place = at + end + apart.start(1)
        message = f"{quoted(apart[1])} stands right after the number"
        return RateProblem(place, message, f"did you mean {number}{scale}?")
    separator = re.match(r"\s*(?:/|per(?![A-Za-z]))\s*", part[end:])
    if separator is None:
        rest = part[end:].strip()
        place = at + end + len(part[end:]) - len(part[end:].lstrip())
        found = f"found {quoted(rest)}" if rest else "found the end"
        hint = f"write {number}/min or {number} per 15min"
        return RateProblem(place, f'expected "/" or "per" after the number, {found}', hint)
    return _period(part, at, number, end + separator.end())


def _period(part: str, at: int, number: str, start: int) -> RateProblem:
    """`part[start:]` follows the `/` or `per`."""
    count = re.match(r"([+-]?[0-9][0-9.,_]*)\s*", part[start:])
    if count and not count[1].isdigit():
        if re.fullmatch(r"[0-9]+\.[0-9]+", count[1]):
            return _fraction(part, at + start)
        return RateProblem(at + start, "a number is digits alone", _EXAMPLE)
    begin = start + (count.end() if count else 0)
    word = _LETTERS.match(part, begin)
    if word is None:
        rest = part[begin:].strip()
        found = f"found {quoted(rest)}" if rest else "found the end"
        return RateProblem(at + begin, f"expected a unit of time, {found}", f"write {number}/min")
    unit = word[0]
    if unit not in UNIT_SECONDS:
        return _unit(unit, at + begin)
    return _rest(part, at, word.end())


def _unit(unit: str, at: int) -> RateProblem:
    if unit.lower() in CALENDAR_UNITS:
        hint = "write quota: for months of the calendar, or a fixed length, such as per 30d"
        return RateProblem(at, f"{quoted(unit)} has no fixed length: it is a calendar period", hint)
    if unit in {"ms", "us", "ns", "millisecond", "milliseconds"}:
        return RateProblem(at, "periods are whole seconds, at least 1", "write 1000/s for 1/ms")
    if unit.lower() in UNIT_SECONDS:
        hint = f"did you mean {quoted(unit.lower())}?"
        return RateProblem(at, f"unknown unit {quoted(unit)}: units are lower case", hint)
    hint = did_you_mean(unit, (name for name in UNIT_SECONDS if len(name) > 1))
    return RateProblem(at, f"unknown unit {quoted(unit)}", hint or "units: s, min, h, day, week")


def _rest(part: str, at: int, end: int) -> RateProblem:
    rest = part[end:].strip()
    place = at + end + len(part[end:]) - len(part[end:].lstrip())
    if rest[:1] in {",", "|", "&", "+"}:
        return RateProblem(place, f"{quoted(rest[0])} does not join rates", 'join them by ";"')
    if rest.startswith("burst"):
        return RateProblem(place, f"{quoted(rest)} is no burst", "write burst 20")
    return RateProblem(place, f"unexpected {quoted(rest)} after the rate", "remove it")
