"""What these tests talk to: a proxy, Tidegate and an application, started for each."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.envoy import Response, get
from tests.servers.ports import free_port
from tests.servers.proxies import (
    EXAMPLES,
    KINDS,
    Kind,
    Proxy,
    how_to_get,
    proxy_binary,
)
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


@dataclass(frozen=True)
class Gateway:
    """A proxy in front of an application, and the Tidegate that it asks."""

    name: str
    kind: Kind
    proxy: Proxy
    tidegate: Tidegate
    app: Upstream

    def get(self, path: str, source: str | None = None, **headers: str) -> Response:
        """Sends one request; `x_tenant="a"` is the header `x-tenant: a`."""
        said = {key.replace("_", "-"): it for key, it in headers.items()}
        return get(self.proxy.port, path, said, source)

    def statuses(self, *paths: str, **headers: str) -> list[int]:
        """Sends a request for each of these paths."""
        return [self.get(path, **headers).status for path in paths]


class StartGateway:
    """Starts one of the proxies; all ends with the test."""

    def __init__(self, name: str, binary: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.kind = KINDS[name]
        self._binary, self._folder, self._stack = binary, folder, stack

    def __call__(
        self,
        *options: str,
        policy: str = POLICY,
        is_up: bool = True,
        doors: Path = EXAMPLES / "doors.toml",
        edit: Callable[[str], str] = str,
    ) -> Gateway:
        """Starts one; `options` are more arguments of `tidegate serve`."""
        app = self._stack.enter_context(Upstream())
        options = ("--forward-auth", str(doors), *options)
        tidegate = Tidegate(policy, self._folder, None, options)
        tidegate.http_port = free_port()
        if is_up:
            self._stack.enter_context(tidegate)
        ports = {8080: tidegate.http_port, 9000: app.port}
        proxy = Proxy(self._binary, self.name, ports, self._folder, edit)
        self._stack.enter_context(proxy)
        return Gateway(self.name, self.kind, proxy, tidegate, app)


@pytest.fixture(params=KINDS)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StartGateway]:
    binary = proxy_binary(request.param)
    if binary is None:
        pytest.skip(how_to_get(request.param))
    with ExitStack() as stack:
        yield StartGateway(request.param, binary, tmp_path, stack)
