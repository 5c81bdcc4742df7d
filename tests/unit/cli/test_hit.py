"""`tidegate hit`: what it asks, what it prints, its exit codes."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tidegate.cli.decision_text import Style, line, page, read_answer, spell_ms
from tidegate.cli.main import main
from tidegate.errors import InternalError

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: search, when: {route: /search}, per: [tenant], rate: 10/h}
      - {id: tokens, per: [tenant], rate: 1000/h, counts: tokens}
      - {id: tried, per: [tenant], rate: 1/h, on_exceed: shadow}
      - {id: closed, when: {route: /closed}, rate: 0/h}
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return str(file)


class _Handler(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, Any]]] = []
    answer: ClassVar[tuple[int, bytes]] = (200, b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.asked.append((self.path, json.loads(body)))
        status, answer = self.answer
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def service() -> Iterator[str]:
    """A service that answers what the test says."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    _Handler.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


DENIED: dict[str, Any] = {
    "allowed": False,
    "reason": "over_limit",
    "retry_after_ms": 12_345,
    "decision_id": "01K",
    "revision": "0123456789ab",
    "degraded": False,
    "binding": 1,
    "limits": [
        {
            "id": "all",
            "allowed": True,
            "limit": 1000,
            "remaining": 999,
            "reset_ms": 60,
            "window_ms": 60_000,
            "shadow": False,
        },
        {
            "id": "search",
            "allowed": False,
            "limit": 10,
            "remaining": 0,
            "reset_ms": 60_000,
            "window_ms": 60_000,
            "shadow": False,
        },
    ],
}


def test_a_file_is_asked_in_this_process(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["hit", "shop", "tenant=acme", "route=/search", "--cost", "3", "--policy", policy])
    said = capsys.readouterr().out
    assert code == 0
    assert said.startswith("allowed  shop  tenant=acme route=/search\n")
    assert "3 of 10 used per 1 h" in said
    assert "over, but in shadow" in said


def test_a_denial_says_who_and_why(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["hit", "shop", "tenant=a", "route=/search", "--cost", "11", "--policy", policy])
    said = capsys.readouterr().out
    assert code == 1
    assert "denied by search: the cost can never pass, the most at once is 10" in said
    code = main(["hit", "shop", "route=/closed", "--policy", policy])
    assert (code, "denied by closed: its rate is 0" in capsys.readouterr().out) == (1, True)


def test_no_limit_is_said(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hit", "shop", "user=ada", "--policy", policy]) == 0
    assert "no limit of shop applies" in capsys.readouterr().out


def test_repeat_shows_a_line_each(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    entries = ["tenant=a", "route=/search"]
    assert main(["hit", "shop", *entries, "--repeat", "12", "--policy", policy]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert "allowed" in lines[9]
    assert "search 10 of 10 used  over its limit; passes in " in lines[10]


def test_a_peek_takes_nothing(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    entries = ["tenant=a", "route=/search", "--peek"]
    assert main(["hit", "shop", *entries, "--repeat", "12", "--policy", policy]) == 0
    assert "0 of 10 used" in capsys.readouterr().out


def test_json_is_the_decision(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--cost", "tokens=900", "--json", "--policy", policy]
    assert main(["hit", "shop", "tenant=a", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(one["id"], one["remaining"]) for one in answer["limits"]] == [("tokens", 100)]
    assert main(["hit", "shop", "tenant=a", *options, "--repeat", "2"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(text)["allowed"] for text in lines] == [True, False]


def test_a_service_is_asked_over_http(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    _Handler.answer = (200, json.dumps(DENIED).encode())
    assert main(["hit", "shop", "tenant=a", "--cost", "2", "--server", service]) == 1
    assert "denied by search: over its limit; passes in 13 s" in capsys.readouterr().out
    options = ["--cost", "requests=1", "--cost", "tokens=9", "--peek", "--server", service]
    main(["hit", "shop", "tenant=a=b", *options])
    assert _Handler.asked == [
        ("/v1/check", {"domain": "shop", "descriptors": [{"tenant": "a"}], "cost": 2}),
        (
            "/v1/peek",
            {
                "domain": "shop",
                "descriptors": [{"tenant": "a=b"}],
                "cost": {"requests": 1, "tokens": 9},
            },
        ),
    ]


@pytest.mark.parametrize(
    ("status", "answer", "message"),
    [
        (400, b'{"detail": "cost: must be whole"}', "refused the question: cost: must be whole"),
        (503, b'{"detail": "no policy"}', "cannot answer now: no policy"),
        (200, b"<html>", "something else than JSON"),
        (200, b"[1]", "something else than JSON"),
        (200, b'{"allowed": true}', "no decision"),
    ],
)
def test_a_service_that_does_not_decide_is_said(
    service: str, capsys: pytest.CaptureFixture[str], status: int, answer: bytes, message: str
) -> None:
    _Handler.answer = (status, answer)
    assert main(["hit", "shop", "tenant=a", "--server", service]) == 2
    assert message in capsys.readouterr().err


def test_where_nobody_listens_both_options_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hit", "shop", "tenant=a", "--server", "http://127.0.0.1:1"]) == 2
    said = capsys.readouterr().err
    assert "no service at http://127.0.0.1:1" in said
    assert "--server" in said
    assert "--policy" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shop"], "add KEY=VALUE"),
        (["shop", "tenant"], "KEY=VALUE"),
        (["shop", "=a"], "KEY=VALUE"),
        (["shop", "a=1", "a=2"], "twice"),
        (["shop", "a=1", "--cost", "-1"], "cost"),
        (["shop", "a=1", "--cost", "1.5"], "cost"),
        (["shop", "a=1", "--cost", "=5"], "cost"),
        (["shop", "a=1", "--cost", "1", "--cost", "requests=2"], "twice"),
        (["shop", "a=1", "--repeat", "0"], "--repeat"),
        (["shop", "a=1", "--server", "ftp://x"], "--server"),
        (["shop", "a=1", "--server", "http://x:y"], "port"),
        (["shop", "a=1", "--policy", "/nowhere.yaml"], "no such file"),
        (["shop", "a=1", "--server", "x", "--policy", "y"], "not allowed"),
    ],
)
def test_what_cannot_be_asked_is_said(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["hit", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_domain_of_a_file_is_named(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hit", "shp", "a=1", "--policy", policy]) == 2
    assert "it has shop" in capsys.readouterr().err


def test_colours_and_blocks_only_where_they_can_be_shown() -> None:
    answer = read_answer(DENIED)
    plain = page("shop", {"a": "b"}, answer, Style(has_colour=False, has_blocks=False))
    assert "\033" not in plain
    assert plain.isascii()
    painted = page("shop", {"a": "b"}, answer, Style(has_colour=True))
    assert "\033[31m" in painted
    assert "█" in painted


def test_only_an_untouched_limit_looks_empty_and_only_a_used_up_one_full() -> None:
    lines = page("shop", {"a": "b"}, read_answer(DENIED), Style(has_blocks=False)).splitlines()
    assert "#..................." in lines[1]
    assert "#" * 20 in lines[2]


def test_a_store_that_is_away_shows_no_numbers() -> None:
    limits = [{**limit, "remaining": 0, "reset_ms": 0} for limit in DENIED["limits"]]
    away = read_answer({**DENIED, "reason": "store_failure", "degraded": True, "limits": limits})
    said = page("shop", {"a": "b"}, away, Style())
    assert "? of 10 used" in said
    assert "█" not in said
    assert "denied by search: the counter store is away" in said


def test_nothing_printed_can_command_a_terminal() -> None:
    answer = read_answer(
        {**DENIED, "limits": [{**DENIED["limits"][0], "id": "\033[2J"}], "binding": 0}
    )
    for text in (
        page("\033[2J", {"\033": "\r\n"}, answer, Style()),
        line(1, 1, answer, Style()),
    ):
        assert "\033" not in text
        assert "\r" not in text


def test_another_form_of_decision_is_refused() -> None:
    with pytest.raises(InternalError):
        read_answer({**DENIED, "limits": [{"id": "x"}]})


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1500, "1.5 s"),
        (10_001, "11 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (3_599_001, "1 h"),
        (90_000_000, "1 d 1 h"),
        (86_401_000, "1 d"),
    ],
)
def test_times_are_spelled_in_their_two_largest_units(ms: int, text: str) -> None:
    assert spell_ms(ms) == text
