"""The script against INCRBY + EXPIRE: CPU time of a saturated store for one decision.

Both sides get the same number of decisions in each write, on the same 10,000 keys, all admitted
(an admitted decision writes, so it is the dear one). The store is on core 0, the load on core 1.
"""

import argparse
import random
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.harness import Bar, Figures, pin, print_report, take_turns, watch, write_results
from tests.contract.script.codec import pack_batch, source, unpack_reply
from tests.oracle.model import Op, Outcome
from tests.servers.valkey import StoreServer, redis_binary, valkey_binary

SCENARIO = "script"
KEYS = 10_000
BATCH = 16
CONNECTIONS = 4
WRITES = 256
MINUTE = 60_000_000
BAR = 4.0
RECORD = 25
LATE_BUCKET = "late token_bucket"
"""A bucket that nodes settle later, as with `consistency: local`."""


@dataclass(frozen=True, slots=True)
class Load:
    """Prebuilt writes of one kind, and how to know that one of them is answered."""

    writes: Sequence[bytes]
    is_answered: Callable[[bytearray], bool]
    check: Callable[[bytes], None]


def key_of(kind: str, number: int) -> str:
    """A key as long as those of a real limit; each kind of counter has its own."""
    return f"{kind[0]}g1:{{4:shop11:tenant-{number:04}}}6:search{number:04}"


def resp(*parts: bytes | str | int) -> bytes:
    """One command on the wire."""
    encoded = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
    head = b"*%d\r\n" % len(encoded)
    return head + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in encoded)


def script_load(sha: bytes, algorithm: str, calls: int, decisions: int, rng: random.Random) -> Load:
    """Writes of `calls` script calls, each for `decisions` requests of one operation."""
    burst = 2**40
    is_late = algorithm == LATE_BUCKET
    rule = "token_bucket" if is_late else algorithm
    requests_of: list[list[list[Op]]] = []
    writes = []
    for _ in range(WRITES):
        write = b""
        for _ in range(calls):
            keys = [key_of(algorithm, number) for number in rng.sample(range(KEYS), decisions)]
            requests = [[Op(key, rule, burst, MINUTE, burst)] for key in keys]  # type: ignore[arg-type]
            names, batch = pack_batch(requests, is_told_late=is_late)
            write += resp(b"EVALSHA", sha, len(names), *names, batch)
        requests_of.append(requests)
        writes.append(write)
    head = b"$%d\r\n" % (RECORD * decisions)
    answer = len(head) + RECORD * decisions + 2

    def check(reply: bytes) -> None:
        for start in range(0, len(reply), answer):
            body = reply[start + len(head) : start + answer - 2]
            for outcomes in unpack_reply(body, requests_of[0]):
                assert all(isinstance(o, Outcome) and o.fits for o in outcomes), reply[:200]

    return Load(writes, lambda reply: len(reply) >= answer * calls, check)


def counter_load(decisions: int, rng: random.Random) -> Load:
    """Writes of as many INCRBY + EXPIRE pairs as the other side makes decisions."""
    writes = []
    for _ in range(WRITES):
        write = b""
        for _ in range(decisions):
            key = key_of("counter", rng.randrange(KEYS))
            write += resp("INCRBY", key, 1) + resp("EXPIRE", key, 60)
        writes.append(write)

    def check(reply: bytes) -> None:
        assert b"-" not in reply, reply[:200]

    return Load(writes, lambda reply: reply.count(b"\r\n") >= 2 * decisions, check)


def drive(path: str, load: Load, writes: int) -> None:
    """Keeps every connection's write in flight, so that the store never waits."""
    connections = []
    for _ in range(CONNECTIONS):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        connections.append(connection)
    sent = 0
    for connection in connections:
        connection.sendall(load.writes[sent % len(load.writes)])
        sent += 1
    for done in range(writes):
        connection = connections[done % CONNECTIONS]
        reply = bytearray()
        while not load.is_answered(reply):
            part = connection.recv(1 << 16)
            assert part, "the store closed the connection"
            reply += part
            assert reply[:1] != b"-", bytes(reply[:200])
        if done % 64 == 0:
            load.check(bytes(reply))
        if sent < writes:
            connection.sendall(load.writes[sent % len(load.writes)])
            sent += 1
    for connection in connections:
        connection.close()


def system(
    server: StoreServer, load: Load, per_write: int, decisions: int
) -> Callable[[], Figures]:
    """One turn of one kind of load."""
    writes = decisions // per_write

    def run() -> Figures:
        used = watch(server.pid, lambda: drive(server.socket_path, load, writes))
        return {
            "rate": writes * per_write / used.wall_us * 1e6,
            "store_cpu_us": used.cpu_us / (writes * per_write),
            "store_busy": used.share,
        }

    return run


def main() -> int:
    """Runs the comparison, prints it and writes the results file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=320_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=1, help="script calls a write")
    parser.add_argument("--store", choices=["valkey", "redis"], default="valkey")
    options = parser.parse_args()
    binary = valkey_binary() if options.store == "valkey" else redis_binary()
    if binary is None:
        print(f"{SCENARIO}: no {options.store}-server here, skipped")
        return 0
    pin(1)
    with StoreServer(binary) as server:
        pin(0, server.pid)
        sha = load_script(server)
        rng = random.Random(16)
        per_write = BATCH * options.calls
        systems = {
            f"tidegate {algorithm}": system(
                server,
                script_load(sha, algorithm, options.calls, BATCH, rng),
                per_write,
                options.decisions,
            )
            for algorithm in ("token_bucket", LATE_BUCKET, "fixed_window", "sliding_window")
        }
        systems["tidegate token_bucket, 1 a call"] = system(
            server,
            script_load(sha, "token_bucket", per_write, 1, rng),
            per_write,
            options.decisions,
        )
        systems["INCRBY + EXPIRE"] = system(
            server, counter_load(per_write, rng), per_write, options.decisions
        )
        figures = take_turns(systems, options.rounds)
    floor = figures["INCRBY + EXPIRE"]["store_cpu_us"]
    for taken in figures.values():
        taken["times_floor"] = taken["store_cpu_us"] / floor
    value = figures["tidegate token_bucket"]["times_floor"]
    bars = [Bar("store CPU a decision at 16 a call, times INCRBY + EXPIRE", "<=", BAR, value)]
    print_report(SCENARIO, figures, bars)
    print(f"  {write_results(SCENARIO, figures, bars)}")
    return 0


def load_script(server: StoreServer) -> bytes:
    """Loads the script as shipped; returns its hash."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server.socket_path)
        connection.sendall(resp("SCRIPT", "LOAD", source()))
        reply = connection.recv(4096)
    assert reply.startswith(b"$40\r\n"), reply
    return reply[5:45]


if __name__ == "__main__":
    sys.exit(main())
