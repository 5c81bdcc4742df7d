"""The tables of calendars: against a plain model, and the days on which others went wrong."""

import zoneinfo
from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import calendar
from tests.oracle.model import SECOND
from tidegate.compiler import calendars
from tidegate.compiler.calendars import Run, first_instant, table
from tidegate.policy.units import QUOTA_SECONDS
from tidegate.policy.zones import load_zone, zone_names

ODD_ZONES = [
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "America/Los_Angeles",
    "America/Sao_Paulo",
    "America/Havana",  # midnight is missing in spring, and comes twice in autumn
    "Atlantic/Azores",  # the same
    "Asia/Beirut",  # midnight is missing in spring
    "Africa/Casablanca",  # summer time but for Ramadan
    "Australia/Lord_Howe",  # moves by half an hour
    "Asia/Kathmandu",  # 5:45
    "Pacific/Chatham",  # 12:45
    "Pacific/Kiritimati",  # 14:00
    "Antarctica/Troll",  # moves by two hours
]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def period_at(runs: tuple[Run, ...], moment: int) -> Run:
    """Begin and end, as the engine looks them up."""
    begin, length = runs[bisect_right(runs, (moment, 10**12)) - 1]
    begin += (moment - begin) // length * length
    return begin, begin + length


@given(
    st.sampled_from(ODD_ZONES),
    st.sampled_from(sorted(QUOTA_SECONDS)),
    st.integers(at("2025-01-01"), at("2035-12-01")),
)
def test_the_table_says_what_a_clock_on_the_wall_shows(zone: str, unit: str, now: int) -> None:
    begin, end, following = calendar.around(zone, unit, now * SECOND)
    runs = table(zone, unit, 2026)
    assert period_at(runs, now) == (begin // SECOND, end // SECOND)
    assert period_at(runs, end // SECOND) == (end // SECOND, following // SECOND)


@pytest.mark.parametrize("zone", ODD_ZONES)
def test_around_each_change_of_the_clock_the_table_says_what_it_shows(zone: str) -> None:
    for unit in QUOTA_SECONDS:
        runs = table(zone, unit, 2026)
        for begin, _ in runs:
            for moment in range(begin - 7200, begin + 7200, 900):
                if moment < at("2025-01-01") or moment > at("2035-12-01"):
                    continue
                found = calendar.around(zone, unit, moment * SECOND)[:2]
                assert period_at(runs, moment) == tuple(one // SECOND for one in found)


@pytest.mark.parametrize("unit", sorted(QUOTA_SECONDS))
def test_every_zone_has_tables_in_which_periods_meet(unit: str) -> None:
    some = {"hour": 8, "day": 8}.get(unit, 2)
    for zone in sorted(zone_names())[::some]:
        runs = table(zone, unit, 2026)
        assert runs[0][0] <= at("2024-12-31T10:00")
        assert runs[-1][0] + runs[-1][1] <= at("2037-01-09")
        assert all((b - a) % length == 0 and b > a for (a, length), (b, _) in pairwise(runs))


@pytest.mark.parametrize(
    ("zone", "day", "begin"),
    [
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00"),  # 0:00 to 1:00 was missing
        ("America/Sao_Paulo", date(2019, 2, 17), "2019-02-17T03:00"),  # the hour before came twice
        ("Asia/Beirut", date(2026, 3, 29), "2026-03-28T22:00"),
        ("America/Havana", date(2025, 11, 2), "2025-11-02T04:00"),  # the first of two midnights
        ("Africa/Monrovia", date(1972, 1, 7), "1972-01-07T00:44:30"),  # a gap across midnight
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00"),  # a day that never was
        ("Pacific/Apia", date(2011, 12, 31), "2011-12-30T10:00"),
    ],
)
def test_a_day_begins_at_its_first_moment(zone: str, day: date, begin: str) -> None:
    assert first_instant(load_zone(zone), day) == at(begin)


@pytest.mark.parametrize(
    ("moment", "begin", "end"),
    [
        ("2027-03-31T12:00", "2027-03-01", "2027-04-01"),
        ("2027-04-30T12:00", "2027-04-01", "2027-05-01"),
        ("2027-03-01T00:00", "2027-03-01", "2027-04-01"),
        ("2028-02-29T23:59:59", "2028-02-01", "2028-03-01"),
        ("2027-02-28T23:59:59", "2027-02-01", "2027-03-01"),
        ("2026-12-31T23:59:59", "2026-12-01", "2027-01-01"),
    ],
)
def test_b101_a_month_begins_on_its_first_day_and_ends_with_its_last(
    moment: str, begin: str, end: str
) -> None:
    assert period_at(table("UTC", "month", 2026), at(moment)) == (at(begin), at(end))


def test_b103_weeks_begin_on_monday_and_years_on_the_first_of_january() -> None:
    week, year = table("UTC", "week", 2026), table("UTC", "year", 2026)
    assert period_at(week, at("2026-12-31T12:00")) == (at("2026-12-28"), at("2027-01-04"))
    assert period_at(year, at("2028-02-29T12:00")) == (at("2028-01-01"), at("2029-01-01"))


def test_b105_a_day_in_shanghai_begins_at_16_hours_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    runs = table.__wrapped__("Asia/Shanghai", "day", 2026)
    assert runs == ((at("2023-12-31T16:00"), 86_400),)


@pytest.fixture
def wrong_berlin(tmp_path: Path) -> Iterator[None]:
    """An operating system for which Berlin lies in Japan."""
    (tmp_path / "Europe").mkdir()
    tokyo = files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe" / "Berlin").write_bytes(tokyo)
    zoneinfo.reset_tzpath(to=[str(tmp_path)])
    try:
        yield
    finally:
        zoneinfo.reset_tzpath()


@pytest.mark.usefixtures("wrong_berlin")
def test_the_zones_of_the_operating_system_are_not_asked() -> None:
    winter = datetime(2026, 1, 1, 12)  # noqa: DTZ001  the zone is what is asked for
    theirs = zoneinfo.ZoneInfo.no_cache("Europe/Berlin")
    assert theirs.utcoffset(winter) == timedelta(hours=9)
    assert load_zone.__wrapped__("Europe/Berlin").utcoffset(winter) == timedelta(hours=1)


def test_a_table_reaches_ten_years_past_the_year_in_which_it_was_made() -> None:
    for year in (2020, 2026, 2050):
        begin, length = calendars.table("UTC", "year", year)[-1]
        last = begin + (calendars.start_of_year(max(year, 2025) + 11) - begin) // length * length
        assert last == calendars.start_of_year(max(year, 2025) + 11)
