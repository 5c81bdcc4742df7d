"""grpcurl lists, describes and asks, knowing nothing but the address."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.contract.rls.test_reflection import POLICY, RLS, SERVICES
from tests.servers.native import Native

MODULE = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
FOLDER = Path(__file__).parents[3] / "build" / "go"
"""It is built once, and kept until `make clean`."""


@pytest.fixture(scope="module")
def grpcurl() -> Path:
    binary = FOLDER / "grpcurl"
    if not binary.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("no Go here to build grpcurl with")
        built = subprocess.run(
            [go, "install", MODULE],
            env={"GOBIN": str(FOLDER), "HOME": str(Path.home()), "PATH": str(Path(go).parent)},
            capture_output=True,
            timeout=600,
            check=False,
        )
        if built.returncode:
            pytest.skip(f"grpcurl cannot be built: {built.stderr.decode()[-300:]}")
    return binary


def test_grpcurl_lists_describes_and_calls(grpcurl: Path) -> None:
    with Native(POLICY) as node:

        def run(*words: str) -> str:
            options = [str(grpcurl), "-plaintext", "-max-time", "10"]
            if words[0].startswith("-d"):
                options, words = [*options, *words[:2]], words[2:]
            command = [*options, node.server.grpc_address, *words]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        assert run("list").split() == SERVICES
        assert run("list", SERVICES[0]).split() == [f"{SERVICES[0]}.ShouldRateLimit"]
        assert f"rpc ShouldRateLimit ( .{RLS}.RateLimitRequest )" in run("describe", SERVICES[0])
        described = run("describe", f"{RLS}.RateLimitResponse")
        assert "map<string, .google.protobuf.Value>" not in described
        assert ".google.protobuf.Struct dynamic_metadata = 6;" in described
        entries = [{"key": "tenant", "value": "acme"}]
        question = {"domain": "shop", "descriptors": [{"entries": entries, "hitsAddend": "4"}]}
        answer = json.loads(run("-d", json.dumps(question), f"{SERVICES[0]}/ShouldRateLimit"))
        assert answer["overallCode"] == "OVER_LIMIT"
        assert answer["dynamicMetadata"]["reason"] == "cost_exceeds_limit"
        assert json.loads(run("grpc.health.v1.Health/Check")) == {"status": "SERVING"}
