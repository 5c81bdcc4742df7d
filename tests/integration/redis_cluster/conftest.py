"""Clusters for tests: one for all that leave it as it was, and fresh ones for those that do not."""

from collections.abc import Iterator

import pytest

from tests.servers.cluster import ClusterServers


@pytest.fixture(scope="session")
def steady(valkey_path: str) -> Iterator[ClusterServers]:
    """Three masters that keep their slots; tests keep to their own keys."""
    with ClusterServers(valkey_path) as cluster:
        yield cluster


@pytest.fixture
def cluster(valkey_path: str) -> Iterator[ClusterServers]:
    """Three masters of this test alone."""
    with ClusterServers(valkey_path) as cluster:
        yield cluster


@pytest.fixture
def replicated(valkey_path: str) -> Iterator[ClusterServers]:
    """Three masters and three replicas of this test alone."""
    with ClusterServers(valkey_path, replicas=3) as cluster:
        yield cluster
