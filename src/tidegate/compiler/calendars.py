"""Where the periods of a calendar begin, as tables, so that the engine and the store know no zones.

A table is a list of runs `[start, length]` in whole seconds since 1970 UTC: from `start` on,
periods of `length` follow one another until the next run begins, and those of the last run never
end. An hour in UTC is one run; a day in a zone with summer time has some five a year.

A table begins with 2025, since no counter is older, and reaches `YEARS_AHEAD` years past the one in
which it was made. It is made anew in every year, so that a node never comes near its end; past the
end the length of the last period goes on.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from tidegate.policy.zones import UTC as UTC_NAME
from tidegate.policy.zones import load_zone

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from zoneinfo import ZoneInfo

    from tidegate.policy.document import Domain
    from tidegate.policy.rates import Rates

FIRST_YEAR = 2025
YEARS_AHEAD = 10

Run = tuple[int, int]
Json = dict[str, tuple[Run, ...]]

_DAY = timedelta(days=1)
_DAY_S = 86_400
_HOUR_S = 3_600
_ONE_YEAR_BACK = date(FIRST_YEAR - 1, 1, 1)


def year_of(now_s: float) -> int:
    """The year by UTC of a moment, seconds since 1970."""
    return datetime.fromtimestamp(now_s, UTC).year


def start_of_year(year: int) -> int:
    """Its first moment by UTC, seconds since 1970."""
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


@lru_cache(maxsize=256)
def table(zone_name: str, unit: str, year: int) -> tuple[Run, ...]:
    """The runs of one kind of period in one zone.

    Args:
        zone_name: An IANA name.
        unit: hour, day, week, month or year.
        year: In which the table is made.
    """
    zone = load_zone(zone_name)
    last = date(max(year, FIRST_YEAR) + YEARS_AHEAD + 1, 1, 1)
    if unit == "hour":
        return _runs(_hours(zone, start_of_year(_ONE_YEAR_BACK.year), start_of_year(last.year)))
    return _runs(first_instant(zone, day) for day in _first_days(unit, last))


def first_instant(zone: ZoneInfo, day: date) -> int:
    """The first moment of a local date, seconds since 1970.

    Of a midnight that comes twice the first; where none is, the moment to which the clock jumped.
    """
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    instant = int(midnight.timestamp())
    if _shown(zone, instant) == midnight.replace(tzinfo=None):
        return instant
    # The clock jumps over midnight: before that it is behind, from then on it is past it.
    low, high = int(midnight.replace(fold=1).timestamp()), instant
    while low < high:
        middle = (low + high) // 2
        if _shown(zone, middle) > midnight.replace(tzinfo=None):
            high = middle
        else:
            low = middle + 1
    return high


def _shown(zone: ZoneInfo, instant: int) -> datetime:
    """What a clock in the zone shows."""
    return datetime.fromtimestamp(instant, zone).replace(tzinfo=None)


def _first_days(unit: str, last: date) -> Iterator[date]:
    """The local dates on which periods begin, from a year before the first to `last`."""
    day = _ONE_YEAR_BACK
    while day <= last:
        is_first = {
            "day": True,
            "week": day.weekday() == 0,
            "month": day.day == 1,
            "year": day.day == 1 and day.month == 1,
        }
        if is_first[unit]:
            yield day
        day += _DAY


def _hours(zone: ZoneInfo, start: int, end: int) -> Iterator[int]:
    """The moments at which a clock in the zone shows a full hour, or jumps over one.

    An hour that the clock shows twice counts twice; only where a zone moves by half an hour, one of
    its hours is shorter and one longer.
    """
    segments = [*_segments(zone, start, end), (end, 0)]
    before = segments[0][1]
    for (begin, offset), (stop, _) in pairwise(segments):
        local = begin + offset
        if offset > before and local // _HOUR_S > (begin + before - 1) // _HOUR_S:
            yield begin
        yield from range(begin + -local % _HOUR_S, stop, _HOUR_S)
        before = offset


def _segments(zone: ZoneInfo, start: int, end: int) -> Iterator[Run]:
    """Where an offset from UTC begins to hold, and the offset."""
    offset = _offset(zone, start)
    yield start, offset
    for day in range(start, end, _DAY_S):
        low, high = day, min(day + _DAY_S, end)
        if _offset(zone, high) == offset:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if _offset(zone, middle) == offset:
                low = middle
            else:
                high = middle
        offset = _offset(zone, high)
        yield high, offset


def _offset(zone: ZoneInfo, instant: int) -> int:
    shift = datetime.fromtimestamp(instant, zone).utcoffset() or timedelta()
    return shift.days * _DAY_S + shift.seconds


def _runs(starts: Iterable[int]) -> tuple[Run, ...]:
    """Starts as runs of equal lengths. The last start only ends the period before it."""
    runs: list[Run] = []
    for start, end in pairwise(dict.fromkeys(starts)):
        if not runs or runs[-1][1] != end - start:
            runs.append((start, end - start))
    return tuple(runs)


class Calendars:
    """The tables that the quotas of a document need: by zone, and there by unit."""

    def __init__(self, year: int) -> None:
        self._year = year
        self._needed: dict[str, set[str]] = {}

    def add(self, domain: Domain) -> None:
        """Notes what the limits of a domain, its plans and its tenants' overrides count."""
        zones = {
            limit.id: limit.time_zone or UTC_NAME
            for limit in domain.limits
            if limit.quota is not None
        }
        if not zones:
            return
        for limit in domain.limits:
            self._note(zones.get(limit.id), limit.quota)
        for plan in domain.plans.values():
            for limit_id, amount in plan.items():
                self._note(zones.get(limit_id), amount.quota)
        for tenant in domain.tenants.values():
            for override in tenant.overrides:
                self._note(zones.get(override.limit), override.quota)

    def _note(self, zone: str | None, quota: Rates | None) -> None:
        if zone is not None and quota is not None:
            self._needed.setdefault(zone, set()).update(rate.unit for rate in quota.items)

    def json(self) -> dict[str, Json]:
        """As the snapshot holds them."""
        return {
            zone: {unit: table(zone, unit, self._year) for unit in sorted(units)}
            for zone, units in sorted(self._needed.items())
        }
