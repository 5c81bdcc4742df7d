"""One client far over its limit at full speed: with a store, against the same in memory.

Meanwhile another client of the node waits as it is told to after each denial, and must then pass.

    python benchmarks/deny_flood.py [--rounds 3] [--seconds 4]
"""

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import systems
from benchmarks.harness import Bar, print_report, take_turns, write_results
from benchmarks.systems import port_of
from benchmarks.turns import Load, System, VoidError, ratio
from benchmarks.workloads import Workload

SCENARIO = "deny-flood"
REDIS, MEMORY = "tidegate with Redis", "tidegate in memory"
BAR = 0.9
PATIENT = ("--store-timeout", "2s")
"""So long that the store decides, however busy the machine is."""
POLICY = """\
version: 1
domains:
  bench:
    limits:
      - {id: per-key, per: [api_key], missing: shared, rate: 10/s, burst: 2}
"""
FLOOD = Workload(POLICY, "api_key=flood", "", "")


@dataclass
class Patient:
    """A client that asks until it is denied, waits as told, and asks again: in a thread."""

    system: System
    waits: int = 0
    under: int = 0

    def __post_init__(self) -> None:
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        port = self.system.server.printed(port_of("http"))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        while not self._is_over.is_set():
            # The second of two denials may be the node's own: its wait must be right as well.
            denied = not _ask(connection)["allowed"] and _ask(connection)
            if denied and not denied["allowed"]:
                time.sleep(denied["retry_after_ms"] / 1000)
                self.waits += 1
                self.under += not _ask(connection)["allowed"]
        connection.close()


def main() -> int:
    """Takes turns, prints the table, writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    options = parser.parse_args()
    load = Load(options.seconds, options.warmup, connections=4, streams=16, keys=1)
    found: dict[str, System] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-bench-")))
        for number, name in enumerate((REDIS, MEMORY)):
            home = folder / str(number)
            home.mkdir()
            system = systems.ours(stack, home, FLOOD, shared_store=name == REDIS, more=PATIENT)
            found[name] = replace(system, generator=(*system.generator, "--expect", "either"))
        try:
            turns = {name: partial(system.turn, load) for name, system in found.items()}
            figures = take_turns(turns, options.rounds)
            with Patient(found[REDIS]) as patient:
                found[REDIS].report(load)
        except VoidError as void:
            print(f"{SCENARIO}: VOID, {void}")
            return 1
        voids = [note for system in found.values() for note in system.notes]
    compared = ratio(figures, REDIS, MEMORY)
    bars = [
        Bar("times its own rate in memory", ">=", BAR, compared.value),
        Bar("denied under, after the wait that was told", "<=", 0, patient.under),
    ]
    notes = [f"{patient.waits} waits", *([compared.note] if compared.note else []), *voids]
    print_report(SCENARIO, figures, bars, notes)
    print(f"  {write_results(SCENARIO, figures, bars, notes)}")
    return 0


def _ask(connection: http.client.HTTPConnection) -> dict[str, Any]:
    body = json.dumps({"domain": "bench", "descriptors": [{"api_key": "patient"}]})
    connection.request("POST", "/v1/check", body, {"content-type": "application/json"})
    answer: dict[str, Any] = json.loads(connection.getresponse().read())
    return answer


if __name__ == "__main__":
    sys.exit(main())
