"""The source files of the repository, and what each of them imports."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON_FOLDERS = ("src", "tests", "benchmarks", "tools")
RUST_FOLDERS = ("crates", "benchmarks")
_NOT_SOURCES = frozenset({"target", "__pycache__", ".venv", "build"})


@cache
def files(suffix: str, *folders: str) -> tuple[Path, ...]:
    """All source files with that suffix below these folders, as paths from the root."""
    return tuple(
        path.relative_to(ROOT)
        for folder in folders
        for path in sorted((ROOT / folder).rglob(f"*{suffix}"))
        if not _NOT_SOURCES.intersection(path.relative_to(ROOT).parts)
    )


def python_files() -> tuple[Path, ...]:
    """All Python files."""
    return files(".py", *PYTHON_FOLDERS)


def rust_files() -> tuple[Path, ...]:
    """All Rust files."""
    return files(".rs", *RUST_FOLDERS)


@cache
def text(path: Path) -> str:
    """What a file holds."""
    return (ROOT / path).read_text(encoding="utf-8")


def imported(path: Path) -> Iterator[str]:
    """The modules that a Python file names: by statement, or as text of `import_module`."""
    for node in ast.walk(ast.parse(text(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            named = (arg.value for arg in node.args if isinstance(arg, ast.Constant))
            yield from (name for name in named if isinstance(name, str))


def rooms_imported(path: Path) -> set[str]:
    """The parts of the package (`policy`, `cli`, `_native` …) that a Python file imports."""
    names = (name.split(".") for name in imported(path))
    return {name[1] for name in names if name[0] == "tidegate" and len(name) > 1}


def without_tests(path: Path) -> str:
    """A Rust file up to its unit tests, which stand last, with comments taken out."""
    code = re.split(r"^#\[cfg\((?:all\()?test\b", text(path), maxsplit=1, flags=re.MULTILINE)[0]
    return re.sub(r"//.*", "", code)


def is_rust_test(path: Path) -> bool:
    """Whether a Rust file is compiled for tests or benchmarks alone."""
    return path.parts[0] == "benchmarks" or "tests" in path.parts or path.stem in {"tests", "fuzz"}
