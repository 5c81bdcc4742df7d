"""Says what is wrong with a text that is no rate, where, and what was probably meant."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.policy.problems import did_you_mean, quoted
from tidegate.policy.rates import Rate, RateProblem
from tidegate.policy.units import CALENDAR_UNITS, MAX_COUNT, MAX_PERIOD_S, UNIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLE = "write it as 100/min or 5 per 15min"
_NUMBER = re.compile(r"\s*([+-]?)([0-9][0-9_.,]*)")
_LETTERS = re.compile(r"[^\W\d_]+")
_SCALE_FIXES = {"K": "k", "m": "M", "G": "000M", "g": "000M", "kk": "M", "mm": "M", "mil": "M"}
_FRACTION = re.compile(
    r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)([kM]?)\s*(?:/|per(?![A-Za-z]))"
    r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)?\s*([a-z]+)\s*"
)
_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}


@dataclass(frozen=True, slots=True)
class Words:
    """How mistakes in a number, and what follows it, are told of a rate, or of a quota.

    Args:
        noun: What it is.
        example: The fix where nothing of it can be read.
        forms: How it may be written, with `{}` for the number.
        unit: A period.
        fraction: Explains a number that is not whole, from the text and its place.
    """

    noun: str
    example: str
    forms: str
    unit: str
    fraction: Callable[[str, int], RateProblem]


def explain(part: str, at: int) -> RateProblem:
    """Finds the first mistake of one rate.

    Args:
        part: The text between two `;`.
        at: Where that text begins in the whole.
    """
    found = amount(part, at, RATE)
    return found if isinstance(found, RateProblem) else _period(part, at, *found)


def amount(part: str, at: int, words: Words) -> RateProblem | tuple[str, int]:
    """Finds the first mistake before the period; if there is none, the number and what follows.

    Returns:
        The number as it is written, and where in `part` the period begins.
    """
    number = _NUMBER.match(part)
    if number is None:
        return _no_number(part, at, words)
    start, end = number.start(1), number.end()
    if number[1] == "-":
        message = f"a {words.noun} cannot be negative"
        return RateProblem(at + start, message, f"0/{words.unit} blocks")
    if number[1] == "+":
        return RateProblem(at + start, "a number has no sign", f"write {number[2]}")
    if re.fullmatch(r"[0-9]+(?:[_,][0-9]+)+", number[2]):
        digits = re.sub("[_,]", "", number[2])
        return RateProblem(at + start, "a number is digits alone", f"did you mean {digits}?")
    if not number[2].isdigit():
        return words.fraction(part, at + start)
    return _after_number(part, at, number[2], end, words)


def rest(part: str, at: int, end: int, noun: str) -> RateProblem:
    """What is wrong with `part[end:]`, which follows a whole rate or quota."""
    found = part[end:].strip()
    place = at + end + len(part[end:]) - len(part[end:].lstrip())
    if found[:1] in {",", "|", "&", "+"}:
        return RateProblem(place, f"{quoted(found[0])} does not join {noun}s", 'join them by ";"')
    return RateProblem(place, f"unexpected {quoted(found)} after the {noun}", "remove it")


def _no_number(part: str, at: int, words: Words) -> RateProblem:
    word = part.strip()
    start = at + len(part) - len(part.lstrip())
    if not word:
        return RateProblem(at, f"a {words.noun} is missing here", words.example)
    if word == "unlimited":
        return RateProblem(start, "unlimited stands alone", f"remove the other {words.noun}s")
    if word.lower() in {"unlimited", "none", "inf", "infinite", "no limit", "unlimted"}:
        return RateProblem(start, f"{quoted(word)} is no {words.noun}", "did you mean unlimited?")
    return RateProblem(start, f"expected a number, found {quoted(word)}", words.example)


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


def _after_number(
    part: str, at: int, number: str, end: int, words: Words
) -> RateProblem | tuple[str, int]:
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
        place = at + end + len(part[end:]) - len(part[end:].lstrip())
        message = f'expected "/" or "per" after the number, {found_at(part, end)}'
        return RateProblem(place, message, f"write {words.forms.replace('{}', number)}")
    return number, end + separator.end()


def found_at(part: str, at: int) -> str:
    """What stands from there on, in words."""
    found = part[at:].strip()
    return f"found {quoted(found)}" if found else "found the end"


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
        message = f"expected a unit of time, {found_at(part, begin)}"
        return RateProblem(at + begin, message, f"write {number}/min")
    unit = word[0]
    if unit not in UNIT_SECONDS:
        return _unit(unit, at + begin)
    if part[word.end() :].strip().startswith("burst"):
        end = word.end()
        place = at + end + len(part[end:]) - len(part[end:].lstrip())
        return RateProblem(place, f"{quoted(part[end:].strip())} is no burst", "write burst 20")
    return rest(part, at, word.end(), RATE.noun)


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


RATE = Words("rate", _EXAMPLE, "{}/min or {} per 15min", "min", _fraction)
