"""Plans, tenants and overrides: what fits together and what does not."""

from __future__ import annotations

import pytest

from tidegate.policy.load import LoadResult, load_policy

BASE = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - id: search
        per: [tenant]
        rate: 100/min
"""


def only_message(text: str) -> str:
    (problem,) = load_policy(text).problems
    return problem.message


def errors(text: str) -> list[str]:
    return [problem.message for problem in load_policy(text).errors]


def accepted(text: str) -> LoadResult:
    result = load_policy(text)
    assert result.document is not None, [str(problem) for problem in result.problems]
    return result


@pytest.mark.parametrize(
    "written",
    [
        "2026-12-31T00:00:00Z",
        "2026-12-31 00:00+01:00",
        "2026-12-31t23:59:59.999999-05:00",
        "1970-01-01T00:00Z",
    ],
)
def test_a_moment_has_a_zone(written: str) -> None:
    tail = f"    tenants: {{a: {{overrides: [{{limit: search, rate: 1/s, until: {written}}}]}}}}\n"
    assert accepted(BASE + tail).problems == ()


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("2026-12-31", "is no instant"),
        ("2026-12-31T00:00:00", "names no time zone"),
        ("2026-02-30T00:00:00Z", "does not exist"),
        ("2026-12-31T25:00:00Z", "does not exist"),
        ("2026-12-31T00:00:00+99:00", "does not exist"),
        ("1969-12-31T23:59:59Z", "before 1970"),
        ("0001-01-01T00:00:00+01:00", "before 1970"),
        ("1798675200", "is no instant"),
        ("tomorrow", "is no instant"),
    ],
)
def test_a_moment_that_cannot_be_placed_is_refused(written: str, message: str) -> None:
    tail = (
        f"    tenants: {{a: {{overrides: [{{limit: search, rate: 1/s, until: '{written}'}}]}}}}\n"
    )
    assert message in only_message(BASE + tail)


TENANCY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: own, per: [tenant], rate: 100/min, burst: 50}
      - {id: all, rate: 100/min}
      - {id: two, per: [tenant], rate: 5/min; 100/day}
      - {id: log, per: [tenant], rate: 5/min, algorithm: sliding_log}
"""


@pytest.mark.parametrize(
    ("amount", "message"),
    [
        ("own: {rate: 0/min}", ""),
        ("own: {rate: unlimited}", ""),
        ("own: {burst: 7}", ""),
        ("own: {preset: strict}", ""),
        ("two: {rate: 100/day; 10/min}", ""),
        ("two: {rate: 0/s}", ""),
        ("two: {rate: unlimited}", ""),
        ("log: {rate: 7/h}", ""),
        ("all: {rate: 1/s}", 'a plan changes "all", whose counter all tenants share'),
        ("onw: {rate: 1/s}", 'there is no limit "onw"'),
        ("own: {}", "no number is written here"),
        ("own: {burst: 5, preset: strict}", "preset and burst together"),
        ("own: {rate: 0/s, burst: 5}", "burst with a rate of 0"),
        ("own: {rate: unlimited, preset: strict}", "preset with rate: unlimited"),
        ("own: {rate: 1/s; 2/min}", "own has 1 rate, this has 2"),
        ("two: {rate: 5/min}", "two has 2 rates, this has 1"),
        ("two: {burst: 5}", "burst with several rates"),
        ("log: {burst: 5}", "burst has no meaning for sliding_log"),
        ("log: {rate: 200k/min}", "at most 100,000"),
        ("own: {rate: 9007199254740991/min, burst: 1}", ""),
        ("own: {rate: 9007199254740991/s}", "the burst that follows from this is 2^53 or more"),
        ("own: {quota: 5/month}", '"own" has a rate, and a quota cannot stand in for it'),
        ("own: {rates: 5/s}", 'unknown field "rates"'),
    ],
)
def test_numbers_of_plans_and_overrides_fit_their_limit(amount: str, message: str) -> None:
    limit_id, _, body = amount.partition(": ")
    inner = body.strip("{}")
    override = f"{{limit: {limit_id}{', ' * bool(inner)}{inner}}}"
    for tail, what in (
        (f"    plans: {{p: {{{amount}}}}}\n", "a plan"),
        (f"    tenants: {{t: {{overrides: [{override}]}}}}\n", "an override"),
    ):
        problems = load_policy(TENANCY + tail).errors
        told = [problem.message for problem in problems]
        assert len(told) == bool(message), told
        assert not told or message.replace("a plan", what) in told[0]


def test_an_override_is_checked_on_top_of_its_tenants_plan() -> None:
    tail = (
        "    plans: {p: {own: {rate: 0/s}}}\n"
        "    tenants: {t: {plan: p, overrides: [{limit: own, burst: 5}]}}\n"
    )
    assert errors(TENANCY + tail) == ["burst with a rate of 0, which blocks"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            "{limit: own, rate: 1/s}, {limit: own, rate: 2/s}",
            "for the same limit from the same moment",
        ),
        (
            (
                "{limit: own, rate: 1/s, from: 2026-01-01T00:00Z},"
                "{limit: own, rate: 2/s, from: 2026-01-01T01:00+01:00}"
            ),
            "from the same moment",
        ),
        (
            "{limit: own, rate: 1/s, id: x}, {limit: two, rate: 0/s, id: x}",
            'the id "x" stands twice',
        ),
        (
            "{limit: own, rate: 1/s, from: 2026-01-02T00:00:00Z, until: 2026-01-02T00:00:00Z}",
            "ends before it begins",
        ),
        ("{limit: own, rate: 1/s, form: 2026-01-02T00:00:00Z}", 'unknown field "form"'),
        ("{rate: 1/s}", '"limit" is missing'),
    ],
)
def test_overrides_are_told_apart_and_end_after_they_begin(overrides: str, message: str) -> None:
    (told,) = errors(TENANCY + f"    tenants: {{t: {{overrides: [{overrides}]}}}}\n")
    assert message in told


def test_overrides_of_one_limit_may_follow_each_other() -> None:
    tail = (
        "    tenants: {t: {overrides: [{limit: own, rate: 1/s}, {limit: two, rate: 0/s},"
        " {limit: own, rate: 2/s, from: 2026-01-01T00:00:00Z, id: own, reason: 12:30}]}}\n"
    )
    assert accepted(TENANCY + tail).problems == ()
