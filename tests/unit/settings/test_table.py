"""The table is whole: each row has a field, a default that can be read, and words for people."""

import dataclasses
import re

import pytest

from tests.docs.pages import ROOT
from tidegate import _native
from tidegate.settings import ROWS, Setting, Settings

_KUBERNETES_LIKE = re.compile(r"(^|-)(port|service-(host|port))($|-)")


def test_each_field_of_the_settings_has_a_row_and_the_other_way_round() -> None:
    assert [row.field for row in ROWS] == [field.name for field in dataclasses.fields(Settings)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_complete(row: Setting) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", row.name)
    assert row.help
    assert not row.help.endswith(".")
    assert row.kind.form
    assert "%" not in row.help  # argparse would format it
    if row.default:
        assert row.kind.is_secret or row.kind.show(row.kind.read(row.default)) == row.default


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_setting_has_a_name_that_kubernetes_gives_to_variables(row: Setting) -> None:
    assert not _KUBERNETES_LIKE.search(row.name)


def test_secrets_are_not_in_the_representation() -> None:
    values = {row.field: "x" for row in ROWS}
    values |= {row.field: "sesame" for row in ROWS if row.kind.is_secret}
    assert "sesame" not in repr(Settings(**values))  # type: ignore[arg-type]


def test_all_that_the_native_server_takes_can_be_set() -> None:
    taken = set(re.findall(r"(\w+)(?:=None)?[,)]", _native.ServiceOptions.__text_signature__ or ""))
    other_names = {
        "deadline_us": "store_timeout_us",
        "wait_replicas": "store_wait_replicas",
        "traces": "otlp_endpoint",
    }
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert {other_names.get(name, name) for name in taken} <= fields
    parts = ("service.py", "traces.py")
    source = "".join((ROOT / "src/tidegate/dataplane" / part).read_text() for part in parts)
    unused = [name for name in fields if f"settings.{name}" not in source]
    assert sorted(unused) == ["config", "policy"]
