"""`tidegate hot`: what is printed, and the exit codes."""

import json
import time
from typing import Any

import pytest

from tests.servers.native import TOKEN, Native
from tidegate.cli.hot import Hot, HotCounter, hot_page
from tidegate.cli.main import main

POLICY = """
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [tenant], rate: 5/h}
"""
COUNTER: HotCounter = {
    "domain": "shop",
    "id": "search",
    "values": [{"key": "tenant", "value": "acme"}, {"key": "user", "value": None}],
    "values_left_out": 0,
    "rate": {"n": 100, "period_ms": 60_000},
    "limit": 100,
    "consistency": "exact",
    "decided_in": "store",
    "could_be_local": False,
    "per_second": 6170.4,
    "at_least": 5900.0,
    "at_most": 6440.2,
    "share": 0.5,
    "denied_share": 0.125,
}
TOLD: Hot = {
    "time": "2025-12-01T02:00:00.000Z",
    "half_life_ms": 5000,
    "one_in": 32,
    "per_second": 12340.8,
    "counters": [
        COUNTER,
        {**COUNTER, "id": "all", "values": [], "per_second": 3.0, "values_left_out": 2},
    ],
}


def ask_often(node: Native) -> None:
    check = {"domain": "shop", "descriptors": [{"tenant": "acme"}]}
    assert node.post("/v1/check", {"checks": [check] * 1000}).status == 200


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["hot", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_table_says_how_often_and_of_whom() -> None:
    beside = "100 per 1 min  exact  "
    assert hot_page(TOLD).splitlines() == [
        "2025-12-01T02:00:00.000Z  12,341 decisions a second on this node",
        "a second  at least  at most  share  denied  rate           decided  counter",
        f"   6,170     5,900    6,440  50.0%   12.5%  {beside}  shop  search  tenant=acme no user",
        f"       3     5,900    6,440  50.0%   12.5%  {beside}  shop  all  and 2 more",
    ]
    quiet: Hot = {**TOLD, "counters": []}
    assert hot_page(quiet).splitlines()[1:] == ["no counter was met often enough to be seen"]


@pytest.mark.parametrize(
    ("consistency", "decided_in", "said"),
    [
        ("exact", "store", "exact "),
        ("exact", "node", "exact "),
        ("local", "node", "local, by the node "),
        ("auto", "node", "auto, by the node "),
        ("auto", "store", "auto, by the store "),
    ],
)
def test_the_table_says_who_decides(consistency: str, decided_in: str, said: str) -> None:
    counter: HotCounter = {**COUNTER, "consistency": consistency, "decided_in": decided_in}
    assert f"100 per 1 min  {said}" in hot_page({**TOLD, "counters": [counter]})


def test_a_hint_says_what_could_be_done() -> None:
    def hint(counter: HotCounter) -> str:
        last = hot_page({**TOLD, "counters": [counter]}).splitlines()[-1]
        return last.partition("    hint: ")[2]

    spared: HotCounter = {**COUNTER, "could_be_local": True}
    assert "`consistency: auto`" in hint(spared)
    assert hint({**spared, "per_second": 900.0}) == ""
    assert hint({**spared, "consistency": "auto"}) == ""
    assert hint(COUNTER) == ""
    assert "denied" in hint({**spared, "denied_share": 0.5})


def test_what_could_command_a_terminal_is_escaped() -> None:
    odd: HotCounter = {**COUNTER, "domain": "a\x1b", "values": [{"key": "k", "value": "\x1b[2J"}]}
    assert "\x1b" not in hot_page({**TOLD, "counters": [odd]})


def test_a_node_tells_its_hottest_counters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", TOKEN)
    with Native(POLICY) as node:
        server = ("--server", f"http://{node.server.http_address}")
        ask_often(node)
        code, out, _ = said(capsys, "--top", "1", *server)
        assert code == 0
        *_, row, hint = out.splitlines()
        assert row.endswith("5 per 1 h  exact    shop  each  tenant=acme")
        assert "most of it is denied" in hint
        code, out, _ = said(capsys, "--json", *server)
        told: dict[str, Any] = json.loads(out)
        assert (code, told["counters"][0]["id"]) == (0, "each")
        monkeypatch.delenv("TIDEGATE_ADMIN_TOKEN")
        code, _, err = said(capsys, *server)
        assert (code, "hot counters need the admin token" in err) == (2, True)


@pytest.mark.parametrize(("more", "first"), [((), "2025-12-01T02:00:00.000Z"), (("--json",), "{")])
def test_watch_tells_again_until_it_is_interrupted(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: tuple[str, ...],
    first: str,
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", TOKEN)
    with Native(POLICY) as node:
        server = ("--server", f"http://{node.server.http_address}")
        code, out, _ = said(capsys, "--watch", *more, *server)
    assert code == 0
    assert sum(line.startswith(first) for line in out.splitlines()) == 3


def test_a_node_that_does_not_look_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_ADMIN_TOKEN", TOKEN)
    with Native(POLICY, metrics=False) as node:
        for more in ((), ("--watch",)):
            code, out, err = said(capsys, *more, "--server", node.server.http_address)
            assert (code, out) == (1, "")
            assert "--metrics off" in err


def test_what_cannot_be_asked_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in ("0", "1025"):
        code, _, err = said(capsys, "--top", wrong)
        assert (code, "--top: must be from 1 to 1024" in err) == (2, True), err
    code, _, err = said(capsys, "--server", "http://127.0.0.1:1")
    assert (code, "no service at http://127.0.0.1:1" in err) == (2, True)
    assert "--policy" not in err, "no file has hot counters"
