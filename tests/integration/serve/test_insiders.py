"""What tenants send is told to this machine alone where there is no admin token."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.tidegate import LOOPBACK, Tidegate

POLICY = """\
version: 1
domains:
  shop:
    limits:
      - {id: each, per: [user], rate: 1/h}
"""
QUESTIONS = (["explain", "shop", "user=ada"], ["hot", "--json"])


@pytest.fixture(scope="module")
def own_address() -> str:
    """An address of this machine that is no loopback: who comes from it is met as a stranger."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing; it chooses the address that would be sent from.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return address


def run(node: Tidegate, *words: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    """Asks the node as a user does."""
    command = [sys.executable, "-m", "tidegate.cli.main", *words]
    server = f"http://{node.http_host}:{node.http_port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
    return subprocess.run(
        [*command, "--server", server],
        env=kept | ({"TIDEGATE_ADMIN_TOKEN": token} if token else {}),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def denied(node: Tidegate) -> str:
    """The id of a denial."""
    run(node, "hit", "shop", "user=ada")
    told = json.loads(run(node, "hit", "shop", "user=ada", "--json").stdout)
    assert not told["allowed"], "questions are answered from anywhere"
    decision: str = told["decision_id"]
    return decision


def test_a_stranger_is_told_nothing_without_a_token_and_how_to_change_that(
    tmp_path: Path, own_address: str
) -> None:
    with Tidegate(POLICY, tmp_path, http_host=own_address) as node:
        for question in (*QUESTIONS, ["explain", denied(node)]):
            said = run(node, *question)
            assert said.returncode, question
            assert "this server has none; start it with --admin-token" in said.stderr, said
            assert "Traceback" not in said.stderr


def test_a_stranger_with_the_token_is_told(tmp_path: Path, own_address: str) -> None:
    options = ("--admin-token", "sesame-open-now")
    with Tidegate(POLICY, tmp_path, http_host=own_address, options=options) as node:
        for question in (*QUESTIONS, ["explain", denied(node)]):
            assert run(node, *question).returncode, question
            said = run(node, *question, token="sesame-open-now")
            assert not said.returncode, (question, said.stderr)


def test_this_machine_is_told_without_a_token(tmp_path: Path) -> None:
    with Tidegate(POLICY, tmp_path, http_host=LOOPBACK) as node:
        for question in (*QUESTIONS, ["explain", denied(node)]):
            said = run(node, *question)
            assert not said.returncode, (question, said.stderr)
