"""Requests that a client takes back, or whose time is over, while the store is slow to answer."""

import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from os import kill

from tests.contract.grpc_transport.client import Answer, Client, framed
from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request
from tests.servers.native import Native
from tests.servers.process import wait_for
from tests.servers.valkey import StoreServer

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: search, per: [tenant], rate: 100/min, algorithm: fixed_window}
"""
HEALTH = "/grpc.health.v1.Health/Check"
CANCEL, DEADLINE_EXCEEDED = 8, 4
ON_THE_WIRE = 4
"""Calls that a worker has on the wire at once; later ones wait in the process."""
TOGETHER = 8
"""Questions that are taken up as a group, if nothing else is among them."""
PATIENCE_US = 10_000_000


@contextmanager
def paused(store: StoreServer) -> Iterator[None]:
    """The store takes bytes and does nothing."""
    kill(store.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        kill(store.pid, signal.SIGCONT)


def put(client: Client, *, hits: int = 1, extra: tuple[tuple[str, str], ...] = ()) -> int:
    """Readies a question; it leaves with what is sent next."""
    stream = client.open(SHOULD_RATE_LIMIT, extra=extra)
    message = request([Descriptor([("tenant", "acme")], hits=hits)])
    client.h2.send_data(stream, framed(message), end_stream=True)
    return stream


def ask(client: Client, *, hits: int = 1, extra: tuple[tuple[str, str], ...] = ()) -> int:
    """Sends a question, and lets the server take it up before anything else is sent."""
    stream = put(client, hits=hits, extra=extra)
    settle(client)
    return stream


def ask_together(client: Client) -> list[int]:
    """Sends as many questions as the server takes up as a group, without what settles."""
    streams = [put(client) for _ in range(TOGETHER)]
    settle(client)
    return streams


def settle(client: Client) -> None:
    """Two round trips: what was sent before has been read, and had its turn."""
    for _ in range(2):
        assert client.call(framed(b""), HEALTH).grpc == 0


def take_back(client: Client, stream: int) -> None:
    client.h2.reset_stream(stream, error_code=CANCEL)
    settle(client)


def left(said: Answer) -> int:
    assert said.grpc == 0, said
    return answer(said.data[5:]).statuses[0].remaining


def cancelled(node: Native) -> int:
    with urllib.request.urlopen(f"http://{node.server.http_address}/metrics") as page:
        lines = page.read().decode().splitlines()
    name = "tidegate_grpc_cancelled_total "
    return next(int(line.removeprefix(name)) for line in lines if line.startswith(name))


@contextmanager
def asking(store: StoreServer) -> Iterator[tuple[Native, Client]]:
    """A node that has reached its store, and a connection to it that has asked once."""
    with Native(POLICY, store=store.url, deadline_us=PATIENCE_US) as node:
        # A node starts before it has reached its store.
        wait_for(lambda: not node.check({"tenant": "other"})["degraded"], "the store")
        port = int(node.server.grpc_address.rsplit(":", 1)[1])
        with Client(port) as client:
            wait_for(lambda: left(client.answer(ask(client, hits=0))) == 100, "its worker")
            assert left(client.answer(ask(client))) == 99
            yield node, client


def test_request_taken_back_is_charged_if_and_only_if_the_store_was_asked(
    valkey: StoreServer,
) -> None:
    with asking(valkey) as (node, client):
        with paused(valkey):
            on_the_wire = [ask(client) for _ in range(ON_THE_WIRE)]
            waiting = [ask(client) for _ in range(3)]
            take_back(client, on_the_wire[1])
            take_back(client, waiting[0])
            take_back(client, waiting[2])
        answered = [*on_the_wire[:1], *on_the_wire[2:], waiting[1]]
        told = [left(client.answer(stream)) for stream in answered]
        # 98 went to the request on the wire that nobody waits for any longer.
        assert told == [98, 96, 95, 94]
        assert left(client.answer(ask(client, hits=0))) == 94
        for stream in (on_the_wire[1], waiting[0], waiting[2]):
            assert not client.answers[stream].headers, "nobody waits for an answer"
        assert cancelled(node) == 3


def test_each_request_of_a_group_can_be_taken_back_after_others_were(valkey: StoreServer) -> None:
    with asking(valkey) as (node, client):
        with paused(valkey):
            for _ in range(ON_THE_WIRE):
                ask(client)
            group = ask_together(client)
            for at in (1, 6, 0):
                take_back(client, group[at])
                # Each is noticed when it happens, not when an answer comes.
            assert cancelled(node) == 3
        told = [left(client.answer(group[at])) for at in (2, 3, 4, 5, 7)]
        assert told == [94, 93, 92, 91, 90]
        assert cancelled(node) == 3


def test_request_whose_time_ended_before_the_store_was_asked_is_not_charged(
    valkey: StoreServer,
) -> None:
    with asking(valkey) as (_, client):
        with paused(valkey):
            for _ in range(ON_THE_WIRE):
                ask(client)
            late = ask(client, extra=(("grpc-timeout", "50m"),))
            assert client.answer(late).grpc == DEADLINE_EXCEEDED
            settle(client)
        assert left(client.answer(ask(client, hits=0))) == 99 - ON_THE_WIRE


def test_connection_that_ends_takes_back_what_it_asked(valkey: StoreServer) -> None:
    with asking(valkey) as (node, client):
        port = client.socket.getpeername()[1]
        with paused(valkey):
            for _ in range(ON_THE_WIRE):
                ask(client)
            # Both on one worker, whose line to the store is full; workers take turns.
            with Client(port), Client(port) as other:
                ask(other)
            wait_for(lambda: cancelled(node) == 1, "the end of the connection")
        assert left(client.answer(ask(client, hits=0))) == 99 - ON_THE_WIRE
