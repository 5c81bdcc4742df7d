"""Four nodes on a Cluster, restarted one after the other under load: nobody notices."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.e2e.bootstrap import add_node, ask_for_each_request, constant
from tests.e2e.conftest import Gateway, StartGateway
from tests.servers.cluster import ClusterServers
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate

CLIENTS = 4
UNNOTICED = ("--drain-notice", "1s")
"""Envoy asks every 50 ms how nodes are, but not where the machine is busy."""
POLICY = """
version: 1
domains:
  shop:
    limits:
      - {id: everybody, rate: 1M per 300d, algorithm: fixed_window}
"""


@contextmanager
def load(gateway: Gateway) -> Iterator[Counter[int]]:
    """Clients that ask over and over until the block ends, and what they got."""
    statuses: Counter[int] = Counter()
    guard, is_over = threading.Lock(), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not is_over.is_set():
                status = gateway.get().status
                with guard:
                    statuses[status] += 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def test_a_rolling_restart_of_four_nodes_fails_no_request_and_forgets_none(
    start_gateway: StartGateway, valkey_path: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        store = stack.enter_context(ClusterServers(valkey_path)).url
        nodes = []
        for number in (2, 3, 4):
            folder = tmp_path / f"node-{number}"
            folder.mkdir()
            nodes.append(stack.enter_context(Tidegate(POLICY, folder, store, UNNOTICED)))

        def configure(config: dict[str, Any]) -> None:
            ask_for_each_request(config, {"actions": [constant("who", "everybody")]})
            for node in nodes:
                add_node(config, node.grpc_port)

        gateway = start_gateway(POLICY, configure, store=store, options=UNNOTICED)
        healthy = partial(gateway.envoy.stat, "cluster.tidegate.membership_healthy")
        wait_for(lambda: healthy() == 4, "all nodes to be asked")
        with load(gateway) as statuses:
            for node in [gateway.tidegate, *nodes]:
                enough = statuses.total() + 20
                wait_for(partial(_has_come_to, statuses, enough), "some requests")
                assert node.stop() == 0
                node.start()
                wait_for(lambda: healthy() == 4, "the node to be asked again")
        asked = statuses.total()
        assert statuses == {200: asked}
        assert gateway.stat("error") == gateway.stat("failure_mode_allowed") == 0
        assert gateway.get().headers["x-ratelimit-used"] == str(asked + 1)


def _has_come_to(statuses: Counter[int], count: int) -> bool:
    return statuses.total() >= count
