"""Reads YAML as text: every scalar stays as it is written, every value keeps its place.

`0123`, `no` and `12:30` are the text that stands there, for keys as for values. Repeated keys are
errors; aliases are allowed, but what they expand to is bounded.
"""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from tidegate.policy.problems import Finding, Path, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

Plain = str | list["Plain"] | dict[str, "Plain"] | None
"""A value as it is written; `None` where nothing stands."""

MAX_BYTES = 32 * 2**20
MAX_DEPTH = 50
MAX_ALIASED_VALUES = 100_000

_TEXT_TAGS = frozenset({"", "!", "tag:yaml.org,2002:str"})
_COLLECTION_TAGS = frozenset({"", "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})

_ODD_KEYS = frozenset({"", "<<"})
_NESTED = re.compile(r"([\w-]+):\s+([\w-]+):\s+([\w-]+)\s*(?:#.*)?$")
"""`consistency: sharded: 8`, all in one line."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """Why a text is no YAML; line and column count from 1."""

    line: int
    column: int
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What a text holds, and the nodes that know where everything stands."""

    root: Node | None
    value: Plain
    findings: tuple[Finding, ...]
    _indexes: dict[int, dict[str, tuple[Node, Node]]] = field(default_factory=dict)

    def place(self, path: Path, *, is_about_key: bool = False, offset: int = 0) -> tuple[int, int]:
        """Line and column, counted from 1, of the value at a path or of its nearest parent."""
        key, node = None, self.root
        for step in path:
            found = self._child(node, step)
            if found is None:
                is_about_key = True
                break
            key, node = found
        shown = key if is_about_key and key is not None else node
        return _position(shown, offset) if shown is not None else (1, 1)

    def _child(self, node: Node | None, step: str | int) -> tuple[Node | None, Node] | None:
        """The key and the value that a step of a path leads to."""
        if type(node) is MappingNode and isinstance(step, str):
            index = self._indexes.get(id(node))
            if index is None:
                pairs = [(key.value, (key, value)) for key, value in reversed(node.value)]
                index = {name: pair for name, pair in pairs if isinstance(name, str)}
                self._indexes[id(node)] = index
            return index.get(step)
        if type(node) is SequenceNode and isinstance(step, int) and step < len(node.value):
            return None, node.value[step]
        return None


class _TextParser(CParser):
    """Composes nodes without guessing types: untagged values have the empty tag."""

    def resolve(self, kind: object, value: object, implicit: object) -> str:  # noqa: ARG002
        return ""

    def descend_resolver(self, current_node: object, current_index: object) -> None:
        """Nothing to resolve by path."""

    def ascend_resolver(self) -> None:
        """Nothing to resolve by path."""


@contextmanager
def paused_gc() -> Iterator[None]:
    """Holds the cycle collector: it would walk the growing tree of nodes again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def decode(data: bytes) -> str | Syntax:
    """Bytes of a file as text: UTF-8, with or without a byte order mark."""
    if len(data) > MAX_BYTES:
        return Syntax(0, 0, f"the file is larger than {MAX_BYTES // 2**20} MiB", "split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        return Syntax(line, column, "the file is not UTF-8", "save it as UTF-8")


def read_yaml(text: str) -> Source | Syntax:
    """Reads one YAML document."""
    if len(text) > MAX_BYTES:
        return Syntax(0, 0, f"the text is larger than {MAX_BYTES // 2**20} MiB", "split it")
    try:
        root = _TextParser(text).get_single_node()
    except ReaderError as error:
        before = text.encode()[: error.position].decode("utf-8", "ignore")
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
        code = error.character if isinstance(error.character, int) else ord(error.character[:1])
        message = f"the character U+{code:04X} is not allowed here"
        escape = f"\\U{code:08x}"
        hint = f'write it as an escape between double quotes: "{escape}"'
        return Syntax(line, column, message, hint)
    except yaml.MarkedYAMLError as error:
        return _syntax(error, text)
    except UnicodeEncodeError:
        return Syntax(0, 0, "the text holds half of a surrogate pair", "save it as UTF-8")
    reader = _Reader()
    return Source(root, reader.plain(root, ()) if root else None, tuple(reader.findings))


def _syntax(error: yaml.MarkedYAMLError, text: str) -> Syntax:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    problem = error.problem or error.context or "this is no YAML"
    hint = ""
    if problem == "but found another document":
        problem, hint = "a second document begins here", "one file holds one policy"
    elif "mapping values are not allowed" in problem:
        hint = 'a value that contains ": " needs quotes; else look at the indentation'
        nested = _NESTED.search("".join(text.splitlines()[max(line - 1, 0) : line]))
        if nested:
            hint = "write {}: {{{}: {}}} where a mapping is meant; ".format(*nested.groups()) + hint
    elif "cannot start any token" in problem:
        hint = "indent by spaces, not by tabs; quote values that begin with @, ` or %"
    elif "did not find expected" in problem or "could not find expected" in problem:
        hint = "look at the indentation, and for a missing bracket, quote or colon"
    if error.context and error.context != problem and not hint:
        problem = f"{problem} ({error.context})"
    return Syntax(line, column, f"this is no YAML: {problem}", hint)


class _Reader:
    """Turns nodes into plain values and collects what cannot be taken."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._known: dict[int, tuple[Plain, int]] = {}
        self._open: set[int] = set()
        self._count = 0
        self._aliased = 0

    def plain(self, node: Node, path: Path) -> Plain:
        if type(node) is ScalarNode:
            return self._scalar(node, path)
        known = self._known.get(id(node))
        if known is not None:
            return self._alias(node, path, known)
        if id(node) in self._open:
            self._refuse(node, path, "an anchor cannot contain itself", "write the value out")
            return None
        if len(path) >= MAX_DEPTH:
            self._refuse(node, path, f"nested more than {MAX_DEPTH} deep", "flatten it")
            return None
        before = self._count
        self._open.add(id(node))
        value: Plain
        if type(node) is MappingNode:
            value = self._mapping(node, path)
        else:
            value = [self.plain(item, (*path, index)) for index, item in enumerate(node.value)]
        self._open.discard(id(node))
        if node.tag not in _COLLECTION_TAGS:
            self._refuse_tag(node, path)
        self._known[id(node)] = (value, self._count - before)
        return value

    def _scalar(self, node: ScalarNode, path: Path) -> Plain:
        self._count += 1
        if node.tag not in _TEXT_TAGS:
            self._refuse_tag(node, path)
        text: str = node.value
        return text if text or node.style else None

    def _alias(self, node: Node, path: Path, known: tuple[Plain, int]) -> Plain:
        value, size = known
        was_within = self._aliased <= MAX_ALIASED_VALUES
        self._count += size
        self._aliased += size
        if self._aliased <= MAX_ALIASED_VALUES:
            return value
        if was_within:
            message = f"aliases repeat more than {MAX_ALIASED_VALUES:,} values"
            self._refuse(node, path, message, "write fewer aliases of aliases")
        return None

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Plain]:
        values: dict[str, Plain] = {}
        for key, item in node.value:
            name = key.value
            if (
                type(key) is not ScalarNode
                or key.tag
                or name in values
                or (name in _ODD_KEYS and not key.style)
            ) and not self._is_usable(key, node, path, values):
                continue
            if type(item) is ScalarNode and not item.tag:
                # Most of a large file is this: no call and no path for it.
                self._count += 1
                text = item.value
                values[name] = text if text or item.style else None
            else:
                values[name] = self.plain(item, (*path, name))
        return values

    def _is_usable(
        self, key: Node, node: MappingNode, path: Path, values: dict[str, Plain]
    ) -> bool:
        if type(key) is not ScalarNode:
            self._refuse(key, path, "a key must be text", "write the key as one word")
            return False
        name: str = key.value
        if name in values:
            first = next(known for known, _ in node.value if known.value == name)
            message = f"{quoted(name)} stands twice"
            hint = f"the first is in line {first.start_mark.line + 1}: keep one of them"
            self._refuse(key, (*path, name), message, hint)
            return False
        if name in _ODD_KEYS and not key.style:
            hint = "share a whole value by &name and *name; << as text goes between quotes"
            message = "merge keys (<<) are not supported"
            if not name:
                message, hint = "a key is missing before the colon", 'write "" for the empty text'
            self._refuse(key, path, message, hint)
            return False
        if key.tag not in _TEXT_TAGS:
            self._refuse_tag(key, (*path, name))
        return True

    def _refuse_tag(self, node: Node, path: Path) -> None:
        message = f"tags such as {quoted(node.tag.replace('tag:yaml.org,2002:', '!!'))} have no use"
        self._refuse(node, path, message, "remove it: every value is the text as written")

    def _refuse(self, node: Node, path: Path, message: str, hint: str) -> None:
        self.findings.append(Finding(path, message, hint, place=_position(node, 0)))


def _position(node: Node, offset: int) -> tuple[int, int]:
    start, end = node.start_mark, node.end_mark
    if offset and type(node) is ScalarNode:
        quotes = 2 if node.style else 0
        is_as_written = (
            start.line == end.line and end.column - start.column == len(node.value) + quotes
        )
        if is_as_written:
            return start.line + 1, start.column + 1 + quotes // 2 + offset
    return start.line + 1, start.column + 1
