"""Which limits may be split over several counters, and how that is written."""

import pytest

from tests.unit.policy.test_load import limit, only
from tidegate.policy.consistency import Consistency
from tidegate.policy.load import load_policy
from tidegate.policy.schema import json_schema

COUNTED = ("rate: 500/min", "algorithm: fixed_window")


@pytest.mark.parametrize(("written", "parts"), [("8", 8), ("'64'", 64), ("2", 2)])
def test_a_split_is_a_word_with_its_number(written: str, parts: int) -> None:
    result = load_policy(limit(*COUNTED, f"consistency: {{sharded: {written}}}"))
    assert result.problems == ()
    assert result.document is not None
    assert result.document.domains["shop"].limits[0].consistency == Consistency("sharded", parts)


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("sharded", '"sharded" needs its number', "write {sharded: "),
        ("'sharded: 8'", '"sharded: 8" needs its number', "write {sharded: 8}"),
        ("{sharded: }", "sharded: nothing", "from 2 to 64"),
        ("{sharded: 1}", "sharded: 1", "from 2 to 64"),
        ("{sharded: 65}", "sharded: 65", "from 2 to 64"),
        ("shared", 'unknown consistency "shared"', 'did you mean "sharded"?'),
    ],
)
def test_another_form_is_refused_with_the_right_one(written: str, message: str, hint: str) -> None:
    problem = only(limit(*COUNTED, f"consistency: {written}"))
    assert message in problem.message
    assert hint in problem.hint


def test_the_schema_tells_editors_a_default_that_may_be_written() -> None:
    definitions = json_schema()["$defs"]
    assert isinstance(definitions, dict)
    assert definitions["Limit"]["properties"]["consistency"]["default"] == "exact"


def test_a_number_in_the_same_line_is_no_yaml_and_told_what_is() -> None:
    problem = only(limit(*COUNTED, "consistency: sharded: 8"))
    assert problem.hint.startswith("write consistency: {sharded: 8} where a mapping is meant")


@pytest.mark.parametrize(
    "lines",
    [
        COUNTED,
        ("rate: 500/min", "algorithm: sliding_log"),
        ("quota: 500/month",),
        ("rate: 0/min", "algorithm: fixed_window"),
        ("rate: unlimited", "algorithm: fixed_window"),
        ("rate: 8/s; 500/min", "algorithm: fixed_window"),
        ("rate: 500/min", "algorithm: fixed_window", "on_store_failure: local"),
    ],
)
def test_counts_that_add_up_may_be_split(lines: tuple[str, ...]) -> None:
    assert load_policy(limit(*lines, "consistency: {sharded: 8}")).problems == ()


@pytest.mark.parametrize(
    ("lines", "other", "hint"),
    [
        (("rate: 500/min",), "token_bucket", "write local"),
        (("rate: 500/min", "algorithm: leaky_bucket"), "leaky_bucket", "write local"),
        (("rate: 500/min", "algorithm: sliding_window"), "sliding_window", "write local"),
        (("rate: 500/min", "algorithm: sliding_window", "slots: 6"), "sliding_window", "exact"),
        ((*COUNTED, "count_denied: true"), "count_denied", "write exact"),
        ((*COUNTED, "request_override: true"), "request_override", "write exact"),
        ((*COUNTED, "on_exceed: shadow"), "on_exceed: shadow", "write exact"),
    ],
)
def test_what_does_not_add_up_over_several_counters_is_refused(
    lines: tuple[str, ...], other: str, hint: str
) -> None:
    problem = only(limit(*lines, "consistency: {sharded: 8}"))
    assert problem.message.startswith(f"consistency: {{sharded: 8}} does not go with {other}")
    assert hint in problem.hint


def test_a_limit_of_fewer_units_than_counters_is_refused_wherever_it_is_written() -> None:
    problem = only(limit("rate: 7/min", "algorithm: fixed_window", "consistency: {sharded: 8}"))
    assert problem.message.startswith("7 in 8 parts")
    assert problem.hint == "write 8 or more, or {sharded: 7}"
    base = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: a, per: [tenant], quota: 100/month, consistency: {sharded: 8}}
    plans: {free: {a: {quota: 7/month}}, none: {a: {quota: 0/month}}}
    tenants: {acme: {overrides: [{limit: a, quota: 5/month}]}}
"""
    problems = load_policy(base).problems
    assert [(one.path, one.message.split(" (")[0]) for one in problems] == [
        ("domains.shop.plans.free.a.quota", "7 in 8 parts"),
        ("domains.shop.tenants.acme.overrides[0].quota", "5 in 8 parts"),
    ]
