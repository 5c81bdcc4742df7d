"""`tidegate`, `tidegate validate` and `tidegate schema` as people and scripts meet them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tidegate.cli import main as cli
from tidegate.errors import ConfigError

EXAMPLE = Path(__file__).parents[3] / "examples" / "shop.yaml"
BAD = """\
version: 1
domains:
  shop:
    limits:
      - {id: a, rate: 1m/min}
      - {id: b, per: [user], rate: 5/min}
"""
Output = pytest.CaptureFixture[str]


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    return path


def started(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli.main", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_valid_file_is_one_line_and_0(capsys: Output) -> None:
    assert cli.main(["validate", str(EXAMPLE)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{EXAMPLE}: valid, 1 domain, 5 limits, 2 plans, 1 tenant (revision ")
    assert (out.count("\n"), err) == (1, "")


def test_problems_name_place_path_and_fix_and_give_1(bad: Path, capsys: Output) -> None:
    assert cli.main(["validate", str(bad)]) == 1
    assert capsys.readouterr().out == (
        f'{bad}:5:24: error: rate "1m/min": "m" is no multiplier\n'
        "    at   domains.shop.limits[0].rate\n"
        "    fix  did you mean 1M?\n"
        f'{bad}:6:22: warning: leaving out "user" switches this limit off\n'
        "    at   domains.shop.limits[1].per\n"
        "    fix  say what is meant: missing: shared, deny, or skip where the gateway always"
        " sends it\n"
        "\n"
        f"{bad}: invalid, 1 error, 1 warning\n"
    )


def test_warnings_alone_are_printed_and_give_0(bad: Path, capsys: Output) -> None:
    bad.write_text(BAD.replace("1m", "1M"))
    assert cli.main(["validate", str(bad)]) == 0
    out = capsys.readouterr().out
    assert "warning: leaving out" in out
    assert "valid, 1 warning, 1 domain" in out


def test_several_files_are_all_checked(bad: Path, capsys: Output) -> None:
    assert cli.main(["validate", str(EXAMPLE), str(bad)]) == 1
    assert capsys.readouterr().out.endswith("2 files: 1 valid, 1 not\n")


def test_a_file_that_is_not_there_gives_2_and_the_others_are_still_checked(
    bad: Path, capsys: Output
) -> None:
    assert cli.main(["validate", "/nowhere.yaml", str(bad)]) == 2
    out, err = capsys.readouterr()
    assert err == "tidegate: error: cannot read /nowhere.yaml: no such file or directory\n"
    assert "1M" in out


def test_json_is_one_stable_object(bad: Path, capsys: Output) -> None:
    assert cli.main(["validate", "--format", "json", str(bad), str(EXAMPLE), "/nowhere"]) == 2
    told = json.loads(capsys.readouterr().out)
    revision = told["files"][1].pop("revision")
    assert len(revision) == 12
    assert told == {
        "valid": False,
        "errors": 1,
        "warnings": 1,
        "files": [
            {
                "file": str(bad),
                "valid": False,
                "unreadable": None,
                "revision": None,
                "problems": [
                    {
                        "severity": "error",
                        "line": 5,
                        "column": 24,
                        "path": "domains.shop.limits[0].rate",
                        "message": 'rate "1m/min": "m" is no multiplier',
                        "hint": "did you mean 1M?",
                    },
                    {
                        "severity": "warning",
                        "line": 6,
                        "column": 22,
                        "path": "domains.shop.limits[1].per",
                        "message": 'leaving out "user" switches this limit off',
                        "hint": "say what is meant: missing: shared, deny, or skip where the "
                        "gateway always sends it",
                    },
                ],
            },
            {"file": str(EXAMPLE), "valid": True, "unreadable": None, "problems": []},
            {
                "file": "/nowhere",
                "valid": False,
                "unreadable": "cannot read /nowhere: no such file or directory",
                "revision": None,
                "problems": [],
            },
        ],
    }


@pytest.mark.parametrize("arguments", [["validate"], ["validate", "--nope"], ["schema", "x"]])
def test_wrong_usage_gives_2(arguments: list[str], capsys: Output) -> None:
    assert cli.main(arguments) == 2
    assert "usage: tidegate" in capsys.readouterr().err


def test_an_unknown_command_names_the_nearest(capsys: Output) -> None:
    assert cli.main(["validat", "x"]) == 2
    assert 'unknown command "validat"; did you mean validate?' in capsys.readouterr().err
    assert cli.main(["--versoin"]) == 2
    assert "did you mean --version?" in capsys.readouterr().err


def test_help_lists_every_command_and_teaches(capsys: Output) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in cli.COMMANDS)
    assert "first steps:" in out
    assert cli.main([]) == 2
    assert capsys.readouterr().out == out
    assert cli.main(["help", "validate"]) == 0
    assert "a policy file" in capsys.readouterr().out


def test_the_version_is_told(capsys: Output) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tidegate ")


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ConfigError("no"), 2, "tidegate: error: no\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_and_ctrl_c_show_no_traceback(
    error: BaseException,
    code: int,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Output,
) -> None:
    def run(_: object) -> int:
        raise error

    broken = ModuleType("broken")
    vars(broken).update(add_arguments=lambda _: None, run=run)
    monkeypatch.setitem(sys.modules, "broken", broken)
    monkeypatch.setitem(cli.COMMANDS, "broken", ("broken", "breaks"))
    assert cli.main(["broken"]) == code
    assert capsys.readouterr().err == told


def test_a_real_ctrl_c_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(
        "import os, signal\n"
        "def add_arguments(parser): pass\n"
        "def run(args): os.kill(os.getpid(), signal.SIGINT)\n"
    )
    script = (
        "import sys; from tidegate.cli import main as cli;"
        "cli.COMMANDS['x'] = ('interrupting', 'interrupts'); sys.exit(cli.main(['x']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    tenants = "".join(f"      t{index}: {{plan: none}}\n" for index in range(3000))
    path = tmp_path / "many.yaml"
    path.write_text(f"version: 1\ndomains:\n  a:\n    tenant_key: t\n    tenants:\n{tenants}")
    process = started("validate", str(path))
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


def test_help_loads_no_command() -> None:
    script = (
        "import sys; from tidegate.cli import main as cli; cli.main(['--help']);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert not {"pydantic", "yaml", "tidegate.policy", "tidegate._native"} & loaded


def test_schema_prints_a_json_schema(capsys: Output) -> None:
    assert cli.main(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["title"] == "Tidegate policy"
    assert schema["additionalProperties"] is False
