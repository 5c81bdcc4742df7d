"""What a fault happens to: a real store, two nodes on it, a network between, and a steady load."""

import json
import os
import re
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from tests.chaos.account import Counter as Held
from tests.chaos.account import Run
from tests.chaos.keys import DOMAIN, LOCAL, PAIR, POLICY, Key, Plan, Sample, fresh_keys
from tests.servers.cluster import SLOTS, ClusterServers, info, told
from tests.servers.network import Link, Network
from tests.servers.process import Process, wait_for
from tests.servers.sentinels import SERVICE, Watched
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

NODES = ("north", "south")
OPTIONS = ("--drain-notice", "500ms")
RATE = 240.0
"""Requests a second, over all keys and both nodes."""
_DOWN_AFTER = {f"sentinel down-after-milliseconds {SERVICE}": "2000"}
"""As an operator has it: with less than a second, sentinels give up a master that has just become
one, take another, and what the first counted in between is lost."""
_PICTURE_S = 1.1
"""A node's picture of a limit that it decides itself is never older."""
_IN_MEMORY = Path("/dev/shm")
"""A Cluster stands still until its file is on the disk, at each move of a slot or change of master:
on a disk that others use as well, that is most of what would be seen."""
_HEAL_DEADLINE_S = 40.0
_NODE_TIMEOUT_MS = 2500
"""Six servers, two nodes and a load share the processor: a master that waits for it is not dead."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a run is.

    Args:
        before_s: From the start of the load to the fault, in seconds.
        during_s: How long a fault lasts that could last for ever, in seconds.
        after_s: From when all seems normal to the end of the load, in seconds.
        share: How much of the largest number of steps scenarios do that go step by step.
        store_timeout: That of the nodes.
    """

    before_s: float
    during_s: float
    after_s: float
    share: float = 1.0
    store_timeout: str = "5ms"


LONG = Pace(before_s=2.0, during_s=4.0, after_s=3.0)
SHORT = Pace(0.6, 1.0, 0.5, share=1 / 32, store_timeout="40ms")
"""Its nodes have more patience: the machine of the tests is busy, and a second is soon over."""


@dataclass
class Arrangement:
    """A store of one kind and what stands around it. Use it as a context manager.

    Args:
        binary: A valkey-server.
        folder: Where files and logs lie.
        pace: How long the runs are.
        has_sentinels: A master with two replicas and three sentinels, good for one fault, in place
            of a Cluster of three masters and three replicas behind a network.
        prefixes: Commands put in front of some servers of the Cluster, by their place.
    """

    binary: str
    folder: Path
    pace: Pace
    has_sentinels: bool = False
    prefixes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    network: Network = field(default_factory=Network, init=False)
    cluster: ClusterServers = field(init=False)
    watched: Watched = field(init=False)
    nodes: list[Tidegate] = field(default_factory=list, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    @property
    def stores(self) -> list[StoreServer]:
        """All servers that may hold counters."""
        return self.watched.stores if self.has_sentinels else self.cluster.servers

    def master_of(self, shard: int) -> StoreServer:
        """Who serves the first slot of a third."""
        return self.cluster.master_of(shard * SLOTS // 3)

    def masters(self) -> list[StoreServer]:
        """All that serve slots now."""
        if self.has_sentinels:
            return [self.watched.master()]
        return list({server.port: server for server in map(self.master_of, range(3))}.values())

    def replica_of(self, master: StoreServer) -> StoreServer:
        """One that follows a master now, and has what it has."""
        return next(
            server
            for server in self.cluster.servers
            if server.is_running and info(server, "replication").get("master_port") == master.port
        )

    def links(self) -> list[Link]:
        """The ways to all servers of the Cluster."""
        return list(self.cluster.links.values())

    def heal(self) -> None:
        """Ends every fault, and waits until all is as it was at first."""
        if not self.has_sentinels:
            self.network.clear()
            for store in self.stores:
                if not store.is_running:
                    store.start()
                os.kill(store.pid, signal.SIGCONT)
        wait_for(self._is_whole, "the store to be whole again", _HEAL_DEADLINE_S)
        for node in self.nodes:
            if not node.is_running:
                node.start()
        until(lambda: all(self._reaches(node) for node in self.nodes), "the nodes' stores")

    def _reaches(self, node: Tidegate) -> bool:
        return all(taken(node, key) is not None for key in fresh_keys("any") if key.is_counted)

    def _is_whole(self) -> bool:
        with suppress(redis.RedisError):
            if self.has_sentinels:
                return bool(info(self.watched.master(), "replication")["connected_slaves"])
            states = [told(server, "CLUSTER", "INFO") for server in self.stores]
            links = [info(server, "replication") for server in self.stores]
            return all(b"cluster_state:ok" in state for state in states) and all(
                it["role"] == "master" or it["master_link_status"] == "up" for it in links
            )
        return False

    @contextmanager
    def load(self, scenario: str, over_grpc: bool = False) -> Iterator["Loaded"]:
        """Asks steadily until the block ends; what became of it is complete after that."""
        loaded = Loaded(self, fresh_keys(scenario))
        file, results = self.folder / f"{scenario}.plan", self.folder / f"{scenario}.samples"
        plan = Plan(
            loaded.keys,
            [node.http_port for node in self.nodes],
            [node.grpc_port for node in self.nodes] if over_grpc else [],
            RATE,
            str(results),
        )
        file.write_text(json.dumps(plan.document()))
        process = Process(f"the load of {scenario}", self.folder / f"{scenario}.log")
        process.start(
            [sys.executable, "-m", "tests.chaos.load", str(file)],
            lambda: "ready" in process.text(),
        )
        try:
            time.sleep(self.pace.before_s)
            loaded.begins()
            yield loaded
            # That it never becomes normal is for the account to say.
            with suppress(TimeoutError):
                until(lambda: all(self._reaches(node) for node in self.nodes), "the store")
            time.sleep(self.pace.after_s)
        finally:
            code = process.stop()
        loaded.is_over_at = time.monotonic()
        assert code == 0, process.text()
        loaded.samples = [Sample(**json.loads(line)) for line in results.read_text().splitlines()]

    def __enter__(self) -> Self:
        try:
            if self.has_sentinels:
                self.watched = self._stack.enter_context(
                    Watched(self.binary, sentinel_options=_DOWN_AFTER)
                )
                url = self.watched.url
            else:
                # What the network carries must not wait for the thread that breaks things.
                self._stack.callback(sys.setswitchinterval, sys.getswitchinterval())
                sys.setswitchinterval(0.0002)
                self._stack.enter_context(self.network)
                self.cluster = ClusterServers(
                    self.binary,
                    replicas=3,
                    options={"cluster-node-timeout": str(_NODE_TIMEOUT_MS)},
                    network=self.network,
                    prefixes=self.prefixes,
                    place=_IN_MEMORY if _IN_MEMORY.is_dir() else None,
                )
                url = self._stack.enter_context(self.cluster).url
            options = (*OPTIONS, "--store-timeout", self.pace.store_timeout)
            for name in NODES:
                folder = self.folder / f"{name}-{len(list(self.folder.iterdir()))}"
                folder.mkdir()
                node = Tidegate(POLICY, folder, f"{url}?client_name={name}", options)
                self.nodes.append(self._stack.enter_context(node))
            self.heal()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for store in self.stores:
            if store.is_running:
                os.kill(store.pid, signal.SIGCONT)
        self._stack.close()


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits while the load runs: asked seldom, for the processor belongs to the nodes."""
    wait_for(condition, what, _HEAL_DEADLINE_S, pause_s=0.1)


@dataclass
class Loaded:
    """A run under way: its fault begins and ends by these words."""

    arrangement: Arrangement
    keys: list[Key]
    samples: list[Sample] = field(default_factory=list)
    is_over_at: float = 0.0
    clock_steps: int = 0
    is_metered: bool = True
    """False where a node takes its metrics with it."""
    _began: float = 0.0
    _ended: float = 0.0
    _failed: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._failed = failed_calls(self.arrangement.nodes)

    def begins(self) -> None:
        """From here on something is wrong."""
        self._began = self._ended = time.time()

    def lasts(self, seconds: float | None = None) -> None:
        """The fault goes on for so long (that of the pace), and ends after it."""
        time.sleep(self.arrangement.pace.during_s if seconds is None else seconds)

    def ends(self) -> None:
        """What was done is done, or undone: all may be well from here on."""
        self._ended = time.time()

    def run(self) -> Run:
        """What is known, once all is healed: asked of a node that is well."""
        nodes = self.arrangement.nodes
        failed = failed_calls(nodes) - self._failed if self.is_metered else None
        counters: list[Held] = []
        time.sleep(max(0.0, self.is_over_at + _PICTURE_S - time.monotonic()))
        pairs: dict[int, Key] = {}
        for at, key in enumerate(self.keys):
            if key.kind == PAIR:
                pairs[at] = key
            if key.is_counted and not key.has_windows:
                held = _held(nodes[0], key, key.kind)
                counters.append(Held(held, (at,), key.kind != PAIR, key.kind != LOCAL))
        all_of_them = _held(nodes[0], next(iter(pairs.values())), "all")
        counters.append(Held(all_of_them, tuple(pairs), is_alone=False))
        return Run(
            self.keys, self.samples, counters, failed, self._began, self._ended, self.clock_steps
        )


def _held(node: Tidegate, key: Key, limit: str) -> int:
    return wait_for(lambda: taken(node, key), "the store to say what it holds")[limit]


def taken(node: Tidegate, key: Key) -> dict[str, int] | None:
    """What the store holds of a key's limits; None while the node does not reach it."""
    body = json.dumps({"domain": DOMAIN, "descriptors": [key.entries]}).encode()
    said = _fetched(node, "/v1/peek", body)
    decision: dict[str, Any] = json.loads(said) if said else {"degraded": True}
    if decision["degraded"]:
        return None
    return {it["id"]: it["limit"] - it["remaining"] for it in decision["limits"]}


def failed_calls(nodes: list[Tidegate]) -> Counter[str]:
    """Decisions without the store so far, by what it did."""
    found: Counter[str] = Counter()
    for node in nodes:
        text = (_fetched(node, "/metrics") or b"").decode()
        for kind, count in re.findall(r'tidegate_store_errors_total\{class="(\w+)"\} (\d+)', text):
            found[kind] += int(count)
    return found


def _fetched(node: Tidegate, path: str, body: bytes | None = None) -> bytes | None:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{node.http_port}{path}", body, {"content-type": "application/json"}
    )
    with suppress(OSError), urllib.request.urlopen(asked, timeout=5) as answer:
        said: bytes = answer.read()
        return said
    return None
