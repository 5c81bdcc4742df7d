"""The script in a store that all its tests share."""

from collections.abc import Iterator

import pytest
import redis

from tests.contract.script.codec import Script
from tests.servers.valkey import StoreServer


@pytest.fixture
def script(shared_valkey: StoreServer) -> Iterator[Script]:
    """The script in an empty Valkey."""
    yield from _script(shared_valkey)


@pytest.fixture
def script_in_redis(shared_redis: StoreServer) -> Iterator[Script]:
    """The script in an empty Redis."""
    yield from _script(shared_redis)


def _script(server: StoreServer) -> Iterator[Script]:
    with redis.Redis(unix_socket_path=server.socket_path) as client:
        client.flushall()
        yield Script(client)
