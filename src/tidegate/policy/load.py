"""Reads a policy: text or file in, a typed document or all of its problems out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError
from tidegate.policy import later
from tidegate.policy.problems import Finding, Problem, Severity, format_path, printable
from tidegate.policy.rules import CheckRegex, check_document
from tidegate.policy.shape import shape
from tidegate.policy.yaml_text import MAX_BYTES, Source, Syntax, decode, paused_gc, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.policy.document import Document


@dataclass(frozen=True, slots=True)
class LoadResult:
    """A document if there is no error, and all problems in the order of the file."""

    document: Document | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems for which there is no document."""
        return tuple(problem for problem in self.problems if problem.is_error)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not stop the file from being used."""
        return tuple(problem for problem in self.problems if not problem.is_error)


def load_policy(
    source: FilePath | str | bytes, name: str = "", *, check_regex: CheckRegex | None = None
) -> LoadResult:
    """Reads and checks a policy.

    Args:
        source: A file (`pathlib.Path`), or the text itself.
        name: What problems call the file; default: the path, or `<policy>`.
        check_regex: Says what is wrong with a regular expression; without it none is checked.

    Raises:
        ConfigError: if the file cannot be read. What is wrong inside is told by the problems.
    """
    if isinstance(source, FilePath):
        name = name or str(source)
        source = read_file(source)
    name = name or "<policy>"
    with paused_gc():
        document, problems = _read(source, name, check_regex)
    is_usable = not any(problem.is_error for problem in problems)
    return LoadResult(document if is_usable else None, problems)


def read_file(path: FilePath) -> bytes:
    """The bytes of a file, at most one more than a policy may have.

    Raises:
        ConfigError: if there is no such file or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot read {printable(str(path))}: {reason}") from None


def _read(
    source: str | bytes, name: str, check_regex: CheckRegex | None
) -> tuple[Document | None, tuple[Problem, ...]]:
    text = decode(source) if isinstance(source, bytes) else source
    read = text if isinstance(text, Syntax) else read_yaml(text)
    if isinstance(read, Syntax):
        return None, (Problem(name, read.line, read.column, "", read.message, read.hint),)
    document, findings = _check(read, check_regex)
    return document, _placed(findings, read, name)


def _check(read: Source, check_regex: CheckRegex | None) -> tuple[Document | None, list[Finding]]:
    if read.value is None and not read.findings:
        hint = "begin with version: 1 and domains:"
        return None, [Finding((), "the file is empty", hint)]
    if later.is_of_envoyproxy_ratelimit(read.value):
        message = "this is a file for envoyproxy/ratelimit: not supported yet"
        hint = "write its limits as domains: with limits:, see tidegate schema"
        return None, [*read.findings, Finding((), message, hint)]
    shaped = shape(read.value)
    seen = {found.path for found in read.findings}
    findings = [*read.findings, *(found for found in shaped.findings if found.path not in seen)]
    if shaped.document is not None:
        for found in check_document(shaped.document, check_regex):
            path = shaped.original(found.path)
            findings.append(found if path == found.path else replace(found, path=path))
    return shaped.document, findings


def _placed(findings: Iterable[Finding], source: Source, name: str) -> tuple[Problem, ...]:
    """Problems in the order of the file, each once."""
    problems: dict[tuple[int, int, str, str], Problem] = {}
    for found in findings:
        line, column = found.place or source.place(
            found.path, is_about_key=found.is_about_key, offset=found.offset
        )
        path = format_path(found.path)
        problem = Problem(name, line, column, path, found.message, found.hint, found.severity)
        problems.setdefault((line, column, problem.message, path), problem)
    return tuple(
        sorted(
            problems.values(),
            key=lambda one: (one.line, one.column, one.severity is Severity.WARNING),
        )
    )
