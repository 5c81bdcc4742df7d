"""Whatever stands in a file, the answer is a document or problems, never a traceback."""

from __future__ import annotations

import json

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
        "quota": odd,
    },
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
documents = mapping({"version": mostly("1")}, {"domains": mapping({"d": domains | odd}, {})}) | odd


@given(documents)
def test_a_document_of_any_content_is_read_or_refused(content: object) -> None:
    text = json.dumps(content)
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
