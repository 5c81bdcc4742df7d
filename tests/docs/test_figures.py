"""What pages take from results: the figures, and what disturbed their runs."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT

BAR = {"what": "failed requests", "op": "<=", "bar": 0, "value": 0.0}
LATE = "the generator was late: p99 1095 us"


@pytest.fixture
def gen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("gen", ROOT / "tools" / "gen.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    return module


def write(folder: Path, name: str, notes: list[str], **systems: dict[str, float]) -> None:
    result = {"machine": "M", "systems": systems, "bars": [BAR], "notes": notes}
    (folder / f"{name}.json").write_text(json.dumps(result))


def test_a_run_that_the_machine_disturbed_says_so_beside_its_figures(
    gen: Any, tmp_path: Path
) -> None:
    write(tmp_path, "soak", ["10 minutes at 60% of the peak", LATE], tidegate={"p99_us": 1039871})
    table = list(gen._figures())
    assert "| | tidegate: microseconds at p99 | | 1,039,871 |" in table
    assert f"- `soak`: {LATE}" in table
    assert not any("10 minutes at 60%" in row for row in table)


def test_a_run_that_nothing_disturbed_says_nothing_of_it(gen: Any, tmp_path: Path) -> None:
    write(tmp_path, "latency", ["times are of the seconds in which no core was away"])
    table = "\n".join(gen._figures())
    assert "`latency` | open loop at 60 % of the peak, 60 s: failed requests" in table
    assert "disturbed" not in table


def test_how_exactness_was_counted_stands_below_it_and_what_was_not_measured(
    gen: Any, tmp_path: Path
) -> None:
    notes = ["N = 10", "3 periods of each", "over and under are what is sure"]
    figures = {f"{what}{end}_percent": 0.0 for what in ("over", "under") for end in ("", "_bound")}
    named = {"exact, fixed_window, 1x, 4 nodes": figures}
    write(tmp_path, "accuracy", [*notes, "sampled is not measured: policy:11:22: error"], **named)
    last = list(gen._accuracy())[-1]
    assert last == f"\n{'; '.join(notes)}; sampled is not measured."


def test_a_fault_without_a_result_is_a_row_that_says_why(
    gen: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = {"scenario": "clock-back", "what": "w", "promise": "p"}
    faults = tmp_path / "faults.json"
    faults.write_text(
        json.dumps(
            {
                "date": "d",
                "machine": "M",
                "scenarios": 2,
                "rows": [{**about, "outcome": "skipped", "why": "no libfaketime"}],
            }
        )
    )
    monkeypatch.setattr(gen, "FAULTS", faults)
    head, _, row, *rest = gen._faults()
    assert row.count("|") == head.count("|")
    assert row.startswith("| `clock-back`: w |")
    assert row.endswith("| p | skipped: no libfaketime |")
    assert rest[0] == "\nThe run broke off: 1 scenarios are missing."
