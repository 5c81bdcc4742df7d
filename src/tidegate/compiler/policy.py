"""From a policy file to its snapshot in one step: read, check, compile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.compiler.calendars import FIRST_YEAR
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


def compile_policy(
    source: Path | str | bytes, name: str = "", *, year: int = FIRST_YEAR
) -> Compiled:
    """Reads, checks and compiles a policy.

    Args:
        source: A file (`pathlib.Path`), or the text itself.
        name: What problems call the file; default: the path, or `<policy>`.
        year: From which the calendars of quotas are made ahead; who runs the snapshot gives the
            present one.

    Raises:
        ConfigError: if the file cannot be read. What is wrong inside is told by the problems.
    """
    with paused_gc():
        loaded = load_policy(source, name, check_regex=check_regex)
        snapshot = compile_document(loaded.document, year) if loaded.document else None
    return Compiled(snapshot, loaded.document, loaded.problems)
