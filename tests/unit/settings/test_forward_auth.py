"""The file of doors for proxies: defaults filled in, each mistake named with its place."""

import json
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.servers.native import snapshot
from tidegate import _native
from tidegate.errors import ConfigError
from tidegate.settings.forward_auth import FIELDS, read_doors

DOOR = """
[forward_auth.web]
domain = "shop"
descriptors = [{ ip = "{address}" }]
"""


def doors(tmp_path: Path, text: str) -> bytes:
    file = tmp_path / "doors.toml"
    file.write_text(text)
    return read_doors(str(file))


def start(doors: bytes) -> None:
    """Starts a server with these doors and stops it."""
    options = _native.ServiceOptions(
        http="127.0.0.1:0",
        grpc="127.0.0.1:0",
        workers=1,
        max_counters=10,
        store=None,
        prefix=None,
        deadline_us=1,
        headers="github",
        drain_notice_us=0,
    )
    data = snapshot("version: 1\ndomains: {}\n")
    _native.Server.start(data, options, admin_token=None, forward_auth=doors).drain()


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    made = json.loads(doors(tmp_path, DOOR))["web"]
    assert list(made) == list(FIELDS)
    assert made["deny_status"] == 429
    assert made["trusted_proxies"] == []
    assert made["uri"] is None
    assert made["address"] == "x-forwarded-for"


def test_the_engine_takes_the_defaults_and_the_example(tmp_path: Path) -> None:
    start(doors(tmp_path, DOOR))
    example = read_doors(str(ROOT / "examples/doors.toml"))
    assert set(json.loads(example)) == {"nginx", "haproxy", "caddy"}
    start(example)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "no TOML"),
        ("", r"there is no table \[forward_auth.NAME\]"),
        ("[serve]\nhttp = ':1'", '"serve" is unknown here'),
        ("[forward_auth]\nweb = 1", "forward_auth.web: is a table"),
        (DOOR + "domian = 'x'", "forward_auth.web.domian: there is no such field.*mean domain"),
        (DOOR + "cost = '1'", "forward_auth.web.cost: must be a whole number"),
        (DOOR + "cost = true", "must be a whole number"),
        (DOOR + "fold_case = 1", "must be true or false"),
        (DOOR + "trusted_proxies = '::1'", "must be a list of texts"),
        (DOOR.replace('"{address}"', "1"), "must be a list of tables of texts"),
        (DOOR.replace("domain", "uri"), "domain is missing"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as raised:
        doors(tmp_path, text)
    assert "doors.toml" in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_doors(str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (DOOR + "deny_status = 302", "forward_auth.web.deny_status: 302 is no error"),
        (DOOR + "ipv6_prefix = 300", "ipv6_prefix: must be 1 to 128"),
        (DOOR + "trusted_proxies = ['10.0.0.0/99']", 'trusted_proxies: "10.0.0.0/99" is no'),
        (DOOR.replace("{address}", "{adress}"), r"descriptors\[0\].ip: "),
    ],
)
def test_what_the_engine_refuses_is_named_too(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        start(doors(tmp_path, text))
