"""Rules for the Rust code that its own lints do not hold."""

import re
from pathlib import Path

import pytest

from tests.rules.sources import files, is_rust_test, text, without_tests

CLOCK = Path("crates/counters/src/clock.rs")
"""The one file that reads the time."""
KEYS = Path("crates/counters/src/redis/keys.rs")
"""The one file that builds keys."""
DEFAULT_PREFIX = Path("crates/counters/src/redis/options.rs")

RUST = [path for path in files(".rs", "crates") if not is_rust_test(path)]
_PANICS = re.compile(r"\.unwrap\(\)|\.expect\(|\bpanic!|\btodo!|\bunimplemented!")
_ALLOWED = re.compile(r"#\[(?:expect|allow)\([^]]*reason\s*=", re.DOTALL)


@pytest.mark.parametrize("path", RUST, ids=str)
def test_nothing_panics_on_purpose_outside_tests(path: Path) -> None:
    code = without_tests(path)
    for found in _PANICS.finditer(code):
        line = code.count("\n", 0, found.start()) + 1
        before = code[: found.start()].splitlines()[-8:]
        assert _ALLOWED.search("\n".join(before)), f"{path}:{line}: {found.group()}"


@pytest.mark.parametrize("path", RUST, ids=str)
def test_only_one_file_reads_the_time(path: Path) -> None:
    code = without_tests(path)
    if path == CLOCK:
        return
    assert "SystemTime::now" not in code
    # The runtime's own instants are for timers; they never reach a decision.
    is_timer = re.search(r"tokio::time::(?:\{[^}]*\bInstant\b|Instant\b)", code)
    assert "Instant::now" not in code or is_timer, f"take the time from {CLOCK}"
    assert not re.search(r"std::time::(?:\{[^}]*\b(?:SystemTime)\b|SystemTime\b)", code)


@pytest.mark.parametrize("path", RUST, ids=str)
def test_only_one_file_builds_keys(path: Path) -> None:
    if path in {KEYS, DEFAULT_PREFIX}:
        return
    assert not re.search(r'b?"tg:', without_tests(path)), f"keys come from {KEYS}"


@pytest.mark.parametrize("path", files(".lua", "crates"), ids=str)
def test_a_script_is_given_its_keys(path: Path) -> None:
    code = re.sub(r"--.*", "", text(path))
    assert "tg:" not in code
    assert not re.search(r"'(?:KEYS|SCAN)'|\"(?:KEYS|SCAN)\"", code)


@pytest.mark.parametrize("path", files(".py", "src"), ids=str)
def test_no_key_is_built_in_python(path: Path) -> None:
    assert not re.search(r"""f?["']tg:""", text(path))


def test_what_has_a_reason_says_it() -> None:
    """Each lint that is switched off in place says why."""
    for path in files(".rs", "crates", "benchmarks"):
        for attribute in re.findall(r"#!?\[(?:allow|expect)\((?:[^()]|\([^)]*\))*\)\]", text(path)):
            assert "reason" in attribute, f"{path}: {attribute}"
