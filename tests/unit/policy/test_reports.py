"""Reports about the configuration of other limiters, each by its id."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.compiler import compile_policy
from tidegate.policy.rates import parse_rates

DAY_US = 86_400_000_000


def policy(rate: str, more: str = "", override: str = "1/s") -> str:
    return (
        "version: 1\ndomains:\n  d:\n    tenant_key: t\n"
        f"    limits: [{{id: a, per: [t], rate: {rate}{more}}}]\n"
        f"    tenants: {{x: {{overrides: [{{limit: a, rate: {override}}}]}}}}\n"
    )


def domain(text: str) -> dict[str, Any]:
    compiled = compile_policy(text)
    assert compiled.snapshot is not None, [str(problem) for problem in compiled.problems]
    (only,) = json.loads(compiled.snapshot.data)["domains"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize(
    ("rate", "n", "period_us"),
    [
        ("1 per 30d", 1, 30 * DAY_US),
        ("1 per 365d", 1, 365 * DAY_US),
        ("7 per 31d", 7, 31 * DAY_US),
        ("100000/day", 100_000, DAY_US),
        ("3000000000 per 365d", 3_000_000_000, 365 * DAY_US),
    ],
)
def test_b36_slow_rates_are_held_exactly(rate: str, n: int, period_us: int) -> None:
    numbers = domain(policy(rate))["limits"][0]["numbers"]
    assert (numbers["n"], numbers["period_us"]) == (n, period_us)


@pytest.mark.parametrize("rate", ["1 per 367d", "1.5/s", "1 per 500ms", "1/ms"])
def test_b36_what_cannot_be_held_is_refused_and_never_changed_silently(rate: str) -> None:
    (problem,) = compile_policy(policy(rate)).problems
    assert problem.path == "domains.d.limits[0].rate"


@pytest.mark.parametrize("n", [1_000_000_001, 2**31, 2**32 - 1, 2**53 - 1])
def test_b37_high_rates_work_in_limits_and_overrides(n: int) -> None:
    only = domain(policy(f"{n}/s", override=f"{n}/s"))
    assert only["limits"][0]["numbers"]["n"] == n
    assert only["tenants"]["x"]["overrides"][0]["numbers"]["n"] == n


@pytest.mark.parametrize("n", [2**53, 2**53 + 1, 2**63 - 1, 2**64])
def test_b37_higher_ones_are_refused_with_file_and_path(n: int) -> None:
    problems = compile_policy(policy(f"{n}/s", override=f"{n}/s"), "p.yaml").problems
    assert [(problem.file, problem.path) for problem in problems] == [
        ("p.yaml", "domains.d.limits[0].rate"),
        ("p.yaml", "domains.d.tenants.x.overrides[0].rate"),
    ]


def test_b39_zero_blocks_in_limits_and_overrides_and_has_no_burst() -> None:
    only = domain(policy("0/min", override="0/min"))
    assert only["limits"][0]["numbers"]["n"] == 0
    assert only["tenants"]["x"]["overrides"][0]["numbers"]["n"] == 0
    (problem,) = compile_policy(policy("0/min", ", burst: 5")).problems
    assert "burst with a rate of 0" in problem.message


def test_b39_unlimited_is_a_word_of_its_own() -> None:
    assert domain(policy("unlimited"))["limits"][0]["numbers"] is None


def test_b75_a_change_of_one_limit_leaves_the_rows_of_others_alone() -> None:
    text = (
        "version: 1\ndomains: {{d: {{limits: [{{id: a, rate: 5/min}}, {{id: b, rate: {}/min}}]}}}}"
    )
    before, after = domain(text.format(1)), domain(text.format(2))
    assert before["limits"][0] == after["limits"][0]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 per 10 min", "1 per 10min"),
        ("1 per 30 days", "1 per 30day"),
        ("3 per 2s", "3 per 2s"),
        ("3000000000/day", "3000000000/day"),
    ],
)
def test_b78_a_rate_is_shown_without_lost_digits_and_read_again(text: str, shown: str) -> None:
    rates = parse_rates(text)
    assert str(rates) == shown
    assert parse_rates(shown) == rates
