"""The command line: each command explains itself, and asking for help loads nothing."""

import subprocess
import sys

import pytest

from tidegate.cli.main import COMMANDS

HEAVY = ("pydantic", "yaml", "tidegate._native", "tidegate.policy", "tidegate.compiler", "asyncio")
"""What takes time to import and helps nobody who asks for help."""


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command: str) -> None:
    done = _run("-m", "tidegate.cli.main", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"tidegate {command}" in done.stdout


def test_the_list_of_commands_is_complete_and_loads_nothing() -> None:
    code = (
        "import sys; from tidegate.cli.main import main; code = main(['--help']);"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules]); sys.exit(code)"
    )
    done = _run("-c", code)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in COMMANDS)
    assert "LOADED []" in done.stdout


def test_import_of_the_package_loads_no_policy_code() -> None:
    code = f"import sys, tidegate; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = _run("-c", code)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
