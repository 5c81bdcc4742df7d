"""A second of each of the commonest faults; `make chaos` has all of them, and for longer."""

from collections.abc import Iterator

import pytest

from tests.chaos.arrangement import SHORT
from tests.chaos.grounds import Grounds, played
from tests.chaos.scenarios import ALL

BRIEF = [name for name, scenario in ALL.items() if scenario.is_brief]


@pytest.fixture(scope="module")
def grounds(valkey_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grounds]:
    with Grounds(valkey_path, tmp_path_factory.mktemp("chaos"), SHORT) as made:
        yield made


@pytest.mark.parametrize("name", BRIEF)
def test_what_is_promised_of_a_fault_holds(name: str, grounds: Grounds) -> None:
    row = played(ALL[name], grounds)
    if row.outcome == "void":
        pytest.skip(row.why)
    assert row.is_held, row
