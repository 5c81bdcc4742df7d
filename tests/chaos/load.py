"""A steady load from a process of its own: `python -m tests.chaos.load PLAN`, until SIGTERM.

Requests leave when they are due, whether others were answered or not. A request whose node dies
with it is sent once more, to the other node, as a balancer would.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import grpc.aio  # type: ignore[import-untyped]

from tests.chaos.keys import DOMAIN, Key, Plan, Sample
from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request

PATIENCE_S = 5.0
"""A caller that waits longer takes it for an error."""
_IS_DEGRADED = b"degraded\x12\x02\x20\x01"

Verdict = tuple[bool, bool]
"""Allowed, degraded."""


class NodeFailedError(Exception):
    """The connection to a node ended before its answer came."""


@dataclass
class HttpDoor:
    """Connections to one node, kept while they stand."""

    port: int
    _idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def ask(self, key: Key) -> Verdict:
        """One decision.

        Raises:
            NodeFailedError: The node is gone.
        """
        body = json.dumps({"domain": DOMAIN, "descriptors": [key.entries]}).encode()
        head = (
            "POST /v1/check HTTP/1.1\r\nhost: chaos\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        try:
            ends = self._idle.pop() if self._idle else await self._connect()
            ends[1].write(head.encode() + body)
            told = (await ends[0].readuntil(b"\r\n\r\n")).decode().lower()
            length = int(told.partition("content-length: ")[2].partition("\r")[0])
            document = json.loads(await ends[0].readexactly(length))
        except (OSError, asyncio.IncompleteReadError) as error:
            raise NodeFailedError(repr(error)) from error
        if "connection: close" in told:
            ends[1].close()
        else:
            self._idle.append(ends)
        if " 200 " not in told.partition("\r")[0]:
            raise ValueError(f"{told.partition(chr(13))[0]}: {document}")
        return document["allowed"], document["degraded"]

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


class GrpcDoor:
    """One channel over all nodes, in turn; it leaves a node that says GOAWAY."""

    def __init__(self, ports: list[int]) -> None:
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        options = [
            ("grpc.lb_policy_name", "round_robin"),
            # That of several addresses is their list, which is no authority to HTTP/2.
            ("grpc.default_authority", "chaos"),
            ("grpc.max_reconnect_backoff_ms", 100),
            ("grpc.initial_reconnect_backoff_ms", 20),
            ("grpc.min_reconnect_backoff_ms", 20),
        ]
        channel = grpc.aio.insecure_channel(f"ipv4:{addresses}", options)
        self._call = channel.unary_unary(SHOULD_RATE_LIMIT)

    async def ask(self, key: Key) -> Verdict:
        """One decision; what fails is the caller's error: nothing is sent again here."""
        message = request([Descriptor(list(key.entries.items()))], DOMAIN)
        said = await self._call(message, timeout=PATIENCE_S)
        return answer(said).code == 1, _IS_DEGRADED in said


async def _sample(at: int, plan: Plan, doors: list[Callable[[Key], Awaitable[Verdict]]]) -> Sample:
    # Each key meets each node.
    turn, key = divmod(at, len(plan.keys))
    sent, attempts, error = time.time(), 0, ""
    allowed, degraded = None, False
    for again in range(2):
        door = doors[(at + turn + again) % len(doors)]
        attempts += 1
        try:
            async with asyncio.timeout(PATIENCE_S):
                allowed, degraded = await door(plan.keys[key])
        except NodeFailedError as failure:
            error = str(failure)
        except (TimeoutError, ValueError, grpc.aio.AioRpcError) as failure:
            error = repr(failure)
            break
        else:
            error = ""
            break
    return Sample(key, sent, time.time(), allowed, degraded, attempts, error)


async def _run(plan: Plan) -> list[Sample]:
    doors: list[Callable[[Key], Awaitable[Verdict]]]
    doors = (
        [GrpcDoor(list(plan.grpc)).ask] if plan.grpc else [HttpDoor(port).ask for port in plan.http]
    )
    is_over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_over.set)
    print("ready", flush=True)
    began, at = time.monotonic(), 0
    under_way: set[asyncio.Task[Sample]] = set()
    samples: list[Sample] = []

    def done(task: asyncio.Task[Sample]) -> None:
        under_way.discard(task)
        samples.append(task.result())

    while not is_over.is_set():
        task = asyncio.create_task(_sample(at, plan, doors))
        under_way.add(task)
        task.add_done_callback(done)
        at += 1
        await asyncio.sleep(max(0.0, began + at / plan.rate - time.monotonic()))
    while under_way:
        await asyncio.wait(under_way)
    return samples


def main() -> int:
    """Runs the load until it is told to stop, and writes what became of each request."""
    plan = Plan.of(json.loads(Path(sys.argv[1]).read_text()))
    samples = asyncio.run(_run(plan))
    lines = (json.dumps(asdict(sample)) for sample in samples)
    Path(plan.results).write_text("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
