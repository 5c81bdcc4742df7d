"""Compiled policies: canonical bytes with every default filled in, exact numbers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.compiler import Snapshot, compile_policy, compile_rates
from tidegate.errors import ConfigError

MINUTE = 60_000_000


def compiled(text: str) -> Snapshot:
    result = compile_policy(text, "p.yaml")
    assert result.snapshot is not None, [str(problem) for problem in result.problems]
    return result.snapshot


def domain(body: str) -> dict[str, Any]:
    text = "version: 1\ndomains:\n  shop:\n" + "".join(
        f"    {line}\n" for line in body.splitlines()
    )
    (only,) = json.loads(compiled(text).data)["domains"]
    assert isinstance(only, dict)
    return only


def numbers(n: int, burst: int, period_us: int = MINUTE) -> dict[str, int]:
    return {"n": n, "period_us": period_us, "burst": burst}


def test_a_bare_limit_has_every_default_written_out() -> None:
    snapshot = compiled("version: 1\ndomains: {shop: {limits: [{id: a, rate: 5/min}]}}")
    content = json.loads(snapshot.data)
    assert content == {
        "format": 1,
        "revision": snapshot.revision,
        "calendars": {},
        "domains": [
            {
                "name": "shop",
                "tenant_key": None,
                "limits": [
                    {
                        "id": "a",
                        "when": [],
                        "per": [],
                        "missing": "skip",
                        "counts": "requests",
                        "algorithm": "token_bucket",
                        "time_zone": None,
                        "slots": 1,
                        "conservative": False,
                        "keyed_by_period": False,
                        "numbers": numbers(5, 5),
                        "on_store_failure": "open",
                        "on_exceed": "reject",
                        "count_denied": False,
                        "request_override": False,
                        "consistency": "exact",
                    }
                ],
                "plans": [],
                "tenants": {},
            }
        ],
    }


def test_a_consistency_with_a_number_is_a_word_with_its_number() -> None:
    (row,) = domain(
        "limits: [{id: a, rate: 9/min, algorithm: fixed_window, consistency: {sharded: 8}}]"
    )["limits"]
    assert row["consistency"] == {"sharded": 8}


def canonical(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


@pytest.mark.parametrize("amount", ["rate: 5/min", "quota: 5/month"])
def test_the_bytes_are_canonical_and_the_revision_is_the_hash_of_all_but_the_calendars(
    amount: str,
) -> None:
    snapshot = compiled(f"version: 1\ndomains: {{é: {{limits: [{{id: ü, {amount}}}]}}}}")
    content = json.loads(snapshot.data)
    assert snapshot.data == canonical(content)
    blank = canonical({**content, "calendars": {}, "revision": ""})
    assert snapshot.revision == hashlib.sha256(blank).hexdigest()[:12]


def test_the_revision_of_a_quota_stays_while_each_year_brings_new_tables() -> None:
    text = "version: 1\ndomains: {shop: {limits: [{id: a, quota: 5/month, time_zone: ZONE}]}}"
    found = [
        compile_policy(text.replace("ZONE", zone), year=year).snapshot
        for zone, year in (("Europe/Berlin", 2025), ("Europe/Berlin", 2031), ("UTC", 2031))
    ]
    first, later, other = [one for one in found if one is not None]
    assert first.data != later.data
    assert first.revision == later.revision != other.revision


def test_what_is_written_otherwise_but_means_the_same_has_the_same_bytes() -> None:
    one = "version: 1\ndomains: {a: {limits: [{id: x, rate: 60k/h}]}, b: {}}"
    other = """
# the same
domains:
  b: {limits: []}
  a:
    limits:
      - {rate: "60000 per 1 hour", id: "x", burst: 60k, missing: skip, consistency: exact}
version: "1"
"""
    assert compiled(one) == compiled(other)
    assert compiled(one).revision != compiled(one.replace("60k", "61k")).revision


def test_matchers_of_each_kind() -> None:
    body = """\
limits:
  - id: a
    rate: 1/s
    when:
      z: /search
      a: "/v1/*"
      m: [x, "y*", {exact: "p*"}, {prefix: "*"}, {regex: "^a"}, x]
      n: {not: [x, {cidr: 10.0.0.0/8}]}
      c: {cidr: 2001:DB8::/32}
      d: {cidr: 10.0.0.1}
      e: ""
      s: "*"
"""
    assert domain(body)["limits"][0]["when"] == [
        {"key": "a", "negate": False, "any": [{"prefix": "/v1/"}]},
        {"key": "c", "negate": False, "any": [{"cidr": "2001:db8::/32"}]},
        {"key": "d", "negate": False, "any": [{"cidr": "10.0.0.1/32"}]},
        {"key": "e", "negate": False, "any": [{"exact": ""}]},
        {
            "key": "m",
            "negate": False,
            "any": [
                {"exact": "x"},
                {"prefix": "y"},
                {"exact": "p*"},
                {"prefix": "*"},
                {"regex": "^a"},
            ],
        },
        {"key": "n", "negate": True, "any": [{"exact": "x"}, {"cidr": "10.0.0.0/8"}]},
        {"key": "s", "negate": False, "any": [{"prefix": ""}]},
        {"key": "z", "negate": False, "any": [{"exact": "/search"}]},
    ]


def test_a_limit_of_several_rates_is_a_row_for_each_keyed_by_period() -> None:
    body = """\
tenant_key: t
limits:
  - {id: a, rate: 5/min}
  - {id: b, per: [t], rate: 5/min; 100/day}
  - {id: c, per: [t], rate: 7/min}
plans:
  p: {c: {rate: 70/min}, b: {rate: 1000/day; 50/min}}
tenants:
  x: {overrides: [{limit: b, rate: 0/s}, {limit: c, rate: unlimited}]}
"""
    shop = domain(body)
    assert [(row["id"], row["keyed_by_period"]) for row in shop["limits"]] == [
        ("a", False), ("b", True), ("b", True), ("c", False),
    ]  # fmt: skip
    assert shop["limits"][2]["numbers"] == numbers(100, 100, 86_400_000_000)
    assert shop["plans"] == [
        {
            "name": "p",
            "numbers": [
                [1, numbers(50, 50)],
                [2, numbers(1000, 1000, 86_400_000_000)],
                [3, numbers(70, 70)],
            ],
        }
    ]
    always = {"from_us": None, "until_us": None}
    blocked = numbers(0, 0, 1_000_000)
    assert shop["tenants"]["x"]["overrides"] == [
        {"limit": 1, "numbers": blocked, **always},
        {"limit": 2, "numbers": blocked, **always},
        {"limit": 3, "numbers": None, **always},
    ]


@pytest.mark.parametrize(
    ("algorithm", "name", "is_keyed"),
    [
        ("token_bucket", "token_bucket", False),
        ("leaky_bucket", "token_bucket", False),
        ("fixed_window", "fixed_window", True),
        ("sliding_window", "sliding_window", True),
        ("sliding_log", "sliding_log", True),
    ],
)
def test_windows_are_keyed_by_period_and_leaky_is_token_bucket(
    algorithm: str, name: str, is_keyed: bool
) -> None:
    row = domain(f"limits: [{{id: a, rate: 9/min, algorithm: {algorithm}}}]")["limits"][0]
    assert (row["algorithm"], row["keyed_by_period"]) == (name, is_keyed)
    assert row["numbers"] == numbers(9, 9)


@pytest.mark.parametrize(
    ("rate", "preset", "burst"),
    [
        ("5/min", "strict", 1),
        ("6/min", "strict", 2),
        ("1/min", "strict", 1),
        ("100/min", "strict", 20),
        ("100/min", "standard", 100),
        ("7/min", "generous", 14),
    ],
)
def test_presets_round_up_to_at_least_1(rate: str, preset: str, burst: int) -> None:
    row = domain(f"limits: [{{id: a, rate: {rate}, preset: {preset}}}]")["limits"][0]
    assert row["numbers"]["burst"] == burst


def test_blocked_and_unlimited_are_told_apart() -> None:
    rows = domain("limits: [{id: a, rate: 0/min}, {id: b, rate: unlimited}]")["limits"]
    assert rows[0]["numbers"] == numbers(0, 0)
    assert rows[1]["numbers"] is None


@pytest.mark.parametrize(
    ("base", "amount", "n", "burst"),
    [
        ("rate: 1000/min, burst: 200", "rate: 100/min", 100, 20),
        ("rate: 1000/min, burst: 200", "rate: 10k/min", 10_000, 2000),
        ("rate: 3/min, burst: 10", "rate: 1/min", 1, 4),
        ("rate: 1000/min, burst: 1", "rate: 1/min", 1, 1),
        ("rate: 60/h, burst: 7", "rate: 1/min", 1, 7),
        ("rate: 1000/min, burst: 200", "burst: 7", 1000, 7),
        ("rate: 1000/min, burst: 200", "{rate: 1/min, burst: 9}", 1, 9),
        ("rate: 1000/min, burst: 200", "preset: strict", 1000, 200),
        ("rate: 1000/min, preset: strict", "rate: 11/min", 11, 3),
        ("rate: 1000/min", "rate: 11/min", 11, 11),
        ("rate: 9007199254740991/min, burst: 9007199254740991", "rate: 9007199254740990/min",
         9007199254740990, 9007199254740990),
    ],
)  # fmt: skip
def test_a_rate_without_burst_scales_the_written_burst(
    base: str, amount: str, n: int, burst: int
) -> None:
    inner = amount.strip("{}")
    shop = domain(
        f"tenant_key: t\nlimits: [{{id: a, per: [t], {base}}}]\n"
        f"plans: {{p: {{a: {{{inner}}}}}}}\ntenants: {{x: {{overrides: [{{limit: a, {inner}}}]}}}}"
    )
    assert shop["plans"][0]["numbers"] == [[0, numbers(n, burst)]]
    assert shop["tenants"]["x"]["overrides"][0]["numbers"] == numbers(n, burst)


def test_an_override_builds_on_its_tenants_plan() -> None:
    shop = domain(
        "tenant_key: t\nlimits: [{id: a, per: [t], rate: 10/min, burst: 4}]\n"
        "plans: {p: {a: {rate: 100/min, burst: 10}}}\n"
        "tenants:\n"
        "  with: {plan: p, overrides: [{limit: a, rate: 200/min}]}\n"
        "  without: {overrides: [{limit: a, rate: 200/min}]}\n"
        "  only_burst: {plan: p, overrides: [{limit: a, burst: 3}]}\n"
    )
    told = {name: tenant["overrides"][0]["numbers"] for name, tenant in shop["tenants"].items()}
    assert told == {
        "with": numbers(200, 20),
        "without": numbers(200, 80),
        "only_burst": numbers(100, 3),
    }


def test_overrides_stand_latest_first_and_plans_by_number() -> None:
    shop = domain(
        "tenant_key: t\n"
        "limits: [{id: a, per: [t], rate: 10/min}, {id: b, per: [t], rate: 10/min}]\n"
        "plans: {z: {}, y: {a: {rate: 1/min}}}\n"
        "tenants:\n"
        "  x:\n"
        "    plan: z\n"
        "    overrides:\n"
        "      - {limit: b, rate: 1/min}\n"
        "      - {limit: a, rate: 2/min}\n"
        "      - {limit: a, rate: 3/min, from: 1970-01-01T00:00:00Z}\n"
        "      - {limit: a, rate: 4/min, from: 1970-01-02T00:00+00:01, until: 1970-01-03T00:00Z}\n"
        "  y: {plan: y}\n"
        "  z:\n"
    )
    day = 86_400_000_000
    x = shop["tenants"]["x"]
    assert [(one["limit"], one["from_us"], one["numbers"]["n"]) for one in x["overrides"]] == [
        (0, day - MINUTE, 4), (0, 0, 3), (0, None, 2), (1, None, 1),
    ]  # fmt: skip
    assert x["overrides"][0]["until_us"] == 2 * day
    assert [plan["name"] for plan in shop["plans"]] == ["y", "z"]
    assert {name: tenant["plan"] for name, tenant in shop["tenants"].items()} == {
        "x": 1, "y": 0, "z": None,
    }  # fmt: skip


def test_a_bad_policy_has_problems_and_no_snapshot() -> None:
    result = compile_policy("version: 1\ndomains: {a: {limits: [{id: a, rate: 5/fortnight}]}}", "p")
    assert (result.snapshot, result.document) == (None, None)
    assert [problem.line for problem in result.problems] == [2]


def test_a_rate_of_python_is_a_domain_without_a_name() -> None:
    snapshot = compile_rates("10/s burst 50; 1k/h", id="posts", per=("0", "1"))
    content = json.loads(snapshot.data)
    assert content["revision"] == snapshot.revision
    (shop,) = content["domains"]
    assert (shop["name"], shop["tenant_key"]) == ("", None)
    first, second = shop["limits"]
    assert first == {
        "id": "posts",
        "when": [],
        "per": ["0", "1"],
        "missing": "deny",
        "counts": "requests",
        "algorithm": "token_bucket",
        "time_zone": None,
        "slots": 1,
        "conservative": False,
        "keyed_by_period": True,
        "numbers": numbers(10, 50, 1_000_000),
        "on_store_failure": "open",
        "on_exceed": "reject",
        "count_denied": False,
        "request_override": False,
        "consistency": "exact",
    }
    assert second == {**first, "numbers": numbers(1000, 1000, 3_600_000_000)}


def test_a_rate_of_python_takes_an_algorithm_and_a_fail_mode() -> None:
    snapshot = compile_rates("5/min", id="x", algorithm="sliding_log", on_store_failure="closed")
    row = json.loads(snapshot.data)["domains"][0]["limits"][0]
    assert (row["algorithm"], row["on_store_failure"]) == ("sliding_log", "closed")


@pytest.mark.parametrize(
    ("rates", "options", "message"),
    [
        ("5/fortnight", {}, "unknown unit"),
        ("1m/min", {}, "did you mean 1M?"),
        ("5/min", {"algorithm": "fixed_windw"}, 'did you mean "fixed_window"?'),
        ("5/min", {"on_store_failure": "soft"}, "on_store_failure"),
        ("5/min burst 3", {"algorithm": "sliding_window"}, "burst has no meaning"),
        ("200k/min", {"algorithm": "sliding_log"}, "at most 100,000"),
        ("5/min", {"id": ""}, "must not be empty"),
        ("5/min", {"id": "\ud800"}, "cannot be shown"),
        ("5/min", {"per": ("a", "a")}, "stands twice"),
        ("5/min", {"per": ("\ud800",)}, "surrogate"),
    ],
)
def test_a_wrong_rate_of_python_is_a_config_error(
    rates: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_rates(rates, **{"id": "x", **options})
    assert message in str(caught.value)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**6))
def test_scaling_is_exact_and_rounded_up(old: int, burst: int, new: int) -> None:
    shop = domain(
        f"tenant_key: t\nlimits: [{{id: a, per: [t], rate: {old}/min, burst: {burst}}}]\n"
        f"plans: {{p: {{a: {{rate: {new}/min}}}}}}"
    )
    ((_, scaled),) = shop["plans"][0]["numbers"]
    assert (scaled["burst"] - 1) * old < burst * new <= scaled["burst"] * old
