"""The grammar of rates: `N/unit`, `N per [M] unit`, several joined by `;`.

The same text is read in policy files and in Python, where `burst B` may follow each rate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.policy.problems import quoted
from tidegate.policy.units import MAX_COUNT, MAX_PERIOD_S, UNIT_SECONDS, spell_period

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST_TEXT = 1000
_LONGEST_NUMBER = 20
_SCALES = {"": 1, "k": 1_000, "M": 1_000_000}

_RATE = re.compile(
    r"\s*(?P<n>[0-9]+)(?P<scale>[kM]?)\s*(?:/|per(?![A-Za-z]))"
    r"\s*(?:(?P<m>[0-9]+)\s*)?(?P<unit>[a-z]+)"
    r"(?:\s+burst\s+(?P<burst>[0-9]+)(?P<burst_scale>[kM]?))?\s*"
)
_COUNT = re.compile(r"\s*([0-9]+)([kM]?)\s*")


@dataclass(frozen=True, slots=True)
class Rate:
    """N units of cost in each period of whole seconds; `burst` only where the text says it.

    Of a quota, `unit` names the calendar period, and `period_s` is the length that stands for it.
    """

    n: int
    period_s: int
    burst: int | None = None
    unit: str = ""

    def __str__(self) -> str:
        if self.unit:
            return f"{self.n}/{self.unit}"
        burst = "" if self.burst is None else f" burst {self.burst}"
        return f"{self.n}{spell_period(self.period_s)}{burst}"


@dataclass(frozen=True, slots=True)
class Rates:
    """All rates of one limit; none of them means `unlimited`."""

    items: tuple[Rate, ...]
    is_stand_in: bool = False
    """Stands where an unreadable rate was, while the rest of the file is checked."""

    @property
    def is_unlimited(self) -> bool:
        """Whether everything passes."""
        return not self.items

    @property
    def is_quota(self) -> bool:
        """Whether it counts calendar periods."""
        return any(rate.unit for rate in self.items)

    @property
    def is_blocked(self) -> bool:
        """Whether nothing passes."""
        return any(rate.n == 0 for rate in self.items)

    def __str__(self) -> str:
        return "; ".join(map(str, self.items)) or "unlimited"


UNLIMITED = Rates(())
UNREADABLE = Rates((), is_stand_in=True)


@dataclass(frozen=True, slots=True)
class RateProblem:
    """What is wrong with a text, at which of its characters, and the fix."""

    position: int
    message: str
    hint: str


class RateError(ConfigError):
    """A rate or quota that cannot be read; carries every problem of the text."""

    def __init__(self, text: str, problems: Sequence[RateProblem], noun: str = "rate") -> None:
        first = problems[0]
        super().__init__(
            f"{noun} {quoted(text)}: {first.message}", hint=first.hint, position=first.position
        )
        self.text = text
        self.problems = tuple(problems)
        self.noun = noun

    def __reduce__(self) -> tuple[type[RateError], tuple[str, tuple[RateProblem, ...], str]]:
        return (RateError, (self.text, self.problems, self.noun))


def parse_rates(text: str, *, is_burst_allowed: bool = True) -> Rates:
    """Reads a rate.

    Args:
        text: Such as `100/min`, `5 per 2 minutes; 10k/day` or `unlimited`.
        is_burst_allowed: Whether `burst B` may follow a rate; in YAML it is a field of its own.

    Raises:
        RateError: with all problems, each with its position.
    """
    return parse_joined(text, lambda part, at: _read_one(part, at, is_burst_allowed))


def parse_joined(
    text: str,
    read_one: Callable[[str, int], Rate | RateProblem],
    noun: str = "rate",
    blocking: str = "0/s",
) -> Rates:
    """Reads what is joined by `;`, each part by `read_one` with the place where it begins.

    Args:
        text: What is written.
        read_one: Reads a part.
        noun: What a part is, for errors.
        blocking: One that lets nothing pass, for errors.

    Raises:
        RateError: with all problems, each with its position.
    """
    if len(text) > _LONGEST_TEXT:
        problem = RateProblem(_LONGEST_TEXT, f"longer than {_LONGEST_TEXT} characters", "")
        raise RateError(text, [problem], noun)
    if text.strip() == "unlimited":
        return UNLIMITED
    problems: list[RateProblem] = []
    rates: list[Rate] = []
    at = 0
    for part in text.split(";"):
        found = read_one(part, at)
        if isinstance(found, Rate):
            clash = _clash(found, rates, at + len(part) - len(part.lstrip()), noun)
            rates.append(found)
        else:
            clash = found
        if clash is not None:
            problems.append(clash)
        at += len(part) + 1
    if not problems and len(rates) > 1 and any(rate.n == 0 for rate in rates):
        message = f"a {noun} of 0 blocks, so it stands alone"
        problems.append(RateProblem(0, message, f'write "{blocking}"'))
    if problems:
        raise RateError(text, problems, noun)
    return Rates(tuple(rates))


def parse_count(text: str) -> int:
    """Reads a number such as `200`, `10k` or `1M`, from 1 to below 2^53.

    Raises:
        ConfigError: with the fix as hint.
    """
    match = _COUNT.fullmatch(text)
    if match is None:
        near = re.fullmatch(r"\s*([0-9]+)\s*([kKmM])\s*", text)
        scale = {"K": "k", "m": "M"}.get(near[2], near[2]) if near else ""
        hint = f"did you mean {near[1]}{scale}?" if near else "write a whole number, such as 200"
        raise ConfigError(f"{quoted(text)} is no whole number", hint=hint, position=0)
    value = read_number(match[1], match[2])
    if not 1 <= value <= MAX_COUNT:
        raise ConfigError(
            f"{quoted(text)} is out of bounds", hint="allowed: 1 to 2^53 - 1", position=0
        )
    return value


def read_number(digits: str, scale: str) -> int:
    """A number as it is written: digits, and nothing, k or M behind them."""
    if len(digits) > _LONGEST_NUMBER:
        digits = digits.lstrip("0")[: _LONGEST_NUMBER + 1] or "0"
    return int(digits) * _SCALES[scale]


def _read_one(part: str, at: int, is_burst_allowed: bool) -> Rate | RateProblem:
    match = _RATE.fullmatch(part)
    if match is None or match["unit"] not in UNIT_SECONDS:
        # Imported here: explaining mistakes is a file of its own, and only mistakes need it.
        from tidegate.policy.rate_mistakes import explain  # noqa: PLC0415

        return explain(part, at)
    n = read_number(match["n"], match["scale"])
    period_s = read_number(match["m"] or "1", "") * UNIT_SECONDS[match["unit"]]
    if n > MAX_COUNT:
        return RateProblem(at + match.start("n"), "the number is 2^53 or more", "use a smaller one")
    if not 1 <= period_s <= MAX_PERIOD_S:
        place = at + match.start("m" if match["m"] else "unit")
        return RateProblem(place, "the period is out of bounds", "allowed: 1 second to 366 days")
    if match["burst"] is None:
        return Rate(n, period_s)
    burst = read_number(match["burst"], match["burst_scale"])
    wrong = _burst_problem(n, burst, is_burst_allowed)
    return RateProblem(at + match.start("burst"), *wrong) if wrong else Rate(n, period_s, burst)


def _burst_problem(n: int, burst: int, is_burst_allowed: bool) -> tuple[str, str] | None:
    if not is_burst_allowed:
        return "burst is a field of its own here", f"write burst: {burst}"
    if n == 0:
        return "a rate of 0 blocks, so it has no burst", "leave it out"
    if not 1 <= burst <= MAX_COUNT:
        return "burst is out of bounds", "allowed: 1 to 2^53 - 1"
    return None


def _clash(rate: Rate, earlier: list[Rate], at: int, noun: str) -> RateProblem | None:
    """Two with one period would be one counter with two limits."""
    for other in earlier:
        if other.period_s == rate.period_s:
            smaller = min(rate.n, other.n)
            return RateProblem(
                at,
                f"two {noun}s have the same period",
                f"keep one of them: {replace(rate, n=smaller, burst=None)} is the stricter",
            )
    return None
