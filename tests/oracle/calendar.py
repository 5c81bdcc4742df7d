"""Calendar periods by looking at a clock on the wall: slow, plain, and without any table."""

from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import lru_cache

from tests.oracle.model import SECOND
from tidegate.policy.zones import load_zone

STEP = 900
"""Every change of a clock since 1973 lies on a quarter of an hour."""

UNITS = {3_600: "hour", 86_400: "day", 604_800: "week", 2_592_000: "month", 31_536_000: "year"}

Ends = tuple[int, int, int]


def around(zone: str, unit: str, now_us: int) -> Ends:
    """Begin and end of the period that holds a moment, and the end of the next; microseconds."""
    now = now_us // SECOND
    begin, end, following = _hours(zone, now) if unit == "hour" else _dates(zone, unit, now)
    return begin * SECOND, end * SECOND, following * SECOND


def wall(zone: str, instant: int) -> datetime:
    """What a clock shows."""
    return datetime.fromtimestamp(instant, load_zone(zone)).replace(tzinfo=None)


@lru_cache(maxsize=10_000)
def start_of(zone: str, day: date) -> int:
    """The first moment at which the clock shows this day's midnight or something later."""
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  what a clock shows
    instant = int((midnight - datetime(1970, 1, 1)).total_seconds()) - 16 * 3600  # noqa: DTZ001
    while wall(zone, instant) < midnight:
        instant += STEP
    return instant


def _dates(zone: str, unit: str, now: int) -> Ends:
    begin = _begin(unit)(wall(zone, now).date())
    if start_of(zone, begin) > now:  # an hour before midnight that the clock shows again
        begin = _begin(unit)(begin - timedelta(days=1))
    if start_of(zone, _next(unit, begin)) <= now:  # the same, after the first midnight of two
        begin = _next(unit, begin)
    end = _next(unit, begin)
    return start_of(zone, begin), start_of(zone, end), start_of(zone, _next(unit, end))


def _begin(unit: str) -> Callable[[date], date]:
    return {
        "day": lambda day: day,
        "week": lambda day: day - timedelta(days=day.isocalendar().weekday - 1),
        "month": lambda day: day.replace(day=1),
        "year": lambda day: day.replace(month=1, day=1),
    }[unit]


def _next(unit: str, begin: date) -> date:
    longest = {"day": 1, "week": 7, "month": 31, "year": 366}[unit]
    return _begin(unit)(begin + timedelta(days=longest))


def _hours(zone: str, now: int) -> Ends:
    def is_start(instant: int) -> bool:
        shown, before = wall(zone, instant), wall(zone, instant - 1)
        return shown.minute == 0 or shown.replace(minute=0) > before

    def following(instant: int) -> int:
        instant += STEP
        while not is_start(instant):
            instant += STEP
        return instant

    begin = now - now % STEP
    while not is_start(begin):
        begin -= STEP
    return begin, following(begin), following(following(begin))
