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
SETTLE_S = 3.0
"""Until each node knows how many there are."""


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
            time.sleep(SETTLE_S)
        yield found


def start(stack: ExitStack, folder: Path, policy: str, url: str, count: int) -> list[System]:
    """Starts nodes on a store that is there."""
    found = []
    for number in range(count):
        home = folder / f"node-{number}"
        home.mkdir()
        workload = Workload(policy, "", "", "")
        found.append(systems.ours(stack, home, workload, more=("--store", url, *PATIENT)))
    return found
