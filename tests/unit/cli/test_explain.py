"""`tidegate explain`: what is printed, and the exit codes."""

import json
from pathlib import Path

import pytest

from tests.servers.native import TOKEN, Native
from tidegate.cli.main import main

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, when: {route: [/s, "/f*"]}, per: [tenant], rate: 10/min, burst: 5}
      - {id: login, when: {route: /login}, per: [ip], rate: 5/min}
    plans: {pro: {search: {rate: 60/min}}}
    tenants: {acme: {plan: pro}}
"""


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["explain", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_file_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    asked = ("shop", "tenant=acme", "route=/find", "--policy", str(file))
    code, out, _ = said(capsys, *asked)
    assert code == 0
    assert out.splitlines()[:-1] == [
        "shop  tenant=acme route=/find",
        "  search  60 per 1 min, 30 at once, token_bucket",
        "    numbers of plan pro",
        "    applies because route is /find (/s or /f*)",
        "    counted for tenant=acme",
        "does not apply:",
        "  login: route is /find; it wants /login; the request has no ip, which it counts by",
    ]
    code, out, _ = said(capsys, *asked, "--json")
    assert json.loads(out)["descriptors"][0]["applies"][0]["id"] == "search"


def test_a_quota_is_explained_by_its_calendar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.yaml"
    quota = "{id: monthly, per: [tenant], quota: 5M/month, time_zone: Europe/Berlin}"
    file.write_text(f"version: 1\ndomains: {{shop: {{limits: [{quota}]}}}}")
    _, out, _ = said(capsys, "shop", "tenant=acme", "--policy", str(file))
    assert out.splitlines()[1] == "  monthly  5,000,000 per month in Europe/Berlin, quota"


def test_a_denial_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", TOKEN)
    with Native(POLICY) as node:
        server = ("--server", f"http://{node.server.http_address}")
        node.check({"tenant": "b", "route": "/s"}, cost=4)
        denied = node.check({"tenant": "b", "route": "/s\x1b"[:2]}, cost=2)
        code, out, _ = said(capsys, denied["decision_id"], *server)
        assert code == 0
        assert out.splitlines() == [
            f"denied   2025-12-01T02:00:00.000Z  shop  {denied['decision_id']}",
            "  asked  tenant=b route=/s",
            "  search  denied it: over its limit",
            "    4 of 5 used, 10 per 1 min; asked for 2",
            "    has room again at 2025-12-01T02:00:06.000Z",
            "  the same request passes from 2025-12-01T02:00:06.000Z on, after 6 s",
            f"  policy revision {denied['revision']}",
        ]
        code, _, err = said(capsys, "01KBBBBBBBBBBBBBBBBBBBBBBB", *server)
        assert code == 1
        assert "reach back to 2025-12-01T02:00:00.000Z" in err
        monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN")
        code, _, err = said(capsys, denied["decision_id"], *server)
        assert code == 2
        assert "explanations need the admin token" in err


def test_a_file_knows_no_decisions(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "01KBBBBBBBBBBBBBBBBBBBBBBB", "--policy", "x.yaml")
    assert (code, "a file knows no decisions" in err) == (2, True)
