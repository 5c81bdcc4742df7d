"""A decision as a person reads it: each limit, how full it is, who denied and why."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, cast

from tidegate.errors import InternalError
from tidegate.policy.problems import quoted

if TYPE_CHECKING:
    from typing import TextIO

_BAR = 20
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_GREEN, _RED, _DIM, _PLAIN = "\033[32m", "\033[31m", "\033[2m", "\033[0m"


class LimitLine(TypedDict):
    """What is said of one limit."""

    id: str
    allowed: bool
    limit: int
    remaining: int
    reset_ms: int
    window_ms: int
    shadow: bool


class Answer(TypedDict):
    """A decision as every door says it."""

    allowed: bool
    reason: str
    retry_after_ms: int | None
    decision_id: str
    revision: str
    degraded: bool
    binding: int | None
    limits: list[LimitLine]


@dataclass(frozen=True, slots=True)
class Style:
    """What the terminal can show."""

    has_colour: bool = False
    has_blocks: bool = True

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """Colours only on a terminal that wants them; blocks only where they can be encoded."""
        is_asked_off = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        try:
            "█░".encode(stream.encoding or "ascii")
            has_blocks = True
        except (UnicodeEncodeError, LookupError):
            has_blocks = False
        return cls(stream.isatty() and not is_asked_off, has_blocks)

    def paint(self, text: str, colour: str) -> str:
        """The text in a colour."""
        return f"{colour}{text}{_PLAIN}" if self.has_colour else text


def read_answer(document: dict[str, object]) -> Answer:
    """Takes the JSON of a decision for what it is.

    Raises:
        InternalError: if it has another form.
    """
    answer = cast("Answer", document)
    limits = answer.get("limits")
    is_whole = Answer.__required_keys__ <= answer.keys() and isinstance(limits, list)
    if not is_whole or any(not LimitLine.__required_keys__ <= row.keys() for row in limits):
        raise InternalError("what answered is no decision of this version's form")
    return answer


def page(domain: str, descriptor: dict[str, str], answer: Answer, style: Style) -> str:
    """The whole decision."""
    asked = " ".join(_plain(f"{key}={value}") for key, value in descriptor.items())
    lines = [f"{_verdict(answer, style)}  {_plain(domain)}  {asked}"]
    width = max((len(_plain(limit["id"])) for limit in answer["limits"]), default=0)
    rates = [_rate(limit, answer) for limit in answer["limits"]]
    widest = max(map(len, rates), default=0)
    for limit, rate in zip(answer["limits"], rates, strict=True):
        told = [_plain(limit["id"]).ljust(width), _bar(limit, answer, style), rate.ljust(widest)]
        lines.append("  ".join(["", *told, *_state(limit, answer, style)]))
    lines += [f"  {text}" for text in _why(domain, answer)]
    return "\n".join(lines)


def line(number: int, count: int, answer: Answer, style: Style) -> str:
    """The decision in one line."""
    place = str(number).rjust(len(str(count)))
    told = ""
    if answer["binding"] is not None:
        limit = answer["limits"][answer["binding"]]
        told = f"  {_bar(limit, answer, style)} {_plain(limit['id'])} {_used(limit, answer)}"
    why = "" if answer["allowed"] else f"  {_reason(answer)}"
    return f"{place}  {_verdict(answer, style)}{told}{why}{_wait(answer)}"


def _verdict(answer: Answer, style: Style) -> str:
    word = style.paint("allowed", _GREEN) if answer["allowed"] else style.paint("denied ", _RED)
    return f"{word} (store away)" if answer["degraded"] else word


def _state(limit: LimitLine, answer: Answer, style: Style) -> list[str]:
    """When the counter is as good as new, and what it says of the request."""
    told: list[str] = []
    if not answer["degraded"]:
        reset = f"unused again in {spell_ms(limit['reset_ms'])}" if limit["reset_ms"] else "unused"
        told.append(style.paint(reset, _DIM))
    if not limit["allowed"]:
        told.append("over, but in shadow" if limit["shadow"] else style.paint("denies", _RED))
    elif limit["shadow"]:
        told.append("in shadow")
    return told


def _rate(limit: LimitLine, answer: Answer) -> str:
    return f"{_used(limit, answer)} per {spell_ms(limit['window_ms'])}"


def _used(limit: LimitLine, answer: Answer) -> str:
    # A counter that was not asked says nothing, and its numbers are no numbers.
    used = "?" if answer["degraded"] else f"{limit['limit'] - limit['remaining']:,}"
    return f"{used} of {limit['limit']:,} used"


def _bar(limit: LimitLine, answer: Answer, style: Style) -> str:
    if answer["degraded"]:
        return style.paint("?" * _BAR, _DIM)
    used = limit["limit"] - limit["remaining"]
    # Rounded so that only an untouched limit looks empty and only a used up one looks full.
    full = -(-used * _BAR // limit["limit"]) if limit["limit"] else _BAR
    if limit["remaining"]:
        full = min(full, _BAR - 1)
    marks = ("█", "░") if style.has_blocks else ("#", ".")
    bar = marks[0] * full + marks[1] * (_BAR - full)
    return style.paint(bar, _GREEN if limit["allowed"] else _RED)


def _why(domain: str, answer: Answer) -> list[str]:
    told: list[str] = []
    if not answer["limits"]:
        told.append(f"no limit of {_plain(domain)} applies to this request")
    if answer["degraded"]:
        told.append("the counter store did not answer: on_store_failure decided")
    if not answer["allowed"]:
        denying = [
            _plain(limit["id"])
            for limit in answer["limits"]
            if not limit["allowed"] and not limit["shadow"]
        ]
        told.append(f"denied by {', '.join(denying)}: {_reason(answer)}{_wait(answer)}")
    return told


def _reason(answer: Answer) -> str:
    limit = answer["limits"][answer["binding"]] if answer["binding"] is not None else None
    capacity = f"{limit['limit']:,}" if limit else "its limit"
    known = {
        "over_limit": "over its limit",
        "cost_exceeds_limit": f"the cost can never pass, the most at once is {capacity}",
        "blocked": "its rate is 0",
        "missing_key": "the request lacks a key that it counts by",
        "store_failure": "the counter store is away, and this limit is closed then",
    }
    return known.get(answer["reason"], answer["reason"])


def _wait(answer: Answer) -> str:
    if answer["allowed"] or answer["retry_after_ms"] is None:
        return ""
    return f"; passes in {spell_ms(answer['retry_after_ms'])}"


def spell_ms(ms: int) -> str:
    """A time in its two largest units: `1 min 5 s`, `12 s`, `350 ms`."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 10_000 and ms % 1_000:
        return f"{ms / 1_000:.1f} s"
    left = -(-ms // 1_000) * 1_000
    told: list[str] = []
    for size, unit in _UNITS:
        if left >= size and len(told) < 2:
            told.append(f"{left // size} {unit}")
            left %= size
        elif told:
            break
    return " ".join(told)


def _plain(text: str) -> str:
    """Without anything that could command a terminal."""
    return quoted(text)[1:-1]
