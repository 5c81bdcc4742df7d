"""The number of series depends on the policy alone, whatever clients send."""

import re
import urllib.request

import grpc  # type: ignore[import-untyped]
import pytest

from tests.contract.rls.wire import SHOULD_RATE_LIMIT, Descriptor, answer, request
from tests.servers.native import Native
from tests.servers.valkey import StoreServer

POLICY = """
version: 1
domains:
  shop:
    tenant_key: tenant
    limits:
      - {id: quota, per: [tenant], rate: 5/min, algorithm: fixed_window}
      - {id: trial, per: [tenant], rate: 1/min, algorithm: fixed_window, on_exceed: shadow}
  other:
    limits:
      - {id: all, rate: 1k/min}
"""
_SAMPLE = re.compile(r"^(\w+(?:\{.*\})?) (\S+)$", re.MULTILINE)


def samples(node: Native) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{node.server.http_address}/metrics") as answer:
        return {name: float(value) for name, value in _SAMPLE.findall(answer.read().decode())}


def ask(node: Native, checks: list[dict[str, object]]) -> None:
    for start in range(0, len(checks), 1000):
        assert node.post("/v1/check", {"checks": checks[start : start + 1000]}).status == 200


def check(domain: str, **descriptor: str) -> dict[str, object]:
    return {"domain": domain, "descriptors": [descriptor]}


def test_b86_series_do_not_grow_with_identities_domains_and_paths() -> None:
    with Native(POLICY) as node:
        ask(node, [check("shop", tenant="a")] * 6 + [check("who", tenant="a")])
        node.post("/v1/nowhere", {})
        before = samples(node)
        ask(node, [{**check("shop", tenant=f"t{number}"), "cost": 6} for number in range(10_000)])
        ask(node, [check(f"domain-{number}", tenant="a") for number in range(10_000)])
        ask(node, [check("shop", tenant="a", route=f"/{number}") for number in range(10_000)])
        for number in range(100):
            node.post(f"/{number}", {})
        after = samples(node)
    assert before.keys() == after.keys()
    assert not [name for name in after if "domain-1" in name or "t17" in name]
    unknown = 'tidegate_decisions_total{domain="",result="allowed"}'
    assert after[unknown] - before[unknown] == 10_000


def test_b86_series_do_not_grow_with_limits_that_requests_bring_and_with_methods() -> None:
    open_limit = "      - {id: open, per: [user], rate: 5/min, request_override: true}\n"
    policy = POLICY.replace("  other:\n", open_limit + "  other:\n")
    with Native(policy) as node, grpc.insecure_channel(node.server.grpc_address) as channel:
        ask_brings = channel.unary_unary(SHOULD_RATE_LIMIT)

        def codes(numbers: range) -> set[int]:
            brought = (Descriptor([("user", "u")], hits=2, limit=(n, 1 + n % 7)) for n in numbers)
            told = [ask_brings.future(request([one]), timeout=30) for one in brought]
            return {answer(one.result()).code for one in told}

        assert codes(range(50)) == {1, 2}
        ask(node, [check("who", tenant="a")])
        before = samples(node)
        assert codes(range(10_000)) == {1, 2}
        for number in range(100):
            with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
                channel.unary_unary(f"/made.up/Method{number}")(b"", timeout=5)
        after = samples(node)
    assert before.keys() == after.keys()
    results = [
        f'tidegate_limit_decisions_total{{domain="shop",limit="open",result="{result}"}}'
        for result in ("allowed", "denied")
    ]
    assert sum(after[name] - before[name] for name in results) == 10_000


def test_a_domain_named_other_is_not_mixed_with_unknown_ones() -> None:
    with Native(POLICY) as node:
        ask(node, [check("other", tenant="a")] * 3 + [check("who", tenant="a")] * 2)
        after = samples(node)
    assert after['tidegate_decisions_total{domain="other",result="allowed"}'] == 3
    assert after['tidegate_decisions_total{domain="",result="allowed"}'] == 2


def test_a_limit_that_is_nearly_used_up_is_counted() -> None:
    with Native(POLICY) as node:
        ask(node, [check("shop", tenant="a")] * 7)
        after = samples(node)
    near = 'tidegate_near_limit_decisions_total{domain="shop",limit="%s"}'
    assert after[near % "quota"] == 2, "the fourth and the fifth"
    results = 'tidegate_limit_decisions_total{domain="shop",limit="%s",result="%s"}'
    assert after[results % ("quota", "denied")] == 2
    shadow = [after[results % ("trial", word)] for word in ("allowed", "denied", "shadow_denied")]
    assert shadow == [1, 0, 6], "what a shadow would have refused has a label of its own"


@pytest.mark.parametrize("store", ["memory", "redis"])
def test_times_are_told_as_histograms(shared_valkey: StoreServer, store: str) -> None:
    url = None if store == "memory" else f"redis://127.0.0.1:{shared_valkey.port}/5"
    with Native(POLICY, store=url) as node:
        for _ in range(64):
            node.check({"tenant": "a"})
        after = samples(node)
    families = ["tidegate_request_duration_seconds"]
    families += ["tidegate_store_duration_seconds"] if url else []
    for family in families:
        labels = '{door="http"}' if "request" in family else ""
        count = after[f"{family}_count{labels}"]
        assert count >= 4
        assert after[f"{family}_sum{labels}"] > 0
        pattern = re.compile(rf'{family}_bucket\{{(?:door="http",)?le="(.+)"\}}')
        told = [(m[1], value) for name, value in after.items() if (m := pattern.match(name))]
        bounds = [float(bound) for bound, _ in told]
        assert bounds == sorted(bounds)
        assert [value for _, value in told] == sorted(value for _, value in told)
        assert told[-1] == ("+Inf", count)
    if url:
        assert after["tidegate_store_connects_total"] >= 1
        assert after["tidegate_store_connection_failures_total"] == 0


def test_errors_of_the_store_have_a_class() -> None:
    with Native(POLICY, store="redis://127.0.0.1:1/0") as node:
        assert node.check({"tenant": "a"})["degraded"]
        after = samples(node)
    assert after['tidegate_store_errors_total{class="disconnected"}'] == 1
    assert after["tidegate_store_connection_failures_total"] >= 1
    near = 'tidegate_near_limit_decisions_total{domain="shop",limit="quota"}'
    assert after[near] == 0, "what is not known is not near"
