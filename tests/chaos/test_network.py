"""The network does what it is told: else the suite would break nothing."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.servers.network import CLEAR, Link, Network, Weather

LOST = Weather(is_lost=True)


@pytest.fixture
def link() -> Iterator[Link]:
    """The way to a server that says what it is told."""
    with socket.create_server(("127.0.0.1", 0)) as door, Network() as network:
        threading.Thread(target=_serve, args=(door,), daemon=True).start()
        yield network.link(door.getsockname()[1])
        # What waits for a client is woken by the end of its socket.
        door.shutdown(socket.SHUT_RDWR)


def _serve(door: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_echo, args=(door.accept()[0],), daemon=True).start()


def _echo(client: socket.socket) -> None:
    with client, suppress(OSError):
        while said := client.recv(100):
            client.sendall(said)


def to(link: Link, name: bytes = b"hello") -> socket.socket:
    """A client that has said its name and heard it."""
    client = socket.create_connection(("127.0.0.1", link.port), timeout=5)
    client.sendall(name)
    assert client.recv(100) == name
    return client


def is_silent(client: socket.socket) -> bool:
    """Whether what is said now has no answer, for long enough to tell."""
    client.sendall(b"again")
    client.settimeout(0.1)
    try:
        client.recv(100)
    except TimeoutError:
        return True
    finally:
        client.settimeout(5)
    return False


def answers(client: socket.socket) -> bool:
    """Whether what is said now has an answer, which a busy machine may take seconds to give."""
    client.sendall(b"again")
    return client.recv(100) == b"again"


def test_what_is_slow_arrives_whole_and_in_order(link: Link) -> None:
    with to(link) as client:
        link.set(Weather(delay_s=0.05))
        began = time.monotonic()
        for at in range(10):
            client.sendall(b"%d" % at)
        said = b""
        while len(said) < 10:
            said += client.recv(100)
        assert said == b"0123456789"
        assert time.monotonic() - began >= 0.1


@pytest.mark.parametrize("ways", [(LOST, CLEAR), (CLEAR, LOST)], ids=["to", "back"])
def test_what_is_lost_resets_the_connection_once_it_passes_again(
    link: Link, ways: tuple[Weather, Weather]
) -> None:
    with to(link) as client:
        link.set(*ways)
        assert is_silent(client)
        link.clear()
        client.sendall(b"more")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    to(link).close()


def test_only_those_are_met_who_say_so_first(link: Link) -> None:
    with to(link, b"i am north") as north, to(link, b"i am south") as south:
        link.set(LOST, only="north")
        assert is_silent(north)
        assert answers(south)


def test_what_hangs_stays_silent_and_a_new_connection_passes(link: Link) -> None:
    with to(link) as client:
        link.hang()
        to(link).close()
        link.clear()
        assert is_silent(client)


def test_what_is_cut_is_reset(link: Link) -> None:
    with to(link) as client:
        link.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    to(link).close()
