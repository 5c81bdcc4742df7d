"""The oracle passes every case of conformance/, and the cases are well formed."""

import json

import pytest

from tests.oracle.conformance import CASES, Case, PlannedSubject, load_cases, run_case

ALL = load_cases()


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_oracle_decides_as_the_case_says(case: Case) -> None:
    run_case(case, PlannedSubject.of_oracle())


def test_every_case_is_named_after_its_file() -> None:
    for path in CASES.glob("**/*.json"):
        content = json.loads(path.read_text())
        assert content["name"] == str(path.relative_to(CASES).with_suffix(""))
        assert set(content) <= {"name", "why", "report", "domain", "policy", "steps"}


def test_a_wrong_answer_is_noticed() -> None:
    case = next(case for case in ALL if case.name == "sliding_window/B24_previous_window_counts")
    as_fixed = case.policy.replace("sliding_window", "fixed_window")
    wrong = Case(case.name, case.why, case.domain, as_fixed, case.steps)
    with pytest.raises(AssertionError, match="step 1 "):
        run_case(wrong, PlannedSubject.of_oracle())
