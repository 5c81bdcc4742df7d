"""Asks real nodes on a schedule and records each question and answer with its times."""

import selectors
import time
from collections.abc import Sequence

from benchmarks.accuracy.traffic import Arrival
from benchmarks.accuracy.wire import Asker, Recording, now_us

CONNECTIONS = 2
"""To each node."""
PATIENCE_S = 10.0
"""How long answers may come after the last question."""
LOOK_S = 0.001


def record(ports: Sequence[int], asked: bytes, due: Sequence[Arrival], begin_us: int) -> Recording:
    """Asks what is due, when it is due.

    Args:
        ports: The gRPC doors of the nodes.
        asked: The question, the same for all.
        due: When, and which node.
        begin_us: The time of the machine at which the schedule begins.
    """
    recording = Recording()
    askers = [[Asker(port, asked, recording) for _ in range(CONNECTIONS)] for port in ports]
    every = [asker for of_node in askers for asker in of_node]
    with selectors.DefaultSelector() as selector:
        for asker in every:
            selector.register(asker.socket, selectors.EVENT_READ, asker)
        at, turn = 0, 0
        end = time.monotonic() + PATIENCE_S + max(0, begin_us - now_us()) / 1e6
        end += due[-1].due_us / 1e6 if due else 0
        while (at < len(due) or any(it.unanswered for it in every)) and time.monotonic() < end:
            now = now_us() - begin_us
            turn += 1
            while at < len(due) and due[at].due_us <= now:
                askers[due[at].node][turn % CONNECTIONS].waiting += 1
                at += 1
            for asker in every:
                asker.send()
            for key, _ in selector.select(LOOK_S):
                key.data.receive()
    lost = sum(asker.unanswered for asker in every) + len(due) - at
    if lost:
        recording.errors["no answer"] += lost
    for asker in every:
        asker.close()
    return recording
