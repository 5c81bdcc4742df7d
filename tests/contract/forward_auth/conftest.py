"""What these tests talk to: a proxy, Tidegate and an application, started for each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.envoy import Response, get
from tests.servers.proxies import EXAMPLES, Proxy, free_port, proxy_binary
from tests.servers.tidegate import Tidegate
from tests.servers.upstream import Upstream

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: each, when: {route: "/a*"}, per: [ip], rate: 3/h}
      - {id: of-tenant, per: [tenant], missing: skip, rate: 2/h}
      - {id: login, when: {route: /login}, per: [ip], rate: 1/h, on_store_failure: closed}
      - {id: shut, when: {route: /shut}, rate: 0/h}
"""
PROXIES = {"nginx": ("nginx.conf", 10080), "haproxy": ("haproxy.cfg", 10081)}


@dataclass(frozen=True)
class Gateway:
    """A proxy in front of an application, and the Tidegate that it asks."""

    name: str
    proxy: Proxy
    tidegate: Tidegate
    app: Upstream

    def get(self, path: str, **headers: str) -> Response:
        """Sends one request; `x_tenant="a"` is the header `x-tenant: a`."""
        return get(
            self.proxy.port, path, {key.replace("_", "-"): it for key, it in headers.items()}
        )

    def statuses(self, *paths: str, **headers: str) -> list[int]:
        """Sends a request for each of these paths."""
        return [self.get(path, **headers).status for path in paths]


class StartGateway:
    """Starts one of the proxies; all ends with the test."""

    def __init__(self, name: str, binary: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self._binary, self._folder, self._stack = binary, folder, stack

    def __call__(
        self,
        *options: str,
        policy: str = POLICY,
        is_up: bool = True,
        edit: Callable[[str], str] = str,
    ) -> Gateway:
        """Starts one; `options` are more arguments of `tidegate serve`."""
        app = self._stack.enter_context(Upstream())
        doors = ("--forward-auth", str(EXAMPLES / "doors.toml"))
        tidegate = Tidegate(policy, self._folder, None, (*doors, *options))
        tidegate.http_port = free_port()
        if is_up:
            self._stack.enter_context(tidegate)
        example, listen = PROXIES[self.name]
        ports = {8080: tidegate.http_port, 9000: app.port}
        proxy = Proxy(self._binary, example, listen, ports, self._folder, edit)
        return Gateway(self.name, self._stack.enter_context(proxy), tidegate, app)


@pytest.fixture(params=PROXIES)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartGateway]:
    binary = proxy_binary(request.param)
    if binary is None:
        pytest.skip(f"there is no {request.param} here; as root tools/servers.sh installs it")
    with ExitStack() as stack:
        yield StartGateway(request.param, binary, tmp_path, stack)
