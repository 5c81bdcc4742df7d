"""Links lead somewhere, names exist, and what can be named has its place on a page."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT, page, page_names
from tidegate.cli.main import COMMANDS
from tidegate.policy.document import Document, Domain, Limit, Override, Tenant
from tidegate.settings import ROWS

_CODE = re.compile(r"`([^`\n]+)`")
_MODULE = re.compile(r"tidegate(?:\.[a-z_]+)+")
_RUST_NAME = re.compile(r"[A-Z]\w+(?:::\w+)+")
_FILE = re.compile(r"[\w./-]+\.(?:rs|lua|py|pyi|md|toml|yaml)|[\w.-]+(?:/[\w.-]+)+/?")


@pytest.mark.parametrize("name", page_names())
def test_links_lead_somewhere(name: str) -> None:
    here = page(name)
    for target in here.links:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        found = (ROOT / name).parent / path if path else ROOT / name
        assert found.exists(), f"{name}: there is no {target}"
        if anchor:
            there = page(found.resolve().relative_to(ROOT).as_posix())
            assert anchor in there.anchors, f"{name}: {target} names no heading"


@pytest.mark.parametrize("name", page_names())
def test_a_page_can_be_reached_from_the_readme(name: str) -> None:
    seen, waiting = set(), ["README.md"]
    while waiting:
        at = waiting.pop()
        seen.add(at)
        paths = [target.partition("#")[0] for target in page(at).links if ":" not in target]
        found = [((ROOT / at).parent / path).resolve() for path in paths if path.endswith(".md")]
        waiting += [
            other for path in found if (other := path.relative_to(ROOT).as_posix()) not in seen
        ]
    assert name in seen or name == "CHANGELOG.md"


def test_the_pages_of_commands_and_settings_are_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "gen.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_command_and_setting_has_a_heading() -> None:
    assert {f"tidegate {name}" for name in COMMANDS} <= set(page("docs/cli.md").headings)
    headings = page("docs/settings.md").headings
    assert [row.flag for row in ROWS] == [text for text in headings if text.startswith("--")]


def test_every_field_of_a_policy_file_has_a_heading_or_a_row() -> None:
    policy = page("docs/policy.md")
    fields = {
        info.alias or name
        for part in (Document, Domain, Limit, Tenant)
        for name, info in part.model_fields.items()
    }
    assert fields <= set(policy.headings)
    for name, info in Override.model_fields.items():
        assert f"`{info.alias or name}`" in policy.text


def test_every_reason_is_explained() -> None:
    rust = (ROOT / "crates/core/src/decision.rs").read_text()
    reasons = re.findall(r'Self::\w+ => "(\w+)"', rust)
    assert len(reasons) >= 6
    rows = re.findall(r"^\| `(\w+)` \|", page("docs/http.md").text, re.MULTILINE)
    assert set(reasons) <= set(rows)


def test_every_path_over_http_has_a_heading() -> None:
    router = (ROOT / "crates/server/src/http/router.rs").read_text()
    paths = re.findall(r'\("(/[^"]+)", Route::', router)
    assert paths
    headings = {text.split()[-1] for text in page("docs/http.md").headings}
    assert set(paths) <= headings


@pytest.mark.parametrize("name", page_names())
def test_what_is_made_with_make_can_be_made(name: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    here = page(name)
    texts = [*_CODE.findall(here.text), *(block.text for block in here.blocks)]
    named = {word for text in texts for word in re.findall(r"^make ([a-z]+)\b", text, re.MULTILINE)}
    assert named <= targets


def test_the_two_commands_of_the_readme_are_those_of_the_makefile() -> None:
    first = next(block for block in page("README.md").blocks if block.language == "sh")
    commands = [line.partition("#")[0].strip() for line in first.text.splitlines()]
    assert commands == ["make run", "make test"]
    assert "tidegate dev examples/shop.yaml" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_paths_and_names_of_the_code_exist(name: str) -> None:
    sources = [*(ROOT / "crates").rglob("*.rs"), *(ROOT / "crates").rglob("*.lua")]
    for words in _CODE.findall(page(name).text):
        if _MODULE.fullmatch(words):
            assert words == "tidegate._native" or _is_name(words), words
        elif _RUST_NAME.fullmatch(words):
            first, _, last = words.partition("::")
            assert any(_holds(path, first, last) for path in sources), words
        elif _FILE.fullmatch(words):
            is_there = (ROOT / words).exists() or any(path.name == words for path in sources)
            assert is_there, f"{name}: there is no {words}"


def test_architecture_names_every_part_of_the_code() -> None:
    rooms = set(re.findall(r"^\| `([\w./]+)` \|", page("ARCHITECTURE.md").text, re.MULTILINE))
    crates = {f"crates/{path.name}" for path in (ROOT / "crates").iterdir() if path.is_dir()}
    package = ROOT / "src" / "tidegate"
    parts = {path.stem for path in package.iterdir() if not path.name.startswith(("_", "py."))}
    assert rooms == crates | {f"tidegate.{part}" for part in parts}


def _is_name(words: str) -> bool:
    if find_spec(words.rpartition(".")[0]) is None:
        return False
    return find_spec(words) is not None


def _holds(path: Path, first: str, last: str) -> bool:
    text = path.read_text()
    return first in text and re.search(rf"\bfn {last}\b", text) is not None
