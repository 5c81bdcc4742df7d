"""A store behind a name that moves to another address."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from tests.integration.redis_cluster.asking import Asker
from tests.servers.counters import counters
from tests.servers.ports import free_port
from tests.servers.process import wait_for, without_settings
from tests.servers.tidegate import Tidegate
from tests.servers.valkey import StoreServer

NAME = "store.test"
POLICY = """\
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - id: hits
        per: [tenant]
        rate: 1000 per 365 days
        algorithm: fixed_window
        on_store_failure: closed      # what is let pass would be charged afterwards
"""
BLOCKING = """\
import sys
from tidegate import Limiter
limiter = Limiter(sys.argv[1], store_timeout=2)
limit = limiter.limit("1000 per 365 days", id="hits", algorithm="fixed_window")
for _ in sys.stdin:
    decision = limit.hit("acme")
    print(-1 if decision.degraded else decision.limits[0].remaining, flush=True)
"""
Left = Callable[[], int]
"""What a hit leaves; -1 if the store was not asked."""


@dataclass
class Names:
    """A file of names, which one process takes for the system's own."""

    file: Path

    def point_to(self, address: str) -> None:
        """The name means this address from now on."""
        self.file.write_text(f"127.0.0.1 localhost\n{address} {NAME}\n")

    @property
    def prefix(self) -> tuple[str, ...]:
        """A command that has what follows read them."""
        mount = f'mount --bind "{self.file}" /etc/hosts && exec "$0" "$@"'
        return ("unshare", "--map-root-user", "--mount", "sh", "-c", mount)


@pytest.fixture
def names(tmp_path: Path) -> Names:
    made = Names(tmp_path / "hosts")
    made.point_to("127.0.0.1")
    with suppress(OSError):
        tried = subprocess.run([*made.prefix, "grep", NAME, "/etc/hosts"], check=False)
        if tried.returncode == 0:
            return made
    pytest.skip("this system lets nobody have names of their own (unshare, mount)")


@pytest.fixture
def stores(valkey_path: str) -> Iterator[tuple[StoreServer, StoreServer]]:
    """Two at the same port of two addresses."""
    port = free_port()
    with (
        StoreServer(valkey_path, port=port) as first,
        StoreServer(valkey_path, port=port, host="127.0.0.2") as second,
    ):
        yield first, second


@pytest.fixture(params=["blocking", "service"])
def left(
    request: pytest.FixtureRequest,
    names: Names,
    stores: tuple[StoreServer, StoreServer],
    tmp_path: Path,
) -> Iterator[Left]:
    """Takes one, from a thread that blocks or from a node."""
    url = f"redis://{NAME}:{stores[0].port}"
    with ExitStack() as stack:
        if request.param == "blocking":
            yield stack.enter_context(blocking(names, url))
            return
        node = stack.enter_context(Tidegate(POLICY, tmp_path, url, prefix=names.prefix))
        asker = stack.enter_context(Asker(node))

        def ask() -> int:
            decision = asker.check(tenant="acme")
            return -1 if decision["degraded"] else decision["limits"][0]["remaining"]

        yield ask


@contextmanager
def blocking(names: Names, url: str) -> Iterator[Left]:
    """A process whose one thread asks by itself."""
    with subprocess.Popen(
        [*names.prefix, sys.executable, "-c", BLOCKING, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=without_settings(),
        text=True,
    ) as child:
        said, heard = child.stdin, child.stdout
        assert said is not None
        assert heard is not None

        def ask() -> int:
            said.write("\n")
            said.flush()
            return int(heard.readline())

        yield ask


def test_the_next_connection_goes_where_the_name_has_moved(
    names: Names, stores: tuple[StoreServer, StoreServer], left: Left
) -> None:
    first, second = stores
    wait_for(lambda: left() > 0, "the store to decide")
    names.point_to(second.host)
    before = left()
    assert left() == before - 1, "a connection that stands stays"
    with redis.Redis(first.host, first.port) as client:
        client.client_kill_filter(_type="normal", skipme=True)
    wait_for(lambda: left() == 999, "the other store to be asked, which nobody has used")
    with redis.Redis(second.host, second.port) as client:
        assert len(counters(client)) == 1
