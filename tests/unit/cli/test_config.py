"""`tidegate config`: what is in force, where from, and never a secret."""

import json
from pathlib import Path

import pytest

from tidegate.cli.main import main
from tidegate.settings import ROWS


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ROWS:
        monkeypatch.delenv(row.variable, raising=False)
    monkeypatch.delenv("TIDEGATE_PROFILE", raising=False)


def test_each_setting_is_a_line_with_its_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "t.toml"
    file.write_text('[serve]\nstore = "redis://u:sesame@h"\n')
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", "sesame")
    assert main(["config", "--config", str(file), "--workers", "2"]) == 0
    out = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert list(lines) == [row.name for row in ROWS]
    assert lines["workers"] == ["2", "--workers"]
    assert lines["store"] == ["redis://u:***@h", f"{file}:2"]
    assert lines["admin-token"] == ["***", "TIDEGATE_ADMIN_TOKEN"]
    assert lines["headers"] == ["github", "default"]
    assert lines["policy"] == ["-", "default"]
    assert "sesame" not in out


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--json", "--store", "redis://u:sesame@h"]) == 0
    out = capsys.readouterr().out
    shown = json.loads(out)
    assert shown["store"] == {"value": "redis://u:***@h", "source": "flag", "where": "--store"}
    assert shown["policy"] == {"value": None, "source": "default", "where": None}
    assert "sesame" not in out


@pytest.mark.parametrize(
    ("flag", "meant"), [("--wrokers", "--workers"), ("--store_timeout=5ms", "--store-timeout")]
)
def test_a_flag_that_does_not_exist_is_answered_with_what_was_meant(
    flag: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", flag, "2"]) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


def test_a_flag_is_said_whole_since_a_later_one_may_begin_alike() -> None:
    assert main(["config", "--work", "2"]) == 2


def test_what_cannot_be_used_is_said_and_nothing_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "--workers", "0"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--workers" in said.err
