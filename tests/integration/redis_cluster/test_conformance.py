"""The conformance cases on a Cluster: limits in several slots decide as in one place."""

from collections.abc import Iterator

import pytest

from tests.integration.serve.test_conformance import OverHttp
from tests.oracle.conformance import Case, load_cases, run_case
from tests.servers.cluster import ClusterServers, told


@pytest.fixture
def subject(steady: ClusterServers) -> Iterator[OverHttp]:
    for server in steady.servers:
        told(server, "FLUSHALL")
    made = OverHttp(steady.url)
    yield made
    made.close()


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.name)
def test_a_cluster_decides_the_case(case: Case, subject: OverHttp) -> None:
    run_case(case, subject)
