"""What a client of the gateway sees: 200s, then 429 with headers and a body that say why."""

import time
from functools import partial
from typing import Any

from tests.e2e.bootstrap import ask_for_each_request, constant, from_header, put_first, rate_limit
from tests.e2e.conftest import Gateway, StartGateway
from tests.servers.process import wait_for

TENANT = from_header("x-tenant", "tenant")
API_KEY = from_header("x-api-key", "api_key")
BY_TENANT = {"actions": [TENANT]}
BY_KEY = {"actions": [TENANT, API_KEY]}


def policy(*limits: str) -> str:
    lines = ["version: 1", "domains:", "  shop:", "    tenant_key: tenant", "    limits:"]
    return "\n".join([*lines, *(f"      - {{{limit}}}" for limit in limits), ""])


def test_requests_pass_until_the_limit_and_are_then_told_when_to_come_back(
    start_gateway: StartGateway,
) -> None:
    gateway = start_gateway(
        policy("id: per-tenant, per: [tenant], rate: 3/h"),
        partial(_ask, [BY_TENANT]),
    )
    for remaining in (2, 1, 0):
        passed = gateway.get("/here", x_tenant="acme")
        assert passed.status == 200
        assert passed.json()["path"] == "/here"
        assert passed.headers["x-ratelimit-limit"] == "3"
        assert passed.headers["x-ratelimit-remaining"] == str(remaining)
        assert "retry-after" not in passed.headers

    denied = gateway.get("/here", x_tenant="acme")
    assert denied.status == 429
    assert denied.headers["content-type"] == "application/problem+json"
    assert denied.headers["x-ratelimit-limit"] == "3"
    assert denied.headers["x-ratelimit-remaining"] == "0"
    assert denied.headers["x-ratelimit-used"] == "3"
    assert denied.headers["x-ratelimit-resource"] == "per-tenant"
    in_seconds = int(denied.headers["x-ratelimit-reset"]) - time.time()
    assert 3000 < in_seconds <= 3601, "all three come back in an hour"
    retry_after = int(denied.headers["retry-after"])
    assert 600 < retry_after <= 1200, "one comes back every 20 minutes"
    problem = denied.json()
    assert problem["type"].endswith("#quota-exceeded")
    assert problem["violated-policies"] == ["per-tenant"]
    assert problem["retry_after"] == retry_after
    assert problem["decision_id"]

    assert gateway.get("/here", x_tenant="other").status == 200
    assert len(gateway.app.seen) == 4, "the application never saw what was denied"
    assert (gateway.stat("ok"), gateway.stat("over_limit"), gateway.stat("error")) == (4, 1, 0)


def test_several_descriptors_are_one_question(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        policy(
            "id: per-tenant, per: [tenant], rate: 3/h",
            "id: per-key, per: [tenant, api_key], missing: skip, rate: 2/h",
        ),
        partial(_ask, [BY_TENANT, BY_KEY]),
    )
    ask = partial(gateway.get, x_tenant="acme")
    first = ask(x_api_key="k1")
    assert (first.status, first.headers["x-ratelimit-resource"]) == (200, "per-key")
    assert ask(x_api_key="k1").status == 200
    for _ in range(3):
        denied = ask(x_api_key="k1")
        assert denied.status == 429
        assert denied.json()["violated-policies"] == ["per-key"]
    # What was denied by its key has cost the tenant nothing, and both descriptors of a request
    # that meet per-tenant have charged it once: one is left.
    assert ask(x_api_key="k2").status == 200
    denied = ask(x_api_key="k2")
    assert denied.status == 429
    assert denied.json()["violated-policies"] == ["per-tenant"]
    assert ask().status == 429, "without a key the tenant's limit holds as well"


def test_a_descriptor_may_cost_more_than_one(start_gateway: StartGateway) -> None:
    by_cost = {**BY_TENANT, "hits_addend": {"format": "%REQ(x-cost)%"}}
    gateway = start_gateway(
        policy("id: per-tenant, per: [tenant], rate: 5/h"), partial(_ask, [by_cost])
    )
    ask = partial(gateway.get, x_tenant="acme")
    assert ask(x_cost="3").headers["x-ratelimit-remaining"] == "2"
    denied = ask(x_cost="3")
    assert (denied.status, denied.headers["x-ratelimit-remaining"]) == (429, "2")
    never = ask(x_cost="6")
    assert never.status == 429
    assert never.json()["reason"] == "cost_exceeds_limit"
    assert "retry-after" not in never.headers, "no wait helps"
    assert ask(x_cost="2").headers["x-ratelimit-remaining"] == "0"
    assert ask(x_cost="0").status == 429, "a peek says whether anything is left"
    assert ask(x_cost="many").status == 200, "Envoy drops a descriptor whose cost is no number"


def test_a_filter_before_ours_may_set_the_cost_of_the_request(start_gateway: StartGateway) -> None:
    def configure(config: dict[str, Any]) -> None:
        _ask([BY_TENANT], config)
        kind = "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config"
        cost = {
            "object_key": "envoy.ratelimit.hits_addend",
            "format_string": {"text_format_source": {"inline_string": "%REQ(x-cost)%"}},
        }
        state = {"@type": kind, "on_request_headers": [cost]}
        put_first(config, {"name": "cost", "typed_config": state})

    gateway = start_gateway(policy("id: per-tenant, per: [tenant], rate: 5/h"), configure)
    assert gateway.get(x_tenant="a", x_cost="4").headers["x-ratelimit-remaining"] == "1"
    assert gateway.get(x_tenant="a", x_cost="2").status == 429
    assert gateway.get(x_tenant="a").headers["x-ratelimit-remaining"] == "0"


def test_bytes_that_are_no_text_are_limited_and_are_a_key_of_their_own(
    start_gateway: StartGateway,
) -> None:
    gateway = start_gateway(
        policy("id: per-tenant, per: [tenant], rate: 1/h"), partial(_ask, [BY_TENANT])
    )
    for tenant in ("\xff\xfe", "\xff\xfd", "\xff", "\xef\xbf\xbd"):
        assert gateway.statuses(2, x_tenant=tenant) == [200, 429]
    assert gateway.stat("error") == 0


def test_a_shadow_limit_is_not_felt(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        policy("id: trial, per: [tenant], rate: 1/h, on_exceed: shadow"),
        partial(_ask, [BY_TENANT]),
    )
    assert gateway.statuses(3, x_tenant="acme") == [200, 200, 200]


def test_a_request_that_no_limit_counts_passes_without_headers(start_gateway: StartGateway) -> None:
    gateway = start_gateway(
        policy("id: per-tenant, per: [tenant], rate: 1/h"),
        partial(_ask, [{"actions": [constant("colour", "red")]}]),
    )
    passed = gateway.get()
    assert passed.status == 200
    assert not [name for name in passed.headers if name.startswith("x-ratelimit")]


def test_quotes_in_an_id_stay_out_of_the_headers(start_gateway: StartGateway) -> None:
    limit = r"""id: 'a "b"; \ größe', per: [tenant], rate: 1/h"""
    gateway = start_gateway(policy(limit), partial(_ask, [BY_TENANT]))
    for status in (200, 429):
        answer = gateway.get(x_tenant="acme")
        assert answer.status == status
        _is_whole(answer.headers)
    assert answer.json()["violated-policies"] == ['a "b"; \\ größe']


def test_envoys_own_headers_may_be_used_instead(start_gateway: StartGateway) -> None:
    def configure(config: dict[str, Any]) -> None:
        _ask([BY_TENANT], config)
        rate_limit(config)["enable_x_ratelimit_headers"] = "DRAFT_VERSION_03"
        rate_limit(config)["enable_retry_after_header"] = True

    limit = r"""id: 'a "b"', per: [tenant], rate: 2 per 15 min, algorithm: fixed_window"""
    gateway = start_gateway(policy(limit), configure, options=("--headers", "off"))
    passed = gateway.get(x_tenant="acme")
    assert passed.headers["x-ratelimit-limit"] == '2, 2;w=900;name="a b"'
    assert passed.headers["x-ratelimit-remaining"] == "1"
    assert 0 < int(passed.headers["x-ratelimit-reset"]) <= 900
    assert gateway.statuses(2, x_tenant="acme") == [200, 429]
    denied = gateway.get(x_tenant="acme")
    assert 0 < int(denied.headers["retry-after"]) <= 900


def test_draft03_says_what_envoy_says_itself(start_gateway: StartGateway) -> None:
    def configure(config: dict[str, Any]) -> None:
        _ask([BY_TENANT], config)
        rate_limit(config)["enable_x_ratelimit_headers"] = "DRAFT_VERSION_03"

    rates = [
        "2 per 15 min, algorithm: fixed_window",
        "10/h, burst: 4",
        "3 per 2 week, algorithm: sliding_log",
    ]
    for rate in rates:
        limits = policy(rf"""id: 'a \ "b"', per: [tenant], rate: {rate}""")
        envoys = start_gateway(limits, configure, options=("--headers", "off"))
        ours = start_gateway(limits, partial(_ask, [BY_TENANT]), options=("--headers", "draft03"))
        for _ in range(6):
            told = [_rate_limit_headers(it.get(x_tenant="acme").headers) for it in (envoys, ours)]
            resets = [int(headers.pop("x-ratelimit-reset")) for headers in told]
            assert told[0] == told[1]
            assert abs(resets[0] - resets[1]) <= 1, "unless a second passed between the two"


def _rate_limit_headers(headers: dict[str, str]) -> dict[str, str]:
    return {name: it for name, it in headers.items() if name.startswith("x-ratelimit-")}


def test_what_an_answer_cost_is_charged_when_it_is_there(start_gateway: StartGateway) -> None:
    gateway = start_gateway(policy("id: tokens, per: [tenant], rate: 10/h, counts: tokens"))
    chat = partial(gateway.get, "/chat", x_tenant="acme")
    assert chat(x_answer_x_tokens="6").status == 200
    assert chat(x_answer_x_tokens="4").status == 200
    _wait_for_status(gateway, 429)
    assert chat().json()["violated-policies"] == ["tokens"]
    assert gateway.get("/search", x_tenant="acme").status == 200, "which takes no tokens"
    assert gateway.get("/chat", x_tenant="other").status == 200


def test_a_cost_beyond_what_is_left_is_felt_by_the_next_request(
    start_gateway: StartGateway,
) -> None:
    limit = "id: tokens, per: [tenant], rate: 100/h, counts: tokens, count_denied: true"
    gateway = start_gateway(policy(limit))
    chat = partial(gateway.get, "/chat", x_tenant="acme")
    assert chat(x_answer_x_tokens="58").status == 200
    assert chat(x_answer_x_tokens="175").status == 200, "42 are left, and nobody knows better yet"
    _wait_for_status(gateway, 429)
    assert chat().json()["violated-policies"] == ["tokens"]
    # The level ends at twice the burst: 101 must drain for the next token to fit, 100 in an hour.
    wait_for(lambda: 3600 < int(chat().headers["retry-after"]) <= 3636, "both charges")
    assert gateway.get("/chat", x_tenant="other").status == 200


def test_a_route_may_bring_its_rate_where_the_policy_lets_it(start_gateway: StartGateway) -> None:
    brought = {"rate_limit": {"requests_per_unit": 1, "unit": "HOUR"}}
    gateway = start_gateway(
        policy(
            "id: free, per: [tenant], rate: 5/h, request_override: true",
            "id: fixed, per: [api_key], rate: 5/h",
        ),
        partial(_ask, [{**BY_TENANT, "limit": brought}, {"actions": [API_KEY], "limit": brought}]),
    )
    assert gateway.statuses(2, x_tenant="acme") == [200, 429]
    assert gateway.statuses(2, x_api_key="k") == [200, 200]


def _ask(descriptors: list[dict[str, Any]], config: dict[str, Any]) -> None:
    ask_for_each_request(config, *descriptors)


def _wait_for_status(gateway: Gateway, status: int) -> None:
    """The charge follows the answer, so it may be there a moment later."""
    wait_for(lambda: gateway.get("/chat", x_tenant="acme").status == status, f"a {status}")


def _is_whole(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        assert value.isascii(), name
        assert value.isprintable(), name
    assert '"' not in headers["x-ratelimit-limit"]
