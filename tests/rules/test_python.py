"""Rules for the Python code that ruff does not hold."""

import ast
from pathlib import Path

import pytest

from tests.rules.sources import files, text

TIMELESS = ("policy", "compiler")
"""Same document, same bytes: these parts know no time, environment, chance or network."""
IMPURE_MODULES = frozenset({"time", "random", "secrets", "uuid", "socket", "subprocess", "urllib"})
IMPURE_CALLS = frozenset(
    {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "os.environ", "os.getenv"}
)


@pytest.mark.parametrize(
    "path", [path for room in TIMELESS for path in files(".py", f"src/tidegate/{room}")], ids=str
)
def test_what_is_compiled_depends_on_nothing_but_the_document(path: Path) -> None:
    for node in ast.walk(ast.parse(text(path))):
        if isinstance(node, ast.Import):
            names = {alias.name.split(".")[0] for alias in node.names}
            assert not names & IMPURE_MODULES, f"{path}:{node.lineno}"
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in IMPURE_MODULES, f"{path}:{node.lineno}"
        elif isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            assert not any(name.endswith(call) for call in IMPURE_CALLS), f"{path}:{node.lineno}"


@pytest.mark.parametrize("path", files(".py", "src"), ids=str)
def test_nothing_is_typed_as_anything_at_all_past_the_edge(path: Path) -> None:
    assert "dict[str, Any]" not in text(path)
