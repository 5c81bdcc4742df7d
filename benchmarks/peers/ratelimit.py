"""The peer envoyproxy/ratelimit: built from its Go module at a pinned version, run with a Redis."""

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.running import Running
from tests.servers.ports import free_port

VERSION = "v1.4.1-0.20260122083618-3fb702589d36"
MODULE = "github.com/envoyproxy/ratelimit/src/service_cmd"
BUILD = Path(__file__).parents[2] / "build"


def binary() -> Path | None:
    """The server, built when it is first needed; none where that is not possible.

    `TIDEGATE_BENCH_RATELIMIT` names one that is already built.
    """
    if given := os.environ.get("TIDEGATE_BENCH_RATELIMIT"):
        return Path(given)
    folder = BUILD / "peers" / VERSION
    built = folder / "service_cmd"
    if built.exists():
        return built
    if shutil.which("go") is None:
        print("envoyproxy/ratelimit: skipped, Go is missing (apt-get install golang)")
        return None
    print(f"building envoyproxy/ratelimit {VERSION} (some minutes)", flush=True)
    command = ["go", "install", f"{MODULE}@{VERSION}"]
    build = subprocess.run(command, env=os.environ | {"GOBIN": str(folder)}, check=False)
    if build.returncode:
        print("envoyproxy/ratelimit: skipped, go install failed")
        return None
    return built


def server(program: Path, redis_port: int, folder: Path, core: int, policy: str) -> Running:
    """The server with a policy in its own words; its counters are in the Redis at that port.

    No statistics and no logs, so that nothing is measured but decisions.
    """
    config = folder / "ratelimit" / "config"
    config.mkdir(parents=True)
    (config / "bench.yaml").write_text(policy)
    port = free_port()
    settings = {
        "RUNTIME_ROOT": str(folder),
        "RUNTIME_SUBDIRECTORY": "ratelimit",
        "RUNTIME_WATCH_ROOT": "false",
        "USE_STATSD": "false",
        "DISABLE_STATS": "true",
        "LOG_LEVEL": "error",
        "REDIS_SOCKET_TYPE": "tcp",
        "REDIS_URL": f"127.0.0.1:{redis_port}",
        "HOST": "127.0.0.1",
        "GRPC_HOST": "127.0.0.1",
        "DEBUG_HOST": "127.0.0.1",
        "PORT": str(free_port()),
        "GRPC_PORT": str(port),
        "DEBUG_PORT": str(free_port()),
    }
    return Running(
        "envoyproxy/ratelimit", [program], folder / "ratelimit.log", core, settings, port
    )
