"""Quotas in a policy file: what is read, and what is refused with its fix."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import ConfigError
from tidegate.policy.load import load_policy
from tidegate.policy.quotas import parse_quota
from tidegate.policy.rates import Rate, RateError, parse_rates

DOMAIN = "version: 1\ndomains:\n  shop:\n    tenant_key: tenant\n    limits:\n"
DAY = 86_400


def errors(*fields: str, tail: str = "") -> list[str]:
    rows = "".join(f"        {field}\n" for field in fields)
    problems = load_policy(f"{DOMAIN}      - id: a\n{rows}{tail}").problems
    return [f"{problem.message}; {problem.hint}" for problem in problems]


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("5M/month", [Rate(5_000_000, 30 * DAY, unit="month")]),
        (" 10k per day ", [Rate(10_000, DAY, unit="day")]),
        ("1/h;2/week; 3/year", [Rate(1, 3600, unit="hour"), Rate(2, 7 * DAY, unit="week")]),
        ("0/month", [Rate(0, 30 * DAY, unit="month")]),
        ("9007199254740991/year", [Rate(2**53 - 1, 365 * DAY, unit="year")]),
        ("unlimited", []),
    ],
)
def test_a_quota_is_a_number_in_each_calendar_period(text: str, rates: list[Rate]) -> None:
    assert list(parse_quota(text).items[:2]) == rates
    assert all(str(rate) == f"{rate.n}/{rate.unit}" for rate in rates)


@pytest.mark.parametrize(
    ("text", "position", "message", "hint"),
    [
        ("5m/month", 1, '"m" is no multiplier', "did you mean 5M?"),
        ("1.5M/month", 0, "numbers are whole", "write 1500000/month, which is the same"),
        ("1.5/day", 0, "numbers are whole", "choose a whole number"),
        ("1.5M per 2 days", 0, "numbers are whole", "choose a whole number"),
        ("-5/month", 0, "a quota cannot be negative", "0/month blocks"),
        ("5", 1, 'expected "/"', "write 5/month"),
        ("5/", 2, "expected a calendar period, found the end", "write 5/month"),
        ("5/month burst 3", 8, "a quota has no burst", "remove it"),
        ("5/month, 6/day", 7, '"," does not join quotas', 'join them by ";"'),
        ("5/month foo", 8, 'unexpected "foo" after the quota', "remove it"),
        ("5/min burst 3", 2, '"min" is no calendar period', "periods: hour, day, week"),
        ("none", 0, '"none" is no quota', "did you mean unlimited?"),
        ("5/day; unlimited", 7, "unlimited stands alone", "remove the other quotas"),
        ("0/month; 5/day", 0, "a quota of 0 blocks, so it stands alone", 'write "0/month"'),
        ("5/min", 2, '"min" is no calendar period', "write rate: 5/min"),
        ("5/mnth", 2, 'unknown period "mnth"', "did you mean"),
        ("5/Month", 2, 'unknown period "Month"', 'did you mean "month"?'),
        ("5/quarter", 2, 'unknown period "quarter"', "periods: hour, day, week, month, year"),
        ("5 per 30d", 6, "single calendar periods", "write rate: 5 per 30d, or say how many in"),
        ("5 per 2 months", 6, "single calendar periods", "say how many in one month"),
        ("5 per 2.5 days", 6, "single calendar periods", "say how many in one day"),
        ("5 per 400d", 6, "single calendar periods", "say how many in one day"),
        ("5/month; 6/mo", 9, "two quotas have the same period", "5/month is the stricter"),
        ("9007199254740992/day", 0, "2^53 or more", ""),
        ("", 0, "a quota is missing here", "write it as 5M/month"),
    ],
)
def test_a_mistake_in_a_quota_is_told_with_position_and_fix(
    text: str, position: int, message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_quota(text)
    assert (caught.value.position, message in caught.value.message) == (position, True)
    assert hint in caught.value.hint
    assert caught.value.message.startswith(f'quota "{text}": ')


MISTAKES = st.text(st.sampled_from("15 /perkMdaymonth;,.-0burst"), max_size=20)


@given(
    st.one_of(
        MISTAKES,
        st.builds(
            "{}{} per {}{}".format,
            st.sampled_from(["5", "1.5", "0"]),
            st.sampled_from(["", "k", "m", " M"]),
            st.sampled_from(["", "1", "30", "2.5"]),
            st.sampled_from(["d", "month", "min", "h burst 3", "week foo", "fortnight"]),
        ),
    )
)
def test_what_an_error_says_to_write_can_be_written(text: str) -> None:
    try:
        parse_quota(text)
    except RateError as error:
        for problem in error.problems:
            for fix in re.findall(r"write rate: ([^,]+)", problem.hint):
                parse_rates(fix, is_burst_allowed=False)
            for fix in re.findall(r'write (?:it as )?"?(?!rate)([^,"]+/[^,"]+)', problem.hint):
                parse_quota(fix)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["quota: 5/month"], ""),
        (["quota: 5/month", "time_zone: America/Argentina/Buenos_Aires"], ""),
        (["quota: 5/month; 1/day", "count_denied: true", "on_exceed: shadow"], ""),
        (["quota: 5/month", "rate: 5/min"], "rate and quota together"),
        (["rate: 5/min", "time_zone: UTC"], "time_zone without quota"),
        ([], '"rate" is missing; add a rate, such as rate: 100/min, or a quota'),
        (["quota: 5/month", "time_zone: Europe/Berln"], 'did you mean "Europe/Berlin"?'),
        (["quota: 5/month", "time_zone: CEST"], 'unknown time zone "CEST"'),
        (["quota: 5/month", "time_zone: ../../etc/passwd"], "unknown time zone"),
        (["quota: 5/month", "algorithm: fixed_window"], "algorithm has no meaning for a quota"),
        (["quota: 5/month", "burst: 5"], "burst has no meaning for a quota"),
        (["quota: 5/month", "preset: strict"], "preset has no meaning for a quota"),
        (["quota: 5/month", "request_override: true"], "does not go with a quota"),
        (["quota: 5/fortnight", "burst: 5"], 'unknown period "fortnight"'),
    ],
)
def test_what_goes_with_a_quota(fields: list[str], message: str) -> None:
    told = errors(*fields)
    assert len(told) == bool(message), told
    assert not told or message in told[0]


def test_a_longer_quota_that_allows_no_more_is_warned_of() -> None:
    (told,) = errors("quota: 500/day; 500/month")
    assert "500/day can never be used up: 500/month allows no more in a longer time" in told


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("quota: 7/month", ""),
        ("quota: 7/day", ""),
        ("quota: unlimited", ""),
        ("quota: 0/month", ""),
        ("rate: 7/min", '"a" has a quota, and a rate cannot stand in for it; write quota: here'),
        ("burst: 7", "burst has no meaning for a quota"),
        ("quota: 7/day; 9/month", "a has 1 quota, this has 2"),
        ("", "no number is written here; add a quota, such as quota: 5/month"),
        ("quota: 7/fortnight", "unknown period"),
    ],
)
def test_plans_and_overrides_carry_quotas(amount: str, message: str) -> None:
    limit = ("quota: 5/month", "per: [tenant]")
    for tail in (
        f"    plans: {{p: {{a: {{{amount}}}}}}}\n",
        f"    tenants: {{t: {{overrides: [{{limit: a{', ' * bool(amount)}{amount}}}]}}}}\n",
    ):
        told = errors(*limit, tail=tail)
        assert len(told) == bool(message), told
        assert not told or message in told[0]
