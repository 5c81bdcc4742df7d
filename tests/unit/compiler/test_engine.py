"""What the compiler writes, the native engine takes; what it cannot take is refused before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.unit.policy.test_any_document import documents
from tidegate import _native
from tidegate.compiler import compile_document, compile_policy, compile_rates
from tidegate.compiler.regex import check_regex
from tidegate.policy.load import load_policy

if TYPE_CHECKING:
    from tidegate.compiler import Snapshot
    from tidegate.policy.document import Document

EXAMPLES = Path(__file__).parents[3] / "examples"


def take(snapshot: Snapshot, document: Document) -> None:
    engine = _native.Engine.memory(max_counters=1000, clock=None)
    for name in document.domains:
        assert _native.Policy(engine, snapshot.data, name).revision == snapshot.revision


def test_the_engine_takes_the_example() -> None:
    compiled = compile_policy(EXAMPLES / "shop.yaml")
    assert compiled.snapshot is not None
    assert compiled.document is not None
    take(compiled.snapshot, compiled.document)


@given(documents())
def test_the_engine_takes_every_valid_document(text: str) -> None:
    loaded = load_policy(text, check_regex=check_regex)
    if loaded.document is not None:
        take(compile_document(loaded.document), loaded.document)


@pytest.mark.parametrize("algorithm", ["token_bucket", "leaky_bucket", "sliding_window"])
@pytest.mark.parametrize("rates", ["5/min", "0/s", "unlimited", "5/min; 100/day", "1 per 366d"])
def test_the_engine_takes_every_rate_of_python(rates: str, algorithm: str) -> None:
    snapshot = compile_rates(rates, id="a", algorithm=algorithm)
    engine = _native.Engine.memory(max_counters=1000, clock=None)
    assert _native.Limit(engine, snapshot.data, "").revision == snapshot.revision


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "unclosed group"),
        ("(?<=a)b", "look-around, including look-ahead and look-behind, is not supported"),
        ("a{99999}", "Compiled regex exceeds size limit"),
    ],
)
def test_a_regex_that_the_engine_cannot_take_is_told_at_its_place(
    pattern: str, reason: str
) -> None:
    limit = f"{{id: a, rate: 1/s, when: {{r: {{regex: '{pattern}'}}}}}}"
    text = f"version: 1\ndomains: {{d: {{limits: [{limit}]}}}}"
    (problem,) = compile_policy(text).problems
    assert reason in problem.message
    assert problem.path == "domains.d.limits[0].when.r"
    assert problem.line == 2
