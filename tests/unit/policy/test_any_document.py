"""Whatever stands in a file, the answer is a document or problems, never a traceback."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.compiler import compile_document, compile_policy
from tidegate.policy.load import load_policy

odd = st.recursive(
    st.sampled_from(
        ["", "a", "0", "1", "5/min", "0/min", "unlimited", "5/min; 9/h", "a*b", "strict"]
    )
    | st.none()
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


def mostly(*good: object) -> st.SearchStrategy[object]:
    """One of these values, now and then anything else."""
    return st.sampled_from([*good, *good, *good]) | odd


def mapping(
    always: dict[str, st.SearchStrategy[object]], sometimes: dict[str, st.SearchStrategy[object]]
) -> st.SearchStrategy[object]:
    return st.fixed_dictionaries(always, optional={**sometimes, "odd": odd})


ids = mostly("own", "two", "log", "all")
numbers = {
    "rate": mostly("5/min", "0/min", "unlimited", "9007199254740991/s", "5/min; 9/h", "20k/h"),
    "burst": mostly("1", "200", "9007199254740991"),
    "preset": mostly("strict", "standard", "generous"),
    "quota": mostly("7/month", "unlimited", "7/day; 9/year"),
}
matchers = mostly("/a", "/a*", ["a", "b*"], {"regex": "^a"}, {"cidr": "10.0.0.0/8"}, {"not": "a"})
limits = mapping(
    {"id": ids, "rate": numbers["rate"]},
    {
        "per": mostly([], ["tenant"], ["tenant", "ip"]),
        "when": st.dictionaries(st.sampled_from(["route", "ip", ""]), matchers, max_size=2),
        "algorithm": mostly("token_bucket", "fixed_window", "sliding_log", "leaky_bucket"),
        "missing": mostly("skip", "deny"),
        "burst": numbers["burst"],
        "preset": numbers["preset"],
        "quota": mostly("5/month", "0/year"),
        "time_zone": mostly("Europe/Berlin", "UTC"),
        "slots": mostly("2", "60"),
        "conservative": mostly("true", "false"),
    },
)
tidy_matchers = st.sampled_from(
    ["", "/a*", ["a", "b*"], {"regex": "^a"}, {"not": {"cidr": "::/0"}}]
)
moments = mostly("2026-01-01T00:00:00Z", "2026-06-01T00:00:00+02:00")
overrides = mapping({"limit": ids}, {**numbers, "from": moments, "until": moments, "id": odd})
tenants = mapping({}, {"plan": mostly("free", "pro"), "overrides": st.lists(overrides, max_size=3)})
plans = st.dictionaries(st.sampled_from(["own", "two", "log"]), mapping({}, numbers) | odd)
domains = mapping(
    {"limits": st.lists(limits, max_size=4) | odd},
    {
        "tenant_key": mostly("tenant"),
        "plans": st.dictionaries(st.sampled_from(["free", "pro"]), plans | odd),
        "tenants": st.dictionaries(st.text(max_size=2), tenants | odd, max_size=3),
    },
)
shapes = mapping({"version": mostly("1")}, {"domains": mapping({"d": domains | odd}, {})}) | odd


def amount(draw: st.DrawFn, limit: dict[str, Any]) -> dict[str, Any]:
    """Numbers that may replace those of this limit."""
    if "quota" in limit:
        quota = (
            f"{draw(st.integers(0, 10**5))}/{draw(st.sampled_from(['h', 'day', 'week', 'year']))}"
        )
        return {"quota": draw(st.sampled_from([quota, "unlimited"]))}
    rate = f"{draw(st.integers(1, 10**5))}/{draw(st.sampled_from(['s', 'min', '3h']))}"
    if ";" in limit["rate"]:
        rate = f"{rate}; {draw(st.integers(1, 10**5))}/week"
    found = {"rate": draw(st.sampled_from([rate, rate, rate, "0/s", "unlimited"]))}
    is_plain = found["rate"] == rate and ";" not in rate and "bucket" in limit["algorithm"]
    if is_plain and draw(st.booleans()):
        name = draw(st.sampled_from(["burst", "preset"]))
        found[name] = "strict" if name == "preset" else str(draw(st.integers(1, 10**6)))
    return found


@st.composite
def tidy(draw: st.DrawFn) -> object:
    """A policy without a mistake."""
    limits = []
    for name in draw(st.sets(st.text("aé{}:~ ", min_size=1, max_size=3), max_size=4)):
        algorithms = [
            "token_bucket",
            "fixed_window",
            "sliding_window",
            "sliding_log",
            "leaky_bucket",
        ]
        limit: dict[str, Any] = {
            "id": name,
            "algorithm": draw(st.sampled_from(algorithms)),
            "rate": draw(st.sampled_from(["7/min", "7/min; 9/h"])),
            "per": draw(st.permutations(["tenant", "ip"])),
            "when": draw(
                st.dictionaries(st.text(min_size=1, max_size=2), tidy_matchers, max_size=2)
            ),
        }
        if draw(st.integers(0, 4)) == 0:
            del limit["algorithm"], limit["rate"]
            zone = draw(st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kathmandu"]))
            limits.append({**limit, "quota": "7/month", "time_zone": zone})
            continue
        if limit["algorithm"] == "sliding_window" and draw(st.booleans()):
            limit |= {"slots": str(draw(st.integers(2, 60))), "conservative": "true"}
        limits.append({**limit, **amount(draw, limit)})
        if limits[-1]["rate"] in {"0/s", "unlimited"} and ";" in limit["rate"]:
            limits[-1]["rate"] = limit["rate"]
    named = {limit["id"]: limit for limit in limits}
    some = st.lists(st.sampled_from(sorted(named)), unique=True) if named else st.just([])
    plans = {name: {i: amount(draw, named[i]) for i in draw(some)} for name in ("free", "pro")}
    tenants = {}
    for name in draw(st.sets(st.text(max_size=2), max_size=3)):
        overrides = [
            {"limit": i, **amount(draw, named[i]), **begin}
            for i in draw(some)
            for begin in ({}, {"from": "2026-01-01T00:00:00Z"})
        ]
        tenants[name] = {"plan": draw(st.sampled_from(["free", "pro"])), "overrides": overrides}
    shop = {"tenant_key": "tenant", "limits": limits, "plans": plans, "tenants": tenants}
    return {"version": 1, "domains": {"d": shop}}


def written(content: object) -> str:
    """As JSON, which is YAML too, but for the escapes of rare characters."""
    text = json.dumps(content, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


def documents() -> st.SearchStrategy[str]:
    """The text of policies: valid ones, nearly valid ones, and anything else."""
    return st.one_of(tidy(), shapes).map(written)


@given(tidy().map(written))
def test_a_tidy_document_is_valid(text: str) -> None:
    assert [str(problem) for problem in load_policy(text).errors] == []


@given(documents())
def test_a_document_of_any_content_is_read_or_refused(text: str) -> None:
    result = load_policy(text)
    assert (result.document is None) == bool(result.errors)
    assert result.problems == load_policy(text).problems
    assert len(set(result.problems)) == len(result.problems)
    if result.document is not None:
        snapshot = compile_document(result.document)
        assert json.loads(snapshot.data)["revision"] == snapshot.revision


@given(st.text(max_size=60) | st.binary(max_size=60))
def test_a_file_of_any_content_is_read_or_refused(content: str | bytes) -> None:
    compiled = compile_policy(content)
    assert (compiled.snapshot is None) == any(one.is_error for one in compiled.problems)
