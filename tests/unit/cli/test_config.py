"""`tidegate config`: what is in force, where from, and never a secret."""

import json
from pathlib import Path

import pytest

from tests.contract.tls.certificates import Authority
from tidegate import _native
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


def refused_by_both(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What `config` says of settings, which is what `serve` says of them."""
    said = []
    for command in (["config"], ["serve", "--policy", "policy.yaml"]):
        assert main([*command, *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        said.append(err)
    assert said[0] == said[1]
    return said[0]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("foo://h", 'unknown scheme "foo"; use redis://'),
        ("redis://u:sesame@h/x", "database"),
        ("rediss://u:sesame@h?ssl_ca_certs=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("redis://h?colour=red", "colour"),
    ],
)
def test_a_store_that_cannot_be_used_is_named_as_serve_names_it(
    url: str, why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused_by_both(["--store", url], capsys)
    assert said.startswith("tidegate: error: --store: ")
    assert why in said
    assert "sesame" not in said
    monkeypatch.setenv("TIDEGATE_STORE", url)
    assert refused_by_both([], capsys).startswith("tidegate: error: TIDEGATE_STORE: ")


def test_what_is_set_beside_a_store_is_judged_with_it() -> None:
    said = [
        _native.check_store(
            "redis://h", prefix="tg:", deadline_us=5_000, wait_replicas=1, store_batch=batch
        )
        for batch in (64, 65)
    ]
    assert said == [None, "a call decides 1 to 64 requests"]


def test_files_that_cannot_be_used_are_all_named_as_serve_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doors, ca, settings = (tmp_path / name for name in ("doors.toml", "ca.pem", "t.toml"))
    doors.write_text('[forward_auth.x]\ndomain = "d"\ndescriptors = [{a = "{path}"}]\ncost = -1\n')
    ca.write_text("no certificate")
    certificate, key = Authority("a").server().write(tmp_path, "server")
    _, other = Authority("b").server().write(tmp_path, "other")
    settings.write_text(f'[serve]\ntls-cert = "{certificate}"\ntls-key = "{other}"\n')
    said = refused_by_both(
        [
            *("--config", str(settings), "--store", "foo://h", "--forward-auth", str(doors)),
            *("--otlp-endpoint", "https://c", "--otlp-ca", str(ca)),
        ],
        capsys,
    )
    assert "4 settings cannot be used" in said
    assert f"{settings}:3: not the key of the certificate: {other}" in said
    assert f"{doors}: forward_auth.x.cost" in said
    assert f"--otlp-ca: no PEM certificate of an authority: {ca}" in said
    doors.unlink()
    said = refused_by_both(["--forward-auth", str(doors), "--tls-cert", str(ca)], capsys)
    assert "tls-cert needs tls-key" in said, "what is wrong with a value comes first"
    said = refused_by_both(["--forward-auth", str(doors)], capsys)
    assert "no such file" in said
    both = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    said = refused_by_both([*both, "--tls-client-ca", str(ca)], capsys)
    assert said.startswith("tidegate: error: --tls-client-ca: ")
    assert main(["config", *both]) == 0


def test_a_collectors_key_is_masked_and_its_authority_needs_https(
    capsys: pytest.CaptureFixture[str],
) -> None:
    to = ["--otlp-endpoint", "http://c:4318"]
    assert main(["config", *to, "--otlp-headers", "X-Key=sesame,x-team=a"]) == 0
    out = capsys.readouterr().out
    assert "x-key=***,x-team=***" in out
    assert "sesame" not in out
    assert "write https in otlp-endpoint" in refused_by_both([*to, "--otlp-ca", "ca.pem"], capsys)
    assert "otlp-headers needs otlp-endpoint" in refused_by_both(["--otlp-headers", "a=b"], capsys)
