"""A node that stops while clients ask over TLS: no request is lost, none is charged in vain."""

import signal
import ssl
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event

import pytest

from tests.contract.grpc_transport.client import Client as Http2
from tests.contract.grpc_transport.client import framed
from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request
from tests.contract.tls.conftest import Client, StartNode
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

RATE = 1_000_000
POLICY = f"""\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {{id: all, per: [tenant], rate: {RATE}/week, algorithm: fixed_window}}
"""
CONNECTIONS, IN_FLIGHT = 4, 20
ASKED_BEFORE = 300
"""Requests of each connection that are answered before the node is told to stop."""
ROOM = 1 << 30
"""For all answers: who grants more as they come may write to a connection that is closed."""
MOST = (1 << 31) - 1
"""The last of all streams: what a first GOAWAY names, so that what is under way may still come."""


@dataclass
class Told:
    """What one connection saw."""

    answered: int = 0
    refused: int = 0


def load(port: int, tls: ssl.SSLContext, tenant: str, under_way: Event) -> Told:
    """Keeps requests in flight until the server asks to leave, then takes what is left."""
    message = framed(request([Descriptor([("tenant", tenant)])]))
    told, pending = Told(), set[int]()
    with Http2(port, tls=tls) as client:
        client.h2.increment_flow_control_window(ROOM)

        def take() -> bool:
            ended = {stream for stream in pending if client.answers[stream].is_ended}
            for stream in ended:
                said = client.answers.pop(stream)
                assert said.grpc == 0, said
                assert answer(said.data[5:]).code == 1
            pending.difference_update(ended)
            told.answered += len(ended)
            return bool(ended or client.goaways)

        while not client.goaways:
            while len(pending) < IN_FLIGHT:
                stream = client.open(SHOULD_RATE_LIMIT)
                client.h2.send_data(stream, message, end_stream=True)
                pending.add(stream)
            client.read_until(take, deadline_s=20)
            if told.answered >= ASKED_BEFORE:
                under_way.set()
        client.read_to_end(deadline_s=20)
        take()
        assert set(client.goaways) == {0}, "no error"
        assert client.last_stream is not None
        assert client.last_stream < MOST
        # A client may send these again elsewhere: the server says that it did not begin them.
        assert all(stream > client.last_stream for stream in pending)
        told.refused = len(pending)
    return told


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_no_request_is_lost_when_a_node_stops_under_load_b82(
    start: StartNode, client: Client, valkey: StoreServer, store: str
) -> None:
    options = ("--store", valkey.url, "--store-timeout", "2s") if store == "redis" else ()
    node = start("--workers", "2", *options, policy=POLICY)
    tls = client.context(["h2"])
    under_way = [Event() for _ in range(CONNECTIONS)]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        loads = [
            pool.submit(load, node.grpc_port, tls, f"t{at}", event)
            for at, event in enumerate(under_way)
        ]
        assert all(event.wait(30) for event in under_way)
        assert node.stop(signal.SIGTERM) == 0
        told = [one.result(30) for one in loads]
    assert all(one.answered >= ASKED_BEFORE for one in told)
    if store == "redis":
        assert charged(start, client, len(told), options) == [one.answered for one in told]


def charged(start: StartNode, client: Client, tenants: int, options: tuple[str, ...]) -> list[int]:
    """What each tenant has used, as another node on the same store sees it."""
    node = start(*options, policy=POLICY)
    look = partial(used, node, client)
    return [wait_for(partial(look, f"t{at}"), "the store") for at in range(tenants)]


def used(node: Tidegate, client: Client, tenant: str) -> int | None:
    """None while the node has not reached its store."""
    with Http2(node.grpc_port, tls=client.context(["h2"])) as http2:
        look = framed(request([Descriptor([("tenant", tenant)], hits=0)]))
        said = http2.call(look, SHOULD_RATE_LIMIT)
    status = answer(said.data[5:]).statuses[0]
    return RATE - status.remaining if status.has_limit else None
