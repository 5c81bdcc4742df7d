"""The results of modes that are measured one by one stand together."""

import json
from pathlib import Path

from benchmarks.accuracy.rows import earlier


def test_modes_that_were_not_measured_anew_stay(tmp_path: Path) -> None:
    file = tmp_path / "accuracy.json"
    assert earlier(file, {"local"}) == ({}, [])
    bar = {"op": "<=", "bar": 0, "value": 0}
    file.write_text(
        json.dumps(
            {
                "systems": {"exact, fixed_window, 2x, 4 nodes": {"asked": 1}, "local, a": {}},
                "bars": [
                    {"what": "exact, 4 nodes: admitted over, percent of N", **bar},
                    {"what": "local, 4 nodes: admitted over, percent of N", **bar},
                ],
            }
        )
    )
    figures, bars = earlier(file, {"local"})
    assert list(figures) == ["exact, fixed_window, 2x, 4 nodes"]
    assert [it.what for it in bars] == ["exact, 4 nodes: admitted over, percent of N"]
