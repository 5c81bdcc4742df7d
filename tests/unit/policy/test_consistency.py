"""Which limits nodes may decide by themselves."""

import pytest

from tests.unit.policy.test_load import limit, only
from tidegate.policy.load import load_policy


@pytest.mark.parametrize("word", ["local", "auto"])
@pytest.mark.parametrize(
    ("lines", "other"),
    [
        (("rate: 500/min", "algorithm: sliding_log"), "sliding_log"),
        (("rate: 500/min", "count_denied: true"), "count_denied"),
        (("rate: 500/min", "request_override: true"), "request_override"),
        (("rate: 500/min", "algorithm: sliding_window", "slots: 6"), "slots"),
        (("quota: 500/month",), "a quota"),
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
