"""Fields that are true or false: how they are read, and where they cannot hold."""

import pytest

from tests.unit.policy.test_load import accepted, limit, only


@pytest.mark.parametrize("written", ["true", "True", '"TRUE"', "false"])
def test_a_flag_is_read_as_it_is_written(written: str) -> None:
    text = limit("rate: 5/min", "algorithm: fixed_window", f"count_denied: {written}")
    document = accepted(text).document
    assert document is not None
    assert document.domains["shop"].limits[0].count_denied is ("rue" in written.lower())


@pytest.mark.parametrize(
    ("lines", "field", "message"),
    [
        (["rate: 5/min", "count_denied: yes"], "count_denied", "neither true nor false"),
        (
            ["rate: 5/min", "algorithm: sliding_log", "count_denied: true"],
            "count_denied",
            "does not go with sliding_log",
        ),
        (
            ["rate: 5/min", "algorithm: sliding_log", "request_override: true"],
            "request_override",
            "does not go with sliding_log",
        ),
        (["rate: 5/min; 9/h", "request_override: true"], "request_override", "needs one rate"),
    ],
)
def test_flags_that_cannot_hold_are_refused(lines: list[str], field: str, message: str) -> None:
    problem = only(limit(*lines))
    assert message in problem.message
    assert problem.path == f"domains.shop.limits[0].{field}"
