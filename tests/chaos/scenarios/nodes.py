"""Nodes of ours that die or are replaced."""

import re
import signal
import urllib.request

from tests.chaos.arrangement import Arrangement, Loaded, until
from tests.chaos.scenario import Scenario
from tests.servers.tidegate import Tidegate


def kill_node(arrangement: Arrangement, loaded: Loaded) -> None:
    node = arrangement.nodes[0]
    node.stop(signal.SIGKILL)
    loaded.lasts()
    node.start()
    loaded.ends()


def restart_all(arrangement: Arrangement, loaded: Loaded) -> None:
    for node in arrangement.nodes:
        code = node.stop(signal.SIGTERM)
        assert code == 0, node.log()
        node.start()
        until(lambda node=node: _is_asked(node), "clients to come back")  # type: ignore[misc]
    loaded.ends()
    loaded.lasts()


def _is_asked(node: Tidegate) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.http_port}/metrics") as answer:
        found = re.search(r'tidegate_connections\{door="grpc"\} (\d+)', answer.read().decode())
    return found is not None and int(found[1]) > 0


SCENARIOS = [
    Scenario(
        "kill-node",
        "kill -9 of a node, which comes back; its callers turn to the other",
        "nothing is lost; what it had under way may be charged, once",
        kill_node,
        is_metered=False,
    ),
    Scenario(
        "rolling-restart",
        "SIGTERM, drain and start of one node after the other, asked over gRPC",
        "nothing is lost; no call fails, and none is sent twice",
        restart_all,
        over_grpc=True,
        is_metered=False,
    ),
]
