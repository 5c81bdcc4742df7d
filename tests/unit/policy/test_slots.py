"""`slots` and `conservative` in a policy file."""

import json

import pytest

from tidegate.compiler import compile_policy

SLIDING = "algorithm: sliding_window"


def said(*fields: str) -> list[str]:
    text = f"version: 1\ndomains: {{shop: {{limits: [{{id: a, {', '.join(fields)}}}]}}}}"
    return [f"{one.severity}: {one.message}; {one.hint}" for one in compile_policy(text).problems]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["rate: 5/min", SLIDING, "slots: 2"], ""),
        (["rate: 5/min; 9/h", SLIDING, "slots: 60", "conservative: true"], ""),
        (["rate: 5/min", SLIDING, "slots: 1"], "error: 1 slots; allowed: 2 to 60"),
        (["rate: 5/min", SLIDING, "slots: 61"], "error: 61 slots; allowed: 2 to 60"),
        (["rate: 5/min", SLIDING, "slots: many"], "is no whole number"),
        (["rate: 5/min", "slots: 4"], "error: slots belongs to sliding_window alone"),
        (["rate: 5/min", "algorithm: sliding_log", "slots: 4"], "belongs to sliding_window alone"),
        (["rate: 5/min", "conservative: true"], "conservative belongs to sliding_window alone"),
        (["rate: 5/min", "conservative: false"], ""),
        (["quota: 5/month", "slots: 4"], "slots has no meaning for a quota, which counts calendar"),
        (["quota: 5/month", "conservative: true"], "conservative has no meaning for a quota"),
        (["rate: 5/min", SLIDING, "conservative: true"], "warning: conservative without slots"),
    ],
)
def test_what_goes_with_slots(fields: list[str], message: str) -> None:
    told = said(*fields)
    assert len(told) == bool(message), told
    assert not told or message in told[0]


def test_slots_are_an_algorithm_of_their_own_for_the_engine() -> None:
    text = "version: 1\ndomains: {{d: {{limits: [{{id: a, rate: 5/min, {}}}]}}}}"
    for fields, expected in (
        (SLIDING, ("sliding_window", 1, False)),
        (f"{SLIDING}, slots: 6", ("sliding_slots", 6, False)),
        (f"{SLIDING}, conservative: true", ("sliding_slots", 1, True)),
        (f"{SLIDING}, slots: 9, conservative: true", ("sliding_slots", 9, True)),
    ):
        snapshot = compile_policy(text.format(fields)).snapshot
        assert snapshot is not None
        row = json.loads(snapshot.data)["domains"][0]["limits"][0]
        assert (row["algorithm"], row["slots"], row["conservative"]) == expected
        assert row["numbers"] == {"n": 5, "period_us": 60_000_000, "burst": 5}
