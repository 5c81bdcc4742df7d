"""Which part may import which: data runs one way, and so do imports."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.rules.sources import ROOT, files, is_rust_test, rooms_imported, text, without_tests

CRATES: dict[str, set[str]] = {
    "core": set(),
    "counters": {"core"},
    "server": {"core", "counters"},
    "python": {"core", "counters", "server"},
}
"""Each crate, and those that it may use."""

ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "settings": {"errors"},
    "policy": {"errors"},
    "compiler": {"errors", "policy"},
    "dataplane": {"errors", "settings", "policy", "compiler"},
    "limiter": {"errors", "settings", "policy", "compiler"},
    "cli": {"errors", "settings", "policy", "compiler", "dataplane", "limiter"},
}
"""Each part of the package, and those that it may import."""

USES_NATIVE = {
    "dataplane": "runs the server",
    "limiter": "decides in process",
    "errors": "maps what the engine raises",
    "compiler": "has regular expressions checked by the engine that will run them",
}
"""The parts that may import the native module, and what each does with it."""

HEAVY = {"cli", "dataplane"}
"""What `import tidegate` must not load."""

IMPURE = re.compile(
    r"std::(?:fs|env|io|process|thread)\b|\b(?:Tcp|Udp)\w+|\btokio\b|\basync fn\b|\brand\b"
)
"""What the core has no use for: it decides from what it is given."""


@pytest.mark.parametrize("path", files(".py", "src"), ids=str)
def test_a_part_of_the_package_imports_only_those_before_it(path: Path) -> None:
    room = path.parts[2].removesuffix(".py")
    rooms = rooms_imported(path)
    if room == "__init__":
        assert not rooms & HEAVY
        return
    assert room in ROOMS, f"say in this test what {room} may import"
    allowed = ROOMS[room] | {room} | ({"_native"} if room in USES_NATIVE else set())
    assert rooms <= allowed, f"{path} imports {sorted(rooms - allowed)}"


@pytest.mark.parametrize("crate", sorted(path.name for path in (ROOT / "crates").iterdir()))
def test_a_crate_uses_only_those_below_it(crate: str) -> None:
    assert crate in CRATES, f"say in this test what {crate} may use"
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    named = {
        name.removeprefix("tidegate-")
        for table in ("dependencies", "dev-dependencies", "build-dependencies")
        for name in manifest.get(table, {})
        if name.startswith("tidegate-")
    }
    used = {
        name
        for path in files(".rs", f"crates/{crate}")
        for name in re.findall(r"\btidegate_(\w+)::", text(path))
    }
    assert named <= CRATES[crate]
    assert used <= CRATES[crate] | {crate}


@pytest.mark.parametrize(
    "path", [path for path in files(".rs", "crates/core") if not is_rust_test(path)], ids=str
)
def test_the_core_does_no_input_and_output(path: Path) -> None:
    assert IMPURE.findall(without_tests(path)) == []
