"""Starts a real Valkey Cluster on free loopback ports, and stops it for sure."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis
from redis.crc import key_slot

from tests.servers.network import Link, Network
from tests.servers.ports import free_port
from tests.servers.process import wait_for
from tests.servers.valkey import StoreServer

SLOTS = 16_384
NODE_TIMEOUT_MS = 800


@dataclass
class ClusterServers:
    """Masters that share the slots evenly, and as many replicas as wanted.

    Use it as a context manager.

    Args:
        binary: A valkey-server.
        masters: How many serve slots.
        replicas: How many follow; the first follows the first master, and so on.
        options: More lines of each server's configuration.
        prefix: A command put in front of each server.
        is_tls: Each has a port for TLS beside its plain one; the nodes speak it to each other.
        network: What clients come through, if they do: the nodes announce its ports to them, and
            speak to each other directly.
        prefixes: Commands put in front of some, by their place among the servers.
        place: Where their folders are made; where temporary files are, unless set.
    """

    binary: str
    masters: int = 3
    replicas: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    is_tls: bool = False
    prefix: tuple[str, ...] = ()
    network: Network | None = None
    prefixes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    place: Path | None = None
    links: dict[int, Link] = field(default_factory=dict, init=False)
    """The link to each server, by its port."""
    servers: list[StoreServer] = field(default_factory=list, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    @property
    def url(self) -> str:
        """The store URL; it names two nodes."""
        return f"redis{'s' if self.is_tls else ''}+cluster://{self.nodes()}"

    def nodes(self, host: str = "127.0.0.1") -> str:
        """Two of them, as a URL names them."""
        return ",".join(f"{host}:{self.door_of(server)}" for server in self.servers[:2])

    def add_server(self) -> StoreServer:
        """Starts one more node, which nobody knows yet."""
        server = StoreServer(
            self.binary,
            options={
                "cluster-enabled": "yes",
                "cluster-config-file": "nodes.conf",
                "cluster-port": str(free_port()),
                "cluster-node-timeout": str(NODE_TIMEOUT_MS),
                "repl-diskless-sync-delay": "0",
                **(
                    {"tls-port": str(free_port()), "tls-cluster": "yes", "tls-replication": "yes"}
                    if self.is_tls
                    else {}
                ),
                **self.options,
            },
            prefix=self.prefixes.get(len(self.servers), self.prefix),
            place=self.place,
        )
        if self.network is not None:
            link = self.links[server.port] = self.network.link(server.port)
            server.options["cluster-announce-client-port"] = str(link.port)
        self._stack.enter_context(server)
        self.servers.append(server)
        return server

    def door_of(self, server: StoreServer) -> int:
        """The port that clients know a server by."""
        link = self.links.get(server.port)
        return server.peers_port if link is None else link.port

    def introduce(self, server: StoreServer) -> None:
        """Makes a node known to the others."""
        self._meet(server)
        wait_for(self._all_know_all, "the nodes to know each other")

    def master_of(self, slot: int) -> StoreServer:
        """The server that serves a slot now."""
        for first, last, (_, port, *_), *_ in told(self._one_alive(), "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(it for it in self.servers if port in (it.port, self.door_of(it)))
        raise LookupError(slot)

    def follow(self, replica: StoreServer, master: StoreServer) -> None:
        """Makes one the replica of the other, and waits for its copy."""
        told(replica, "CLUSTER", "REPLICATE", id_of(master))
        wait_for(
            lambda: info(replica, "replication").get("master_link_status") == "up",
            "a replica to follow",
        )

    def move(self, slot: int, to: StoreServer) -> None:
        """Moves a slot with its keys, as resharding tools do."""
        for _ in self.steps_of_move(slot, to):
            pass

    def steps_of_move(self, slot: int, to: StoreServer) -> Iterator[None]:
        """The same, with a pause for the caller before and after each key."""
        source = self.master_of(slot)
        told(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", id_of(source))
        told(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", id_of(to))
        yield
        while keys := told(source, "CLUSTER", "GETKEYSINSLOT", slot, 1):
            port = to.peers_port
            told(source, "MIGRATE", "127.0.0.1", port, "", 0, 5000, "KEYS", *keys)
            yield
        # The receiver first: between the two nobody would serve the slot.
        for server in (to, source):
            told(server, "CLUSTER", "SETSLOT", slot, "NODE", id_of(to))
        wait_for(lambda: self.master_of(slot) is to, "the slot to have moved")

    def _meet(self, server: StoreServer) -> None:
        first = self.servers[0]
        port, bus = first.peers_port, first.options["cluster-port"]
        told(server, "CLUSTER", "MEET", "127.0.0.1", port, bus)

    def is_whole(self) -> bool:
        """Whether all nodes know each other and serve."""
        return self._all_know_all()

    def _one_alive(self) -> StoreServer:
        return next(server for server in self.servers if server.is_running)

    def _all_know_all(self) -> bool:
        wanted = {b"cluster_state:ok", b"cluster_known_nodes:%d" % len(self.servers)}
        infos = (told(server, "CLUSTER", "INFO") for server in self.servers)
        return all(wanted <= set(info.split()) for info in infos)

    def __enter__(self) -> Self:
        try:
            for _ in range(self.masters + self.replicas):
                self.add_server()
            bounds = [SLOTS * at // self.masters for at in range(self.masters + 1)]
            for at, server in enumerate(self.servers[: self.masters]):
                told(server, "CLUSTER", "ADDSLOTSRANGE", bounds[at], bounds[at + 1] - 1)
            for at, server in enumerate(self.servers):
                told(server, "CLUSTER", "SET-CONFIG-EPOCH", at + 1)
            for server in self.servers[1:]:
                self._meet(server)
            wait_for(self._all_know_all, "the Cluster to form")
            for at, replica in enumerate(self.servers[self.masters :]):
                self.follow(replica, self.servers[at % self.masters])
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
        self._stack.close()


def told(server: StoreServer, *words: object) -> Any:
    """What a node answers; no redirection is followed."""
    with redis.Redis(port=server.port) as client:
        return client.execute_command(*words)


def info(server: StoreServer, section: str) -> Any:
    """A section of what a node says of itself."""
    with redis.Redis(port=server.port) as client:
        return client.info(section)


def id_of(server: StoreServer) -> str:
    """A node's name in its Cluster."""
    name = told(server, "CLUSTER", "MYID")
    return name.decode() if isinstance(name, bytes) else str(name)


def slot_of(key: str) -> int:
    """The slot of a hash tag."""
    return key_slot(key.encode())
