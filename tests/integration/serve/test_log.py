"""What a node logs: events, no requests, and at debug some denials that can be explained."""

import json
import urllib.request
from pathlib import Path

from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: "a l", per: [user], rate: 1/h}
"""


def ask(node: Tidegate, count: int) -> list[dict[str, object]]:
    check = {"domain": "shop", "descriptors": [{"user": "ada"}]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.http_port}/v1/check",
        json.dumps({"checks": [check] * count}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        decisions: list[dict[str, object]] = json.loads(answer.read())["decisions"]
    return decisions


def test_requests_are_not_logged_at_info(tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path) as node:
        before = node.log()
        ask(node, 100)
        node.stop()
        lines = node.log().removeprefix(before).splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines] == ["draining", "stopped"]


def test_debug_tells_of_some_denials_by_an_id_that_can_be_explained(tmp_path: Path) -> None:
    options = ("--log-level", "debug", "--log-format", "json")
    with Tidegate(POLICY, tmp_path, options=options) as node:
        decisions = ask(node, 1000)
        wait_for(lambda: '"denied"' in node.log(), "a denial in the log")
        lines = [json.loads(line) for line in node.log().splitlines()]
        denials = [line for line in lines if line["message"] == "denied"]
        told = denials[0]
        assert told["level"] == "debug"
        assert (told["domain"], told["limit"], told["reason"]) == ("shop", "a l", "over_limit")
        assert told["decision"] in [decision["decision_id"] for decision in decisions]
        assert len(denials) < 50, "a sample, not each"
        url = f"http://127.0.0.1:{node.http_port}/v1/decisions/{told['decision']}"
        with urllib.request.urlopen(url) as answer:
            assert json.loads(answer.read())["reason"] == "over_limit"
    assert {"time", "level", "message"} <= lines[0].keys()
