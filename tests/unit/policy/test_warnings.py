"""Warnings: what is probably not meant, and no noise about the rest."""

from __future__ import annotations

import pytest

from tests.unit.policy.test_load import accepted, limit


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("per: [api_key]", "rate: 5/min"), 'leaving out "api_key" switches this limit off'),
        (("per: [ip, user, org]", "rate: 5/min"), 'leaving out "user" or "org"'),
        (("rate: 20k/min", "algorithm: sliding_log"), "takes up to 320,000 bytes"),
        (("rate: 100/min; 50/h",), "100/min can never be used up"),
        (
            ("rate: 5/min", "counts: tokens", "preset: strict"),
            "a cost of 2 tokens or more can never",
        ),
    ],
)
def test_what_is_probably_not_meant_is_a_warning(lines: tuple[str, ...], message: str) -> None:
    (problem,) = accepted(limit(*lines)).problems
    assert not problem.is_error
    assert message in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    "lines",
    [
        ("per: [api_key]", "rate: 5/min", "missing: skip"),
        ("per: [api_key]", "rate: 5/min", "missing: deny"),
        ("per: [api_key]", "rate: 5/min", "on_exceed: shadow"),
        ("per: [api_key]", "rate: unlimited"),
        ("per: [api_key]", "rate: 5/min", "when: {api_key: 'k*'}"),
        ("per: [remote_address]", "rate: 5/min"),
        ("rate: 10k/min", "algorithm: sliding_log"),
        ("rate: 5/min; 10/h",),
        ("rate: 5/min", "preset: strict"),
    ],
)
def test_what_is_said_or_common_is_no_warning(lines: tuple[str, ...]) -> None:
    assert accepted(limit(*lines)).problems == ()
