"""The Envoy configuration that users are shown, and the page about it, do what they say."""

import json
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.e2e.bootstrap import EXAMPLE, EXAMPLES, set_port
from tests.e2e.conftest import StartGateway
from tests.servers.envoy import Response, validate
from tests.servers.process import Process

PAGE = EXAMPLES.parent / "docs" / "envoy.md"
SHOP = EXAMPLES / "shop.yaml"

TIMES = {"x-ratelimit-reset", "retry-after", "retry_after"}
"""What differs from run to run, and is a whole number."""


@dataclass(frozen=True)
class Shown:
    """A request that the page shows, and its answer."""

    path: str
    sent: dict[str, str]
    status: int
    headers: dict[str, str]
    body: str


def blocks(language: str) -> list[str]:
    """The page's blocks in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def shown() -> Iterator[Shown]:
    """What the page shows of `curl -i`, in order."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, answer = part.partition("\n")
            words = shlex.split(command)
            assert words[:2] == ["curl", "-i"]
            host, _, path = words[-1].partition("/")
            assert host == "localhost:10000"
            sent = dict(words[at + 1].split(": ") for at, it in enumerate(words) if it == "-H")
            head, _, body = answer.partition("\n\n")
            first, *lines = head.strip().splitlines()
            headers = dict(line.split(": ", 1) for line in lines)
            yield Shown(f"/{path}", sent, int(first.split()[1]), headers, body.strip())


def test_envoy_takes_the_example_as_it_is(envoy_path: str) -> None:
    done = validate(envoy_path, EXAMPLE)
    assert done.returncode == 0, done.stderr
    assert f"configuration '{EXAMPLE}' OK" in done.stdout + done.stderr
    assert "eprecated" not in done.stderr


def test_what_the_page_shows_of_the_example_stands_in_it() -> None:
    example = _without_indentation(EXAMPLE.read_text())
    parts = blocks("yaml")
    assert parts
    for part in parts:
        assert _without_indentation(part) in example, part


def test_the_page_shows_what_a_client_gets(start_gateway: StartGateway, tmp_path: Path) -> None:
    files = Process("http.server", tmp_path / "app.log")
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]
    place = ["--directory", str(EXAMPLES)]
    port = files.start([*command, *place], lambda: _port_of(files.text()))
    try:
        gateway = start_gateway(SHOP.read_text(), partial(set_port, cluster="app", port=port))
        requests = list(shown())
        assert len(requests) == 3
        for asked in requests:
            _compare(gateway.envoy.get(asked.path, asked.sent), asked)
    finally:
        files.stop()


def test_a_client_cannot_choose_what_it_is_counted_by(start_gateway: StartGateway) -> None:
    gateway = start_gateway(SHOP.read_text())
    assert gateway.get("/login").status == 200
    for path in ("/login", "/login?again", "/x/../login", "//login", "/%6cogin", "/login%2fx"):
        denied = gateway.get(path, x_client_address="192.0.2.7", x_forwarded_for="192.0.2.8")
        assert denied.status == 429, path
        assert denied.json()["violated-policies"] == ["login"]
    assert gateway.get("/logins").status == 200, "another page"


def test_limits_of_the_example_meet_the_descriptors_of_the_example(
    start_gateway: StartGateway,
) -> None:
    gateway = start_gateway(SHOP.read_text())
    said = partial(gateway.get, x_tenant="globex")
    assert said("/search").headers["x-ratelimit-resource"] == "search"
    keyed = said("/", x_api_key="k1").headers
    assert (keyed["x-ratelimit-resource"], keyed["x-ratelimit-limit"]) == ("per-key", "200")
    assert gateway.get("/").headers["x-ratelimit-resource"] == "cluster"
    assert said("/chat", x_answer_x_tokens="90000").status == 200


def _compare(got: Response, asked: Shown) -> None:
    assert got.status == asked.status, asked
    for name, value in asked.headers.items():
        assert name in got.headers, f"{asked.path}: {name}"
        _same(name, got.headers[name], value)
    if asked.body:
        _same_json(got.json(), json.loads(asked.body))


def _same_json(got: dict[str, object], wanted: dict[str, object]) -> None:
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        _same(name, got[name], value)


def _same(name: str, got: object, wanted: object) -> None:
    if name in TIMES:
        assert str(got).isdigit(), name
        assert str(wanted).isdigit(), name
    elif name == "decision_id":
        assert len(str(got)) == len(str(wanted))
    else:
        assert got == wanted, name


def _port_of(said: str) -> int | None:
    found = re.search(r" port (\d+)", said)
    return int(found[1]) if found else None


def _without_indentation(text: str) -> str:
    """Lines of code alone: a part may stand deeper in the whole, and the whole has comments."""
    lines = (re.sub(r"(^|\s+)#.*", "", line).strip() for line in textwrap.dedent(text).splitlines())
    return "\n".join(line for line in lines if line)
