"""A node at socket files: served, for owner and group, gone when it stops."""

import socket
import stat
import sys
from pathlib import Path

import grpc  # type: ignore[import-untyped]

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request
from tests.servers.process import Process

POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, per: [tenant], rate: 5/h}
"""


def test_both_doors_at_socket_files(tmp_path: Path) -> None:
    policy, http, rls = tmp_path / "policy.yaml", tmp_path / "http.sock", tmp_path / "grpc.sock"
    policy.write_text(POLICY)
    # What a process that was killed leaves behind.
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(rls))
    node = Process("tidegate", tmp_path / "log")
    command = [sys.executable, "-m", "tidegate.cli.main", "serve", "--policy", str(policy)]
    command += ["--http", f"unix:{http}", "--grpc", f"unix:{rls}", "--drain-notice", "0s"]
    node.start(command, lambda: "serving" in node.text())
    try:
        for path in (http, rls):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
        # Its own default is the path, which HTTP/2 does not take as an authority.
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix:{rls}", options) as channel:
            call = channel.unary_unary(SHOULD_RATE_LIMIT)
            told = answer(call(request([Descriptor([("tenant", "acme")])]), timeout=10))
        assert (told.code, told.statuses[0].remaining) == (1, 4)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(str(http))
            client.sendall(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
    finally:
        assert node.stop() == 0
    assert not http.exists()
    assert not rls.exists()
    assert f"unix:{http}" in node.text()
