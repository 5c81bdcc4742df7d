"""A master, two replicas and three sentinels that watch them, on free loopback ports."""

import signal
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import redis

from tests.servers.ports import free_port
from tests.servers.process import wait_for
from tests.servers.valkey import StoreServer

SERVICE = "limits"
_DOWN_AFTER_MS = 300
_AGREE_DEADLINE_S = 30.0
_FAIL_OVERS = 3
_GIVEN_UP_AFTER_S = 5.0


@dataclass
class Watched:
    """Six servers of one binary. Use it as a context manager.

    `options` are for the stores, `sentinel_options` for the sentinels. `tls` are those of all of
    them for TLS, which they then speak to each other, each on a port beside its plain one.
    """

    binary: str
    options: dict[str, str] = field(default_factory=dict)
    sentinel_options: dict[str, str] = field(default_factory=dict)
    tls: dict[str, str] = field(default_factory=dict)
    stores: list[StoreServer] = field(default_factory=list, init=False)
    sentinels: list[StoreServer] = field(default_factory=list, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    @property
    def nodes(self) -> str:
        """The sentinels, as a URL names them."""
        return ",".join(f"127.0.0.1:{sentinel.peers_port}" for sentinel in self.sentinels)

    @property
    def url(self) -> str:
        """The service as a store URL."""
        return f"redis{'s' if self.tls else ''}+sentinel://{self.nodes}/{SERVICE}"

    def master(self) -> StoreServer:
        """The store that the first sentinel that runs takes for the master."""
        sentinel = next(it for it in self.sentinels if it.is_running)
        _, port = client(sentinel).execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(store for store in self.stores if store.peers_port == int(port))

    def fail_over(self, *how: str) -> None:
        """By command, with more words of it; returns once all agree on another master."""
        old = self.master()
        # One for which a sentinel is not elected is given up, and only the log says so.
        for _ in range(_FAIL_OVERS):
            with suppress(redis.ResponseError):
                client(self.sentinels[0]).execute_command("SENTINEL", "FAILOVER", SERVICE, *how)
            with suppress(TimeoutError):
                wait_for(lambda: self.master() is not old, "another master", _GIVEN_UP_AFTER_S)
                break
        self.wait_for_another(old)

    def kill_master(self) -> StoreServer:
        """By SIGKILL; returns the dead one at once."""
        old = self.master()
        old.stop(signal.SIGKILL)
        return old

    def wait_for_another(self, old: StoreServer) -> None:
        """Until sentinels name another master than this, and all stores that run agree."""

        def is_done() -> bool:
            master = self.master()
            roles = {store.port: _role(store) for store in self.stores if store.is_running}
            masters = [port for port, role in roles.items() if role == "master"]
            return master is not old and masters == [master.port]

        wait_for(is_done, "another master", _AGREE_DEADLINE_S)

    def __enter__(self) -> Self:
        for _ in range(3):
            first = self.stores[0] if self.stores else None
            of = {"replicaof": f"127.0.0.1 {first.peers_port}"} if first else {}
            # The master waits for more replicas to come; a test should not.
            settings = {"repl-diskless-sync-delay": "0", **of, **self._tls(), **self.options}
            store = self._stack.enter_context(StoreServer(self.binary, settings))
            self.stores.append(store)
        for _ in range(3):
            self.sentinels.append(self._stack.enter_context(self._sentinel()))
        wait_for(self._is_whole, "the sentinels to agree", _AGREE_DEADLINE_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _sentinel(self) -> StoreServer:
        sentinel = StoreServer(self.binary, self._tls(), port=free_port())
        lines = [
            f"sentinel monitor {SERVICE} 127.0.0.1 {self.stores[0].peers_port} 2",
            f"sentinel down-after-milliseconds {SERVICE} {_DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} 3000",
            *(f"{name} {value}" for name, value in self.sentinel_options.items()),
        ]
        sentinel.configuration = "\n".join(lines) + "\n"
        return sentinel

    def _tls(self) -> dict[str, str]:
        if not self.tls:
            return {}
        return {"tls-port": str(free_port()), "tls-replication": "yes", **self.tls}

    def _is_whole(self) -> bool:
        return all(_sees(sentinel, replicas=2, others=2) for sentinel in self.sentinels)


def client(server: StoreServer) -> Any:
    """A client that knows nothing of ours."""
    return redis.Redis(port=server.port)


def _role(store: StoreServer) -> str:
    role: str = _text(client(store).execute_command("ROLE")[0])
    return role


def _sees(sentinel: StoreServer, replicas: int, others: int) -> bool:
    reply = client(sentinel).execute_command("SENTINEL", "MASTER", SERVICE)
    state = reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))
    named = {str(_text(name)): _text(value) for name, value in state.items()}
    flags = str(named["flags"])
    if int(named["num-slaves"]) != replicas or "down" in flags:
        return False
    # Those it has heard of may not be reached yet, and then they elect nobody.
    with suppress(redis.ResponseError):
        quorum = client(sentinel).execute_command("SENTINEL", "CKQUORUM", SERVICE)
        return str(_text(quorum)).startswith(f"OK {others + 1} usable")
    return False


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
