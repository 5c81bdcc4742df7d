"""A node on a policy file: start, follow the file, drain."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.process import wait_for, without_settings
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer
from tidegate.cli.main import main

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: l, per: [user], rate: 5/h}
"""
RELOAD_S = 1.0


def ask(node: Tidegate, user: str, path: str = "/v1/check") -> dict[str, Any]:
    """One question over HTTP."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    body = {"domain": "shop", "descriptors": [{"user": user}]}
    headers = {"content-type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def get(node: Tidegate, path: str) -> tuple[int, str]:
    """One GET."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def limit_in_force(node: Tidegate) -> int:
    """The number that the node decides by now."""
    number: int = ask(node, "nobody", "/v1/peek")["limits"][0]["limit"]
    return number


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Tidegate]:
    with Tidegate(POLICY, tmp_path) as started:
        yield started


def test_a_node_decides_and_stops_cleanly(node: Tidegate) -> None:
    assert [ask(node, "ada")["allowed"] for _ in range(6)] == [True] * 5 + [False]
    assert get(node, "/readyz")[0] == 200
    assert node.stop(signal.SIGTERM) == 0
    assert "Traceback" not in node.log()
    assert "stopped" in node.log()


def test_ctrl_c_drains_too(node: Tidegate) -> None:
    assert node.stop(signal.SIGINT) == 0
    assert "Traceback" not in node.log()


@pytest.mark.parametrize("way", ["in place", "rename over", "delete and re-create", "symlink swap"])
def test_new_numbers_hold_within_a_second_and_keep_what_was_used(tmp_path: Path, way: str) -> None:
    changed = POLICY.replace("5/h", "9/h")
    node = Tidegate(POLICY, tmp_path)
    if way == "symlink swap":
        for name, text in (("..one", POLICY), ("..two", changed)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "policy.yaml").write_text(text)
        (tmp_path / "..data").symlink_to("..one")
        node.file.unlink()
        node.file.symlink_to("..data/policy.yaml")
    with node:
        for _ in range(4):
            ask(node, "ada")
        if way == "in place":
            node.file.write_text(changed)
        elif way == "rename over":
            node.write(changed)
        elif way == "delete and re-create":
            node.file.unlink()
            node.file.write_text(changed)
        else:
            (tmp_path / "..new").symlink_to("..two")
            (tmp_path / "..new").replace(tmp_path / "..data")
        began = time.monotonic()
        wait_for(lambda: limit_in_force(node) == 9, "the new number")
        assert time.monotonic() - began < RELOAD_S
        assert ask(node, "ada", "/v1/peek")["limits"][0]["remaining"] == 5


def test_a_bad_file_changes_nothing_and_is_told_everywhere(node: Tidegate) -> None:
    revision = ask(node, "ada")["revision"]
    node.write(POLICY.replace("5/h", "5/hr2") + "extra: 1\n")
    wait_for(lambda: "policy refused" in node.log(), "the refusal in the log")
    assert ask(node, "ada")["revision"] == revision
    log = node.log()
    assert "policy.yaml:5:" in log
    assert "policy.yaml:6:1" in log
    status, ready = get(node, "/readyz")
    assert status == 200
    assert "policy.yaml:5:" in ready
    assert "tidegate_policy_reload_failures_total 1" in get(node, "/metrics")[1]
    node.write(POLICY.replace("5/h", "7/h"))
    wait_for(lambda: limit_in_force(node) == 7, "the good file")
    assert "policy.yaml:5:" not in get(node, "/readyz")[1]


def test_a_node_runs_the_revision_that_validate_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = "      - {id: q, per: [user], quota: 5/month, time_zone: Europe/Berlin}\n"
    with Tidegate(POLICY + quota, tmp_path) as node:
        assert main(["validate", str(node.file), "--format", "json"]) == 0
        (file,) = json.loads(capsys.readouterr().out)["files"]
        assert json.loads(get(node, "/readyz")[1])["revision"] == file["revision"]
        told = f'tidegate_policy_info{{revision="{file["revision"]}"}} 1'
        assert told in get(node, "/metrics")[1]


def test_a_half_written_file_is_not_taken(node: Tidegate) -> None:
    with node.file.open("w") as file:
        for part in (POLICY[:30], POLICY[30:].replace("5/h", "6/h")):
            file.write(part)
            file.flush()
    wait_for(lambda: limit_in_force(node) == 6, "the whole file")
    assert "refused" not in node.log()


def test_a_request_in_flight_is_answered_while_the_node_drains(node: Tidegate) -> None:
    body = json.dumps({"domain": "shop", "descriptors": [{"user": "ada"}]}).encode()
    head = (
        "POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=15) as client:
        client.sendall(head.encode() + body[:10])
        # The node has read the first half before it is told to stop.
        wait_for(lambda: get(node, "/healthz")[0] == 200, "the node to answer others")
        codes: list[int | None] = []
        stopping = threading.Thread(target=lambda: codes.append(node.stop(signal.SIGTERM)))
        stopping.start()
        wait_for(lambda: "draining" in node.log(), "the drain")
        client.sendall(body[10:])
        assert client.recv(64).startswith(b"HTTP/1.1 200")
    stopping.join(15)
    assert codes == [0]


def test_for_the_notice_a_node_that_was_told_to_stop_says_so_and_serves(tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path, options=("--drain-notice", "4s")) as node:
        began = time.monotonic()
        codes: list[int | None] = []
        stopping = threading.Thread(target=lambda: codes.append(node.stop(signal.SIGTERM)))
        stopping.start()
        wait_for(lambda: get(node, "/readyz")[0] == 503, "not ready")
        assert ask(node, "ada")["allowed"]
        assert get(node, "/healthz")[0] == 200
        stopping.join(15)
    assert codes == [0]
    assert time.monotonic() - began >= 4


def test_settings_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text('[serve]\nadmin-token = "tok"\nworkers = 2\nmax-connections = 3\n')
    with Tidegate(POLICY, tmp_path, options=("--config", str(file))) as node:
        assert ask(node, "ada")["allowed"]
        held = [socket.create_connection(("127.0.0.1", node.http_port)) for _ in range(3)]
        with socket.create_connection(("127.0.0.1", node.http_port), timeout=10) as fourth:
            assert fourth.recv(1) == b""
        for one in held:
            one.close()


def test_nodes_with_another_prefix_count_for_themselves(
    tmp_path: Path, shared_valkey: StoreServer
) -> None:
    left = []
    for name in ("one", "two", "one"):
        (tmp_path / name).mkdir(exist_ok=True)
        options = ("--prefix", f"serve-{name}")
        with Tidegate(POLICY, tmp_path / name, store=shared_valkey.url, options=options) as node:
            left.append(ask(node, "ada")["limits"][0]["remaining"])
    assert left == [4, 4, 3]


def test_every_mistake_in_a_settings_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text("[serve]\nworkers = 0\nwrokers = 2\n")
    done = _serve("--config", str(file))
    assert done.returncode == 2
    assert f"{file}:2: workers" in done.stderr
    assert f'{file}:3: "wrokers" is no setting; did you mean "workers"?' in done.stderr


def test_a_second_signal_ends_at_once(node: Tidegate) -> None:
    with socket.create_connection(("127.0.0.1", node.http_port), timeout=15) as client:
        client.sendall(b"POST /v1/check HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n{")
        wait_for(lambda: get(node, "/healthz")[0] == 200, "the node to answer others")
        child = node._process._child
        assert child is not None
        child.send_signal(signal.SIGINT)
        wait_for(lambda: "draining" in node.log(), "the drain")
        child.send_signal(signal.SIGINT)
        assert child.wait(3) == 128 + signal.SIGINT
    assert "Traceback" not in node.log()


def _serve(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tidegate.cli.main", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**without_settings(), **environment},
    )


def test_without_a_policy_it_says_so() -> None:
    done = _serve()
    assert done.returncode == 2
    assert "--policy FILE" in done.stderr


def test_a_bad_file_at_the_start_shows_every_problem(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("5/h", "5/hr2") + "extra: 1\n")
    done = _serve("--policy", str(file))
    assert done.returncode == 2
    assert "policy.yaml:5:" in done.stderr
    assert "policy.yaml:6:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_said() -> None:
    done = _serve("--policy", "/nowhere/policy.yaml")
    assert (done.returncode, "no such file" in done.stderr) == (2, True)


def test_a_port_in_use_is_named(node: Tidegate) -> None:
    taken = f"127.0.0.1:{node.http_port}"
    done = _serve("--policy", str(node.file), "--http", taken, "--grpc", "127.0.0.1:0")
    assert done.returncode == 2
    assert taken in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--http", "here"), "--http"),
        (("--workers", "0"), "--workers"),
        (("--store-timeout", "5"), "unit"),
        (("--headers", "draft04"), "draft03"),
        (("--store", "rediss://me:secret@x?ssl_ca_certs=/no.pem"), "ssl_ca_certs=/no.pem"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    done = _serve("--policy", str(file), "--grpc", "127.0.0.1:0", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "secret" not in done.stderr


def test_the_environment_is_a_default_that_options_replace(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    done = _serve("--policy", str(file), TIDEGATE_WORKERS="none")
    assert (done.returncode, "TIDEGATE_WORKERS" in done.stderr) == (2, True)


def test_the_admin_token_lets_its_holder_reset(tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path, options=("--admin-token", "tok")) as node:
        ask(node, "ada")
        body = json.dumps({"domain": "shop", "descriptors": [{"user": "ada"}]})
        statuses = []
        for token in ("other", "tok"):
            connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
            headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
            connection.request("POST", "/v1/reset", body, headers)
            statuses.append(connection.getresponse().status)
            connection.close()
        assert statuses == [403, 200]
        assert ask(node, "ada", "/v1/peek")["limits"][0]["remaining"] == 5
