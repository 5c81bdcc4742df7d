"""Counters in memory through a stop and the next start."""

import os
import signal
import stat
from pathlib import Path

import pytest

from tests.integration.serve.test_serve import ask
from tests.servers.tidegate import Tidegate
from tidegate.cli.main import main

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: bucket, per: [user], rate: 5 per 365 days}
      - {id: window, per: [user], rate: 6 per 365 days, algorithm: fixed_window}
      - {id: sliding, per: [user], rate: 7 per 365 days, algorithm: sliding_window}
      - {id: log, per: [user], rate: 8 per 365 days, algorithm: sliding_log}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def node(tmp_path: Path, file: Path) -> Tidegate:
    return Tidegate(POLICY, tmp_path, options=("--state-file", str(file)))


def remaining(node: Tidegate, user: str) -> list[int]:
    """What each limit would still let pass."""
    return [limit["remaining"] for limit in ask(node, user, "/v1/peek")["limits"]]


def use_up(node: Tidegate, user: str) -> None:
    assert [ask(node, user)["allowed"] for _ in range(6)] == [True] * 5 + [False]


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_what_is_used_up_stays_so_through_a_restart(
    node: Tidegate, file: Path, sig: signal.Signals
) -> None:
    with node:
        assert "state taken up" not in node.log(), "a missing file is normal"
        use_up(node, "ada")
        ask(node, "grace")
        assert node.stop(sig) == 0
        assert "state saved" in node.log()
        assert "counters=8" in node.log()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for _ in range(2):
            node.start()
            assert "state taken up" in node.log()
            assert not ask(node, "ada")["allowed"]
            assert remaining(node, "ada") == [0, 1, 2, 3]
            assert remaining(node, "grace") == [4, 5, 6, 7]
            assert node.stop() == 0


def test_after_a_crash_the_last_clean_stop_counts_and_nothing_twice(node: Tidegate) -> None:
    with node:
        for _ in range(2):
            ask(node, "ada")
        assert node.stop() == 0
        node.start()
        ask(node, "ada")
        ask(node, "grace")
        node.stop(signal.SIGKILL)
        node.start()
        assert remaining(node, "ada") == [3, 4, 5, 6]
        assert remaining(node, "grace") == [5, 6, 7, 8]


def test_limits_keep_what_they_counted_though_the_policy_changed_meanwhile(node: Tidegate) -> None:
    with node:
        use_up(node, "ada")
        assert node.stop() == 0
        head, *limits = POLICY.split("      - ")
        node.write(head + "".join(f"      - {limit}" for limit in limits[2:]))
        node.start()
        assert remaining(node, "ada") == [2, 3]
        assert node.stop() == 0
        node.write(POLICY.replace("6 per", "20 per"))
        node.start()
        assert remaining(node, "ada") == [0, 15, 2, 3]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"tgstate\n\x01\x00", "it ends too early"),
        (b"tgstate\n\x63\x00\x00\x00", "it has form 99"),
        (b"", "it holds no counters"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_and_replaced_at_the_stop(
    node: Tidegate, file: Path, content: bytes, why: str
) -> None:
    file.write_bytes(content)
    with node:
        assert "state not taken up" in node.log()
        assert why in node.log()
        use_up(node, "ada")
        assert node.stop() == 0
        node.start()
        assert not ask(node, "ada")["allowed"]


def test_what_a_node_takes_up_is_told_before_it_serves(node: Tidegate) -> None:
    with node:
        use_up(node, "ada")
        assert node.stop() == 0
        node.start()
        said = node.log()
        assert said.index("state saved") < said.index("state taken up") < said.rindex(" serving ")


def test_a_file_of_another_kind_stays(node: Tidegate, file: Path) -> None:
    with node:
        use_up(node, "ada")
        file.write_text("my notes\n")
        assert node.stop() == 0
        assert "state not saved" in node.log()
    assert file.read_text() == "my notes\n"


def test_what_cannot_be_is_named_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    serve = ["serve", "--policy", str(policy), "--state-file"]
    assert main([*serve, str(tmp_path / "state"), "--store", "redis://h"]) == 2
    assert "--state-file: state-file is for counters in memory" in capsys.readouterr().err
    assert main([*serve, str(tmp_path / "none" / "state")]) == 2
    assert f"--state-file: there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
    assert main([*serve, str(tmp_path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("notes", "holds no counters, and stays"),
        ("a word", "holds no counters, and stays"),
        ("a pipe", "is no file"),
        ("a link to itself", "cannot be read: too many levels of symbolic links"),
    ],
)
def test_what_counters_would_not_be_saved_over_is_refused_at_the_start(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str], kind: str, why: str
) -> None:
    if kind == "a pipe":
        os.mkfifo(file)
    elif kind == "a link to itself":
        file.symlink_to(file)
    else:
        file.write_text({"notes": "my notes of the last week\n", "a word": "tg"}[kind])
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    for command in (["config"], ["serve", "--policy", str(policy)]):
        assert main([*command, "--state-file", str(file)]) == 2
        assert f"--state-file: {why}: {file}; choose another path" in capsys.readouterr().err
