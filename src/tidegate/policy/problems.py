"""A problem of a policy file: where it is, what is wrong, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Path = tuple[str | int, ...]
"""The way from the top of a document to a value: names of fields and numbers of items."""

_PLAIN_STEP = re.compile(r"[A-Za-z0-9_@/*-]+")
_LONGEST_QUOTE = 80


class Severity(StrEnum):
    """Whether a problem stops the file from being used."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem; line and column count from 1 and are 0 where no place can be named."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    @property
    def is_error(self) -> bool:
        """Whether the file cannot be used because of it."""
        return self.severity is Severity.ERROR

    @property
    def place(self) -> str:
        """`file:line:column`, as editors and terminals link it."""
        name = printable(self.file)
        return f"{name}:{self.line}:{self.column}" if self.line else name

    def __str__(self) -> str:
        where = f" (at {self.path})" if self.path else ""
        fix = f"; {self.hint}" if self.hint else ""
        return f"{self.place}: {self.severity}: {self.message}{where}{fix}"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before its place in the file is looked up.

    Args:
        path: Where in the document.
        message: What is wrong.
        hint: What to write instead.
        severity: Error or warning.
        is_about_key: Whether the name of the field is meant rather than its value.
        offset: Characters into the value's text.
        place: Line and column where they are known already.
    """

    path: Path
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR
    is_about_key: bool = False
    offset: int = 0
    place: tuple[int, int] | None = None


def format_path(path: Path) -> str:
    """Writes a path as `domains.shop.limits[0].rate`, odd names quoted: `tenants["a.b"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_STEP.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{quoted(step)}]"
    return text


def printable(text: str) -> str:
    """Text with everything escaped that a terminal may act on."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def quoted(text: str) -> str:
    """Puts text between quotes, made printable and shortened."""
    shown = text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"
    return f'"{printable(shown)}"'


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known word, or all of them where they are few."""
    return _hint(word, tuple(sorted(set(known))))


@lru_cache(maxsize=256)
def _hint(word: str, names: tuple[str, ...]) -> str:
    import difflib  # noqa: PLC0415  only a mistake needs it

    near = difflib.get_close_matches(word[:100], names, n=1, cutoff=0.6)
    if not near:
        folded = word.lower().replace("-", "_")
        near = [name for name in names if name.lower().replace("-", "_") == folded]
    if near:
        return f"did you mean {quoted(near[0])}?"
    if names and len(names) <= 12:
        return "known here: " + ", ".join(names)
    return ""
