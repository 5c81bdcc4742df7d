"""Real nodes on a real store, which agree through it alone."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import systems
from benchmarks.turns import System
from benchmarks.workloads import Workload

PATIENT = ("--store-timeout", "2s")
"""So long that no answer is given without the store."""
EVERYBODY = "who=everybody"
"""What the generator asks, of limits without `when` and `per`."""
SETTLE_S = 20.0
"""Within so long each node knows how many there are."""


@contextmanager
def running(
    policy: str, count: int, *, in_cluster: bool = False, settle: bool = False
) -> Iterator[list[System]]:
    """So many nodes on one store, or on a Cluster of three masters."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tidegate-bench-")))
        store = systems.start_cluster(stack) if in_cluster else systems.start_store(stack)
        found = start(stack, folder, policy, store.url, count)
        if settle:
            until_known(found)
        yield found


def start(stack: ExitStack, folder: Path, policy: str, url: str, count: int) -> list[System]:
    """Starts nodes on a store that is there."""
    found = []
    for number in range(count):
        home = folder / f"node-{number}"
        home.mkdir()
        workload = Workload(policy, EVERYBODY, "", "")
        found.append(systems.ours(stack, home, workload, more=("--store", url, *PATIENT)))
    return found


def until_known(nodes: list[System]) -> None:
    """Waits until each node knows of all.

    Raises:
        TimeoutError: It does not come to that.
    """
    deadline = time.monotonic() + SETTLE_S
    while any(systems.metric(node.server, "tidegate_nodes") != len(nodes) for node in nodes):
        if time.monotonic() > deadline:
            raise TimeoutError("the nodes do not know of each other")
        time.sleep(0.05)
