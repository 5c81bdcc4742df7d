"""The unit: systemd takes it, and its settings are such."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, DRAIN_LIMIT_S, settings_of
from tests.docs.pages import page

UNIT = DEPLOY / "systemd" / "tidegate.service"
SETTINGS = DEPLOY / "systemd" / "tidegate.toml"
PROGRAM = "/opt/tidegate/bin/tidegate"
MOST_EXPOSED = 20
"""Of 100, as systemd reckons."""


def values(key: str) -> list[str]:
    """What the unit says for a key."""
    lines = UNIT.read_text().splitlines()
    return [line.partition("=")[2] for line in lines if line.partition("=")[0] == key]


def test_its_command_and_settings_can_be_used() -> None:
    (command,) = values("ExecStart")
    program, *arguments = command.split()
    assert program == PROGRAM
    assert arguments[-1] == f"/etc/tidegate/{SETTINGS.name}"
    settings = settings_of([*arguments[:-1], str(SETTINGS)], {})
    assert settings.policy == str(SETTINGS.parent / "policy.yaml")
    assert (settings.store, settings.admin_token) == (None, None)  # no secret in a file for all
    (check,) = values("ExecStartPre")
    assert check == f"{PROGRAM} validate /etc/tidegate/policy.yaml"


def test_counters_may_be_kept_where_the_unit_lets_a_node_write(tmp_path: Path) -> None:
    without = SETTINGS.read_text()
    kept = tmp_path / SETTINGS.name
    kept.write_text(without.replace("# state-file", "state-file"))
    named = [settings_of(["serve", "--config", str(file)], {}) for file in (SETTINGS, kept)]
    assert [one.state_file for one in named] == [None, "/var/lib/tidegate/state"]
    assert values("StateDirectory") == ["tidegate"]  # in /var/lib
    assert values("StateDirectoryMode") == ["0700"]
    assert "`state-file`" in page("docs/deploy.md").text


def test_a_node_has_the_time_to_drain() -> None:
    settings = settings_of(["serve", "--config", str(SETTINGS)], {})
    (stop,) = values("TimeoutStopSec")
    assert int(stop.removesuffix("s")) > settings.drain_notice_us / 1_000_000 + DRAIN_LIMIT_S


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze on this machine")
    program = Path(sys.executable).with_name("tidegate")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(PROGRAM, str(program)))
    for arguments in (
        ["verify", "--recursive-errors=no", "--man=no", str(unit)],
        ["security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(unit)],
    ):
        done = subprocess.run(
            [analyze, *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert unit.name not in done.stderr, done.stderr
