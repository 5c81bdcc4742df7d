"""Many at once: exactly as many pass as the limit says, through one node and through several."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.e2e.bootstrap import ask_for_each_request, constant
from tests.e2e.conftest import Gateway, StartGateway
from tests.servers.valkey import StoreServer

LIMIT = 100
POLICY = f"""
version: 1
domains:
  shop:
    limits:
      - {{id: everybody, rate: {LIMIT}/day}}
"""


def _for_everybody(config: dict[str, Any]) -> None:
    ask_for_each_request(config, {"actions": [constant("who", "everybody")]})


def _crowd(gateways: list[Gateway], each: int) -> Counter[int]:
    """Statuses of so many requests to each gateway, eight of them at a time."""
    asked = [gateway for _ in range(each) for gateway in gateways]
    with ThreadPoolExecutor(8) as pool:
        return Counter(pool.map(lambda gateway: gateway.get().status, asked))


def test_a_crowd_gets_what_there_is_and_no_more(start_gateway: StartGateway) -> None:
    gateway = start_gateway(POLICY, _for_everybody)
    assert _crowd([gateway], 150) == {200: LIMIT, 429: 50}
    assert gateway.stat("error") == 0


def test_nodes_on_one_store_agree_to_the_last_unit(
    start_gateway: StartGateway, valkey: StoreServer
) -> None:
    gateways = [start_gateway(POLICY, _for_everybody, store=valkey.url) for _ in range(2)]
    assert _crowd(gateways, 75) == {200: LIMIT, 429: 50}
    assert [gateway.stat("error") for gateway in gateways] == [0, 0]
