"""Nodes on one store that know of each other."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.integration.redis_cluster.asking import Asker
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer, valkey_binary


class Fleet:
    """So many nodes, one worker each."""

    def __init__(
        self, stack: ExitStack, folder: Path, policy: str, nodes: int, *options: str
    ) -> None:
        self._stack = stack
        self._options = ("--workers", "1", *options)
        binary = valkey_binary()
        if binary is None:
            pytest.skip("no valkey-server here")
        self.store = stack.enter_context(StoreServer(binary))
        self.nodes = [self._node(folder / str(at), policy) for at in range(nodes)]
        self.askers = [stack.enter_context(Asker(node)) for node in self.nodes]
        for asker in self.askers:
            until(partial(_knows, asker, nodes))

    def _node(self, folder: Path, policy: str) -> Tidegate:
        folder.mkdir()
        node = Tidegate(policy, folder, self.store.url, self._options)
        return self._stack.enter_context(node)

    def calls(self) -> int:
        """Calls of scripts so far."""
        stats: Any = redis.Redis(port=self.store.port).info("commandstats")
        return sum(row["calls"] for name, row in stats.items() if name.startswith("cmdstat_eval"))


def _knows(asker: Asker, nodes: int) -> bool:
    return known_nodes(asker) == nodes


def known_nodes(asker: Asker) -> int:
    """How many nodes this one knows to be alive."""
    return int(asker.metrics().split("\ntidegate_nodes ")[1].split("\n")[0])


def until(holds: Callable[[], bool], patience_s: float = 20.0) -> None:
    """Waits for something that comes soon."""
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
