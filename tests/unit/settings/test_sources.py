"""Who says a setting: flag before variable before file before default; mistakes have a place."""

import argparse
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.errors import ConfigError
from tidegate.settings import ROWS, InForce, Source, add_arguments, in_force

FILE = """\
# A comment with workers = 9
[serve]
workers = 3
store = "redis://u:secret@file"
"""


def found(*flags: str, **environment: str) -> InForce:
    """What is in force with those flags and variables."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return in_force(parser.parse_args(flags), environment)


def said(*flags: str, **environment: str) -> str:
    """What is said of settings that cannot be used."""
    with pytest.raises(ConfigError) as caught:
        found(*flags, **environment)
    return str(caught.value)


def where(result: InForce, name: str) -> tuple[str | None, Source, str]:
    """The value as shown, and who said it."""
    one = next(one for one in result.found if one.row.name == name)
    return one.shown, one.source, one.where


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tidegate.toml"
    path.write_text(FILE)
    return path


def test_a_flag_wins_over_a_variable_and_that_over_the_file_and_that_over_the_default(
    file: Path,
) -> None:
    config = ("--config", str(file))
    assert where(found(), "workers") == ("1", Source.DEFAULT, "")
    assert where(found(*config), "workers") == ("3", Source.FILE, f"{file}:3")
    result = found(*config, TIDEGATE_WORKERS="4")
    assert where(result, "workers") == ("4", Source.ENVIRONMENT, "TIDEGATE_WORKERS")
    result = found(*config, "--workers", "5", TIDEGATE_WORKERS="4")
    assert where(result, "workers") == ("5", Source.FLAG, "--workers")
    assert result.settings.workers == 5


def test_the_file_is_named_by_the_environment_too_and_the_flag_goes_first(file: Path) -> None:
    assert found(TIDEGATE_CONFIG=str(file)).settings.workers == 3
    other = file.with_name("other.toml")
    other.write_text("serve.workers = 7")
    assert found("--config", str(other), TIDEGATE_CONFIG=str(file)).settings.workers == 7


def test_no_file_is_read_unless_it_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    assert found().settings.workers == 1


def test_an_empty_variable_says_nothing(file: Path) -> None:
    empty = {"TIDEGATE_WORKERS": "", "TIDEGATE_HTTP": "", "TIDEGATE_ADMIN_TOKEN": ""}
    assert found("--config", str(file), **empty).settings.workers == 3
    assert found(**empty, TIDEGATE_CONFIG="").settings.admin_token is None


def test_secrets_are_never_shown(file: Path) -> None:
    result = found("--config", str(file), "--admin-token", "sesame")
    assert where(result, "store")[0] == "redis://u:***@file"
    assert where(result, "admin-token")[0] == "***"
    assert where(found(), "admin-token")[0] is None
    for text in (said("--store", "p:sesame"), said("--admin-token", "sesame sesame")):
        assert "sesame" not in text
        assert "its value" in text


def test_a_policy_in_the_file_is_looked_for_beside_it(file: Path) -> None:
    file.write_text('[serve]\npolicy = "shop.yaml"')
    assert found("--config", str(file)).settings.policy == str(file.parent / "shop.yaml")
    assert found("--config", str(file), "--policy", "a.yaml").settings.policy == "a.yaml"
    file.write_text('[serve]\npolicy = "/etc/shop.yaml"')
    assert found("--config", str(file)).settings.policy == "/etc/shop.yaml"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("TIDEGATE_SOTRE", "did you mean TIDEGATE_STORE?"),
        ("TIDEGATE_MAXCOUNTERS", "did you mean TIDEGATE_MAX_COUNTERS?"),
        ("TIDEGATE_QUUX_XYZZY", "tidegate config lists all settings"),
    ],
)
def test_a_variable_that_is_no_setting_is_an_error(name: str, hint: str) -> None:
    text = said(**{name: "x"})
    assert text.startswith(f"{name}: ")
    assert hint in text


@pytest.mark.parametrize(
    "name",
    [
        "TIDEGATE_SERVICE_HOST",
        "TIDEGATE_SERVICE_PORT",
        "TIDEGATE_SERVICE_PORT_GRPC",
        "TIDEGATE_PORT",
        "TIDEGATE_PORT_8080_TCP",
        "TIDEGATE_PORT_8080_TCP_ADDR",
        "TIDEGATE_GRPC_SERVICE_HOST",
        "TIDEGATE_HTTP_PORT_8080_TCP_PROTO",
    ],
)
def test_what_kubernetes_says_of_a_service_of_our_name_is_no_mistake(name: str) -> None:
    assert found(**{name: "tcp://10.0.0.1:8080"}).settings.http == "127.0.0.1:8080"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("[serve]\nworkers = 0", ":2", 'workers: "0" must be a whole number'),
        ("[serve]\n\nstore_timeout = '5ms'", ":3", 'did you mean "store-timeout"?'),
        ("[serve]\nwrokers = 2", ":2", 'did you mean "workers"?'),
        ("[serve]\nconfig = 'x'", ":2", "names no other"),
        ("[serve]\nworkers = true", ":2", "must be a whole number"),
        ("[serve]\nworkers = 2.0", ":2", "must be a whole number"),
        ("[serve]\nstore-timeout = 5", ":2", 'quotes: store-timeout = "5ms"'),
        ("[serve]\nadmin-token = 5", ":2", "must be a text in quotes"),
        ("[serve]\nhttp = ['a:1']", ":2", "must be a text in quotes"),
        ("serve.workers = 0", ":1", '"0" must be'),
        ("a = 1\nserve = {workers = 0}", ":2", '"0" must be'),
        ("workers = 2", ":1", "write it below a line [serve]"),
        ("\n[server]\nworkers = 2", ":2", "stand in the table [serve]"),
        ("serve = 2", ":1", "is a table"),
        ("[serve]\nworkers = ", ":2", "no TOML: invalid value"),
        ("[serve]\nworkers = 1\nworkers = 2\n", ":3:12", "no TOML: cannot overwrite"),
        ("[serve]\nstore = 'redis://u:p@h", ":2", "no TOML"),
        ("[serve]\nhttp = '\udcff'", ":2", "no UTF-8"),
        ("a = " + "[" * 10_000, "", "nested too deeply"),
        ("[serve]\nworkers = " + "9" * 5000, ":2", "no TOML"),
        ("[serve]\n'a\x1b[31m' = 1", "", "no TOML"),
        ('[serve]\n"a\\u001b[31m" = 1', ":1", r'"a\x1b[31m" is no setting'),
        ('[serve]\nhttp = "\\u0000:1"', ":2", r'http: "\x00:1" names a host'),
        ("#" * (1 << 21), "", "too long"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(
    file: Path, text: str, place: str, message: str
) -> None:
    file.write_bytes(text.encode(errors="surrogateescape"))
    found_text = said("--config", str(file))
    assert f"{file}{place}" in found_text
    assert message in found_text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=80)
    | st.lists(
        st.sampled_from(["[serve]", "serve", ".", "=", "\n", '"', "'", "{", "}", "[", "]", "1"])
        | st.sampled_from([row.name for row in ROWS]),
        max_size=12,
    ).map(lambda parts: "".join(parts).encode())
)
def test_any_file_is_read_or_refused(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with suppress(ConfigError):
        found("--config", str(file))


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "cannot be read: no such file" in said("--config", str(tmp_path / "none.toml"))
    assert "cannot be read: is a directory" in said("--config", str(tmp_path))


def test_all_mistakes_are_named_at_once_even_those_that_others_go_before(file: Path) -> None:
    file.write_text("[serve]\nworkers = 0\nwhat = 1\n")
    config = ("--config", str(file))
    text = said(*config, "--workers", "2", "--http", "x", TIDEGATE_GRPC="y", TIDEGATE_Z="1")
    assert text.startswith("5 settings cannot be used:\n")
    for place in (f"{file}:2", f"{file}:3", "--http", "TIDEGATE_GRPC", "TIDEGATE_Z"):
        assert f"\n  {place}: " in text


def test_two_doors_at_one_address_are_refused() -> None:
    assert said("--grpc", "127.0.0.1:8080").startswith("--grpc: HTTP and gRPC cannot both")
    assert said("--http", "127.0.0.1:8081").startswith("--http: ")
    assert found("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0").settings.grpc == "127.0.0.1:0"


def test_a_command_that_takes_some_settings_ignores_the_others(file: Path) -> None:
    variables = {"TIDEGATE_STORE": "nonsense", "TIDEGATE_CONFIG": str(file)}
    parser = argparse.ArgumentParser()
    add_arguments(parser, ["http", "headers"])
    result = in_force(parser.parse_args(["--http", ":1"]), variables)
    assert [one.row.name for one in result.found] == ["http", "headers"]
    assert (result.settings.store, result.settings.workers) == (None, 1)


@pytest.mark.parametrize(
    ("flags", "said_of_it"),
    [
        (["--tls-cert", "a"], "--tls-cert: tls-cert needs tls-key beside it"),
        (["--tls-key", "a"], "--tls-key: tls-key needs tls-cert beside it"),
        (["--tls-client-ca", "a"], "--tls-client-ca: tls-client-ca needs tls-cert beside it"),
        (
            ["--tls-cert", "a", "--tls-key", "b", "--tls-client-uris", "spiffe://m/a"],
            "--tls-client-uris: tls-client-uris needs tls-client-ca beside it",
        ),
    ],
)
def test_half_of_tls_is_refused(flags: list[str], said_of_it: str) -> None:
    assert said(*flags) == said_of_it


def test_uris_of_clients_are_shown_as_they_can_be_written() -> None:
    flags = ["--tls-cert", "a", "--tls-key", "b", "--tls-client-ca", "c"]
    result = found(*flags, "--tls-client-uris", "spiffe://m/a, spiffe://m/b/*")
    assert where(result, "tls-client-uris")[0] == "spiffe://m/a,spiffe://m/b/*"
