"""Which limits nodes may decide by themselves."""

import pytest

from tests.unit.policy.test_load import limit, only
from tidegate.policy.load import load_policy


@pytest.mark.parametrize("word", ["local", "auto", "{sampled: 2}"])
@pytest.mark.parametrize(
    ("lines", "other"),
    [
        (("rate: 10k/min", "algorithm: sliding_log"), "sliding_log"),
        (("rate: 10k/min", "count_denied: true"), "count_denied"),
        (("rate: 10k/min", "request_override: true"), "request_override"),
        (("rate: 10k/min", "algorithm: sliding_window", "slots: 6"), "slots"),
        (("quota: 50k/month",), "a quota"),
    ],
)
def test_what_a_node_cannot_decide_by_itself_is_refused(
    word: str, lines: tuple[str, ...], other: str
) -> None:
    problem = only(limit(*lines, f"consistency: {word}"))
    assert problem.message.startswith(f"consistency: {word} does not go with {other}")


def test_a_limit_too_small_to_be_shared_among_nodes_is_warned_of() -> None:
    assert "a hundredth is no request" in only(limit("rate: 99/min", "consistency: local")).message
    assert load_policy(limit("rate: 100/min", "consistency: local")).problems == ()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("sampled", '"sampled" needs its number', "write {sampled: 10}"),
        ("'sampled: 4'", '"sampled: 4" needs its number', "write {sampled: 4}"),
        ("{sampled: 1}", "sampled: 1", "{sampled: K} takes a whole number from 2 to 1,000,000"),
        ("{sampled: x}", '"x" is no whole number', "from 2 to 1,000,000"),
        ("{sampled: [2]}", "sampled: a list", "from 2 to 1,000,000"),
        ("{local: 4}", "local takes no number", "write consistency: local"),
        ("lokal", 'unknown consistency "lokal"', 'did you mean "local"?'),
        ("[local]", "expected a word, found a list", "one of exact, local, auto, {sampled: K}"),
        ("{sampled: 2, local: 3}", "expected a word, found a mapping", "one of exact"),
    ],
)
def test_a_consistency_out_of_form_is_refused_with_the_form(
    line: str, message: str, hint: str
) -> None:
    problem = only(limit("rate: 1M/min", f"consistency: {line}"))
    assert problem.message.startswith(message)
    assert hint in problem.hint


def test_a_sampled_limit_is_large_beside_what_nodes_hold_wherever_its_number_is_written() -> None:
    sampled = "consistency: {sampled: 3}"
    assert load_policy(limit("rate: 20k/min", sampled)).problems == ()
    problem = only(limit("rate: 19k/min", sampled))
    assert problem.message == "19,000 is less than the 20,000 that {sampled: 3} needs"
    assert problem.hint == "write {sampled: 2}"
    assert only(limit("rate: 9k/min", sampled)).hint == "write local"
    assert only(limit("rate: 20k/min", "burst: 5k", sampled)).path.endswith(".burst")
    shop = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits: [{id: all, per: [tenant], rate: 20k/min, consistency: {sampled: 3}}]
    plans: {free: {all: {rate: 5k/min}}, shut: {all: {rate: 0/min}}}
"""
    assert [(it.line, it.path) for it in load_policy(shop).problems] == [
        (6, "domains.shop.plans.free.all.rate")
    ]
