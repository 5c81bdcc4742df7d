"""From a policy file to its snapshot in one step: read, check, compile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.compiler.regex import check_regex
from tidegate.compiler.snapshot import Snapshot, compile_document
from tidegate.policy.load import load_policy
from tidegate.policy.yaml_text import paused_gc

if TYPE_CHECKING:
    from pathlib import Path

    from tidegate.policy.document import Document
    from tidegate.policy.problems import Problem


@dataclass(frozen=True, slots=True)
class Compiled:
    """A snapshot with its document if there is no error, and all problems."""

    snapshot: Snapshot | None
    document: Document | None
    problems: tuple[Problem, ...]


def compile_policy(source: Path | str | bytes, name: str = "") -> Compiled:
    """Reads, checks and compiles a policy.

    Args:
        source: A file (`pathlib.Path`), or the text itself.
        name: What problems call the file; default: the path, or `<policy>`.

    Raises:
        ConfigError: if the file cannot be read. What is wrong inside is told by the problems.
    """
    with paused_gc():
        loaded = load_policy(source, name, check_regex=check_regex)
        snapshot = compile_document(loaded.document) if loaded.document else None
    return Compiled(snapshot, loaded.document, loaded.problems)
