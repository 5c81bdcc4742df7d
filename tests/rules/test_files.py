"""What a file looks like: its size, its first line, its name, what stands in an index file."""

import ast
import re
from pathlib import Path

import pytest

from tests.rules.sources import ROOT, files, python_files, rust_files, text, without_tests

MOST_LINES = 400
LONGER: dict[str, str] = {
    "crates/counters/src/redis/lua/decide.lua": "a script is one file, and one call decides all",
}
"""Files that may be longer, and why."""

EMPTY_WORDS = ("util", "utils", "helper", "helpers", "common", "misc", "manager", "base2", "stuff")
"""Names that say nothing of what is inside."""

SOURCES = (*python_files(), *rust_files(), *files(".lua", "crates"))


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_a_file_is_short_enough_to_be_read_at_once(path: Path) -> None:
    lines = text(path).count("\n")
    if str(path) in LONGER:
        assert lines > MOST_LINES, f"{path} is short now: take it off the list"
    else:
        assert lines <= MOST_LINES, "split it by what it does, or say in this test why not"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_a_name_says_what_is_inside(path: Path) -> None:
    assert not {*path.parts[:-1], path.stem} & set(EMPTY_WORDS)


@pytest.mark.parametrize("path", python_files(), ids=str)
def test_a_module_says_its_one_job_first(path: Path) -> None:
    assert not text(path) or ast.get_docstring(ast.parse(text(path)))


@pytest.mark.parametrize(
    "path", [path for path in rust_files() if path.parts[-2] != "tests"], ids=str
)
def test_a_rust_file_says_its_one_job_first(path: Path) -> None:
    assert text(path).startswith("//!")


@pytest.mark.parametrize("path", files("__init__.py", "src"), ids=str)
def test_an_init_file_only_exports(path: Path) -> None:
    allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign)
    for node in ast.parse(text(path)).body:
        if isinstance(node, ast.FunctionDef) and node.name in {"__getattr__", "__dir__"}:
            continue  # how a package exports lazily
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        assert isinstance(node, allowed), f"{path}:{node.lineno}: move it to a module"


@pytest.mark.parametrize(
    "path", [path for path in files(".rs", "crates") if path.name == "lib.rs"], ids=str
)
def test_a_lib_file_only_exports(path: Path) -> None:
    found = re.findall(r"^\s*(?:pub\s+)?(?:const\s+)?fn \w+", without_tests(path), re.MULTILINE)
    assert found == []


def test_no_file_names_what_lies_outside_the_repository() -> None:
    """Neither the machine that built it nor the addresses of its mirrors."""
    outside = re.compile(r"/(?:home|root|work|Users)/\w|/tmp/\w+/")
    documents = (path.relative_to(ROOT) for path in ROOT.glob("*.md"))
    for path in (*SOURCES, *documents, *files(".md", "docs"), *files(".yaml", "examples")):
        if path.name != Path(__file__).name:
            found = outside.search(text(path))
            assert not found, f"{path}: {found.group()}"
