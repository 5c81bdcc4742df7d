"""Bounds of numbers and the names of periods."""

from __future__ import annotations

MAX_COUNT = 2**53 - 1
"""The largest N or burst: every count below is exact in the stores."""

MAX_PERIOD_S = 366 * 86_400
MAX_LOG_ENTRIES = 100_000
MANY_LOG_ENTRIES = 10_000
LOG_ENTRY_BYTES = 16
"""Time and cost of one admitted request in a sliding log."""

LEAST_SLOTS = 2
MOST_SLOTS = 60
"""Parts of a sliding window: a counter of 60 takes 497 bytes in a store."""

_NAMES = {
    1: ("s", "sec", "secs", "second", "seconds"),
    60: ("m", "min", "mins", "minute", "minutes"),
    3_600: ("h", "hr", "hrs", "hour", "hours"),
    86_400: ("d", "day", "days"),
    604_800: ("w", "week", "weeks"),
}
UNIT_SECONDS = {name: seconds for seconds, names in _NAMES.items() for name in names}
QUOTA_SECONDS = {
    "hour": 3_600,
    "day": 86_400,
    "week": 604_800,
    "month": 30 * 86_400,
    "year": 365 * 86_400,
}
"""Calendar periods, and the length by which each is known where one is needed: they differ."""

_QUOTA_NAMES = {
    "hour": ("h", "hr", "hour", "hours"),
    "day": ("d", "day", "days"),
    "week": ("w", "week", "weeks"),
    "month": ("mo", "mon", "mth", "month", "months"),
    "year": ("y", "yr", "year", "years"),
}
QUOTA_UNITS = {name: unit for unit, names in _QUOTA_NAMES.items() for name in names}
CALENDAR_UNITS = frozenset(_QUOTA_NAMES["month"] + _QUOTA_NAMES["year"])
_SHORT = ((604_800, "week"), (86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


def spell_period(seconds: int) -> str:
    """The tail of a rate: `/min`, or ` per 15min` for a multiple."""
    for size, name in _SHORT:
        if seconds % size == 0:
            count = seconds // size
            return f"/{name}" if count == 1 else f" per {count}{name}"
    raise ValueError(seconds)
