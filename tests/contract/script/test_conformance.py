"""The script passes every case of conformance/."""

from collections.abc import Sequence

import pytest

from tests.contract.script.codec import Failure, Script
from tests.oracle.conformance import Case, PlannedSubject, load_cases, run_case
from tests.oracle.model import Op, Outcome


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_the_script_decides_as_the_case_says(script: Script, case: Case) -> None:
    def decide(now_us: int, ops: Sequence[Op]) -> list[Outcome]:
        if not ops:
            return []
        (outcomes,) = script.decide([ops], now_us)
        return [outcome for outcome in outcomes if not isinstance(outcome, Failure)]

    run_case(case, PlannedSubject(decide))
