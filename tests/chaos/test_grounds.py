"""A scenario gives a row whatever becomes of its runs, and no other has a store that is spent."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import pytest

from tests.chaos import __main__ as program
from tests.chaos import grounds as grounds_
from tests.chaos.account import Account
from tests.chaos.arrangement import SHORT
from tests.chaos.grounds import MOST_RUNS, Grounds, played_all
from tests.chaos.scenario import Row, Scenario
from tests.chaos.scenarios import ALL

QUIET = Account(1, 0, 0, 0, 0, 0, 0, 0, 1.0, 1.0, away_s=0.1, normal_s=0.1)
AWAY = replace(QUIET, away_s=0.9)
SHARED = Scenario("shared", "w", "p", lambda *_: None)
SPENT = replace(SHARED, name="spent", on="sentinels", spends=True)


@dataclass
class Runs:
    """Stands in for stores and faults: what runs come to, in turn, and on which store each was."""

    outcomes: list[Account | Exception] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    made: int = 0
    open: int = 0

    def arranged(self, kind: str) -> Any:
        if kind == "skewed":
            raise LookupError("no libfaketime")
        self.made += 1
        return self

    def ran(self, scenario: Scenario, _: object, __: str) -> Row:
        self.stores.append(self.made)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return Row(scenario.name, scenario.what, scenario.promise, outcome, {}, [])

    def __enter__(self) -> Self:
        self.open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.open -= 1


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    made = Runs()
    monkeypatch.setattr(Grounds, "_arranged", made.arranged)
    monkeypatch.setattr(grounds_, "ran", made.ran)
    yield made
    assert made.open == 0


Play = Callable[..., list[Row]]


@pytest.fixture
def play(runs: Runs, tmp_path: Path) -> Play:
    def all_of(*scenarios: Scenario, outcomes: list[Account | Exception]) -> list[Row]:
        runs.outcomes = list(outcomes)
        with Grounds("", tmp_path, SHORT) as grounds:
            return list(played_all(scenarios, grounds))

    return all_of


def test_scenarios_of_a_kind_share_a_store(play: Play, runs: Runs) -> None:
    assert all(row.is_held for row in play(SHARED, SHARED, outcomes=[QUIET, QUIET]))
    assert runs.stores == [1, 1]


def test_a_void_run_on_a_store_that_is_spent_is_done_again_on_a_fresh_one(
    play: Play, runs: Runs
) -> None:
    (row,) = play(SPENT, outcomes=[AWAY, QUIET])
    assert (row.is_held, runs.stores) == (True, [1, 2])


def test_a_scenario_that_stays_void_has_no_result(play: Play, runs: Runs) -> None:
    (row,) = play(SHARED, outcomes=[AWAY] * MOST_RUNS)
    assert (row.outcome, row.account, row.is_held) == ("void", None, False)
    assert "0.9 s" in row.why
    assert len(runs.stores) == MOST_RUNS


def test_what_a_machine_lacks_is_a_row_too(play: Play) -> None:
    (row,) = play(replace(SHARED, on="skewed"), outcomes=[])
    assert (row.outcome, row.why) == ("skipped", "no libfaketime")


def test_a_scenario_that_breaks_off_leaves_a_row_and_a_fresh_store_for_the_next(
    play: Play, runs: Runs
) -> None:
    first, second = play(SHARED, SHARED, outcomes=[TimeoutError("waited 40 s"), QUIET])
    assert (first.outcome, first.is_held, second.is_held) == ("broke off", False, True)
    assert "waited 40 s" in first.why
    assert runs.stores == [1, 2]


def test_a_store_that_loses_its_last_replica_or_whose_slots_move_is_spent() -> None:
    spent = {name for name, one in ALL.items() if one.spends}
    assert spent == {"storm", "reshard", "sentinel-failover"}


def test_rows_are_written_as_they_come(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "results.json"
    written: list[int] = []

    def ran(scenario: Scenario, *rest: Any) -> Row:
        written.append(len(json.loads(out.read_text())["rows"]) if out.exists() else 0)
        return runs.ran(scenario, *rest)

    monkeypatch.setattr(grounds_, "ran", ran)
    monkeypatch.setattr(
        "sys.argv", ["chaos", "--only", "cut", "--only", "flushall", "--out", str(out)]
    )
    runs.outcomes = [QUIET, QUIET]
    assert program.main() == 0
    assert written == [0, 1]
    assert [row["outcome"] for row in json.loads(out.read_text())["rows"]] == ["run", "run"]
