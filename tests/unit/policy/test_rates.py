"""The grammar of rates: what it accepts, what it refuses and with which fix."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ConfigError
from tidegate.policy.rates import UNLIMITED, Rate, RateError, Rates, parse_count, parse_rates
from tidegate.policy.units import MAX_COUNT, MAX_PERIOD_S, UNIT_SECONDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5/minute", (5, 60)),
        ("5/m", (5, 60)),
        ("5/min", (5, 60)),
        ("5 per minute", (5, 60)),
        ("5 per 2 minutes", (5, 120)),
        ("5/2minutes", (5, 120)),
        ("5/5m", (5, 300)),
        ("5/week", (5, 604_800)),
        ("5per day", (5, 86_400)),
        ("10k/h", (10_000, 3600)),
        ("1M per 15min", (1_000_000, 900)),
        ("  7 / s ", (7, 1)),
        ("0/min", (0, 60)),
        ("007/s", (7, 1)),
        ("3000000000 per 365 days", (3_000_000_000, 31_536_000)),
        ("9007199254740991/s", (MAX_COUNT, 1)),
        ("1 per 366d", (1, MAX_PERIOD_S)),
    ],
)
def test_each_form_means_n_per_period(text: str, expected: tuple[int, int]) -> None:
    (rate,) = parse_rates(text).items
    assert (rate.n, rate.period_s) == expected
    assert rate.burst is None


@pytest.mark.parametrize("unit", sorted(UNIT_SECONDS))
def test_every_unit_stands_after_slash_and_per(unit: str) -> None:
    expected = Rates((Rate(3, UNIT_SECONDS[unit]),))
    assert parse_rates(f"3/{unit}") == parse_rates(f"3 per {unit}") == expected


def test_several_rates_are_all_kept() -> None:
    assert parse_rates("5/minute; 100/day;1k/w") == Rates(
        (Rate(5, 60), Rate(100, 86_400), Rate(1000, 604_800))
    )


def test_burst_may_follow_each_rate() -> None:
    rates = parse_rates("10/s burst 50; 1k/h burst 2k")
    assert [rate.burst for rate in rates.items] == [50, 2000]


def test_unlimited_and_blocked_have_their_own_words() -> None:
    assert parse_rates(" unlimited ") is UNLIMITED
    assert UNLIMITED.is_unlimited
    assert not UNLIMITED.is_blocked
    assert parse_rates("0/s").is_blocked


@pytest.mark.parametrize(
    ("text", "position", "message", "hint"),
    [
        ("1m/min", 1, '"m" is no multiplier', "did you mean 1M?"),
        ("1K/min", 1, '"K" is no multiplier', "did you mean 1k?"),
        ("10 k/min", 3, "right after the number", "did you mean 10k?"),
        ("5/month", 2, "has no fixed length: it is a calendar period", "write quota:"),
        ("5/year", 2, "has no fixed length: it is a calendar period", "write quota:"),
        ("5/ms", 2, "at least 1", "1000/s"),
        ("5/minuet", 2, 'unknown unit "minuet"', 'did you mean "minute"?'),
        ("5/Minute", 2, "units are lower case", 'did you mean "minute"?'),
        ("1.5/s", 0, "numbers are whole", "3 per 2s"),
        ("0.1/min", 0, "numbers are whole", "1 per 10min"),
        ("1.5k/h", 0, "numbers are whole", "1500/h"),
        ("1 per 0.5h", 6, "numbers are whole", "1 per 30min"),
        ("-1/s", 0, "cannot be negative", "0/min blocks"),
        ("+1/s", 0, "no sign", "write 1"),
        ("1_000/s", 0, "digits alone", "did you mean 1000?"),
        ("1,000/s", 0, "digits alone", "did you mean 1000?"),
        ("", 0, "a rate is missing", "100/min"),
        ("5/min;", 6, "a rate is missing", "100/min"),
        ("5", 1, "found the end", "5/min"),
        ("5 minutes", 2, 'found "minutes"', "5/min"),
        ("5/", 2, "expected a unit of time", "5/min"),
        ("5/min, 10/h", 5, '"," does not join rates', 'by ";"'),
        ("5/min | 10/h", 6, '"|" does not join rates', 'by ";"'),
        ("5/min foo", 6, 'unexpected "foo"', "remove it"),
        ("5/min burst", 6, '"burst" is no burst', "burst 20"),
        ("5/min burst 0", 12, "out of bounds", "1 to 2^53"),
        ("0/min burst 5", 12, "no burst", "leave it out"),
        ("5/0s", 2, "out of bounds", "1 second to 366 days"),
        ("5 per 367d", 6, "out of bounds", "1 second to 366 days"),
        ("9007199254740992/s", 0, "2^53 or more", ""),
        ("9007199254740993/s", 0, "2^53 or more", ""),
        ("9223372036854775807/s", 0, "2^53 or more", ""),
        ("9" * 900 + "/s", 0, "2^53 or more", ""),
        ("1 per " + "9" * 900 + "d", 6, "out of bounds", ""),
        ("9007199254741k/s", 0, "2^53 or more", ""),
        ("1/s" * 400, 1000, "longer than", ""),
        ("unlimited; 5/min", 0, "unlimited stands alone", ""),
        ("none", 0, "is no rate", "did you mean unlimited?"),
        ("lots", 0, 'expected a number, found "lots"', ""),
        ("0/min; 5/h", 0, "stands alone", ""),
        ("5/min; 10/60s", 7, "the same period", "5/min is the stricter"),
    ],
)
def test_a_mistake_is_told_with_position_and_fix(
    text: str, position: int, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rates(text)
    assert (caught.value.position, message in caught.value.message) == (position, True)
    assert hint in caught.value.hint


def test_every_rate_of_a_text_is_looked_at() -> None:
    with pytest.raises(RateError) as caught:
        parse_rates("1m/min; 5/fortnight; 3/h")
    assert [problem.position for problem in caught.value.problems] == [1, 10]


def test_burst_in_a_policy_file_is_a_field_of_its_own() -> None:
    with pytest.raises(RateError, match="burst is a field of its own here") as caught:
        parse_rates("5/min burst 10", is_burst_allowed=False)
    assert caught.value.hint == "write burst: 10"


def test_an_error_survives_pickling() -> None:
    with pytest.raises(RateError) as caught:
        parse_rates("5/fortnight")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.problems) == (str(caught.value), caught.value.problems)


@pytest.mark.parametrize(("text", "value"), [("200", 200), ("10k", 10_000), (" 1M ", 1_000_000)])
def test_a_count_takes_k_and_m(text: str, value: int) -> None:
    assert parse_count(text) == value


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10K", "10k"),
        ("1m", "1M"),
        ("10 k", "10k"),
        ("1.5", "whole"),
        ("0", "1 to"),
        ("-3", "whole"),
        ("", "whole"),
        ("9007199254740992", "1 to"),
    ],
)
def test_a_count_out_of_form_or_bounds_is_refused(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_count(text)
    assert hint in caught.value.hint


@st.composite
def all_rates(draw: st.DrawFn) -> Rates:
    periods = draw(st.lists(st.integers(1, MAX_PERIOD_S), unique=True, max_size=4))
    items = []
    for period in periods:
        n = draw(st.integers(0 if len(periods) == 1 else 1, MAX_COUNT))
        burst = draw(st.none() | st.integers(1, MAX_COUNT)) if n else None
        items.append(Rate(n, period, burst))
    return Rates(tuple(items))


@given(all_rates())
def test_what_is_written_is_read_again(rates: Rates) -> None:
    assert parse_rates(str(rates)) == rates


_PIECES = st.sampled_from(
    ["5", "0", "1.5", "k", "M", "K", "m", "/", " per ", " ", "min", "s", "month", ";", "burst", "-",
     "unlimited", "per", "\u0663", "\uff15", "\x00", "\u017f", "9" * 30, ",", "_", "\n"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=12).map("".join) | st.text(max_size=30))
def test_any_text_is_a_rate_or_a_config_error_within_it(text: str) -> None:
    rates, places = UNLIMITED, [0]
    try:
        rates = parse_rates(text)
    except RateError as error:
        places = [problem.position for problem in error.problems]
    assert places
    assert all(0 <= place <= len(text) for place in places)
    for rate in rates.items:
        assert 0 <= rate.n <= MAX_COUNT
        assert 1 <= rate.period_s <= MAX_PERIOD_S


@given(st.integers(1, 10**6), st.integers(1, 999), st.sampled_from(["s", "min", "h"]))
def test_the_fix_of_a_fraction_is_the_same_rate(whole: int, thousandths: int, unit: str) -> None:
    with pytest.raises(RateError) as caught:
        parse_rates(f"{whole}.{thousandths:03}/{unit}")
    hint = caught.value.hint
    assert hint.startswith("write ")
    (fixed,) = parse_rates(hint.removeprefix("write ").removesuffix(", which is the same")).items
    thousand = (whole * 1000 + thousandths) * fixed.period_s
    assert fixed.n * UNIT_SECONDS[unit] * 1000 == thousand
