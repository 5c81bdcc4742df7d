"""From plain values to the typed document, with every mistake of form at once.

A mistake must not hide the others. So what is wrong is recorded, cut out or replaced by a stand-in,
and the rest is validated again until it holds; the rules then look at what is left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from tidegate.policy.document import Amount, Document, Domain, Limit, Override, Part, Tenant
from tidegate.policy.fields import OWN_ERROR, described
from tidegate.policy.later import not_yet
from tidegate.policy.problems import Finding, Path, did_you_mean, quoted
from tidegate.policy.rates import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails

    from tidegate.policy.yaml_text import Plain

_MOST_ROUNDS = 20
_NUMBERS = frozenset({"rate", "quota", "burst", "preset"})


@dataclass(slots=True)
class Shaped:
    """What could be typed, and what could not.

    Attributes:
        document: The document without what was wrong; `None` if nothing is left.
        findings: The mistakes.
        origins: For a list that lost items: the places that the others had in the file.
    """

    document: Document | None
    findings: list[Finding]
    origins: dict[Path, list[int]] = field(default_factory=dict)

    def original(self, path: Path) -> Path:
        """The path in the file of a path in the document."""
        if not self.origins:
            return path
        result: Path = ()
        for step in path:
            kept = self.origins.get(result)
            is_moved = kept is not None and isinstance(step, int)
            result = (*result, kept[step] if is_moved and kept and isinstance(step, int) else step)
        return result


def shape(value: Plain) -> Shaped:
    """Types a document."""
    try:
        return Shaped(Document.model_validate(value), [])
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
    if not isinstance(value, dict):
        return Shaped(None, [_finding(errors[0], value)])
    shaped = Shaped(None, [_finding(found, value) for found in errors])
    rest = _unshared(value)
    for _ in range(_MOST_ROUNDS):
        for found in errors:
            _cut(rest, found["loc"], found["type"])
        document, shaped.origins = _without_holes(rest)
        try:
            shaped.document = Document.model_validate(document)
        except ValidationError as error:
            errors = [
                cast("ErrorDetails", {**found, "loc": shaped.original(found["loc"])})
                for found in error.errors(include_url=False, include_input=False)
            ]
        else:
            break
    return shaped


class _Hole:
    """Where an item of a list was cut out."""


_HOLE = _Hole()


def _cut(rest: Any, path: Path, kind: str) -> None:
    """Takes out what is wrong, or puts something harmless in its place."""
    if path:
        owner, name = _at(rest, path[:-1]), path[-1]
        stand_in = None if kind == "extra_forbidden" else _stand_in(path[:-1], name)
        if isinstance(owner, dict) and stand_in is not None:
            owner[name] = stand_in
            return
        is_amount = isinstance(owner, dict) and _part(path[:-1]) in {Amount, Override}
        if is_amount and owner.keys() & _NUMBERS <= {name}:
            # What was meant as its number cannot be read, so nobody need say that it has none.
            owner["rate"] = UNREADABLE
        if path[-1] == "concurrency" and isinstance(owner, dict) and _part(path[:-1]) is Limit:
            owner.setdefault("rate", UNREADABLE)  # a limit by a word that comes later lacks none
    if kind == "missing":
        path = path[:-1]
    while path:
        owner = _at(rest, path[:-1])
        if isinstance(owner, dict) and path[-1] in owner:
            del owner[path[-1]]
            return
        if isinstance(owner, list):
            owner[cast("int", path[-1])] = _HOLE
            return
        path = path[:-1]


def _stand_in(parent: Path, name: str | int) -> object | None:
    """A harmless value, so that the rest of its owner is still looked at."""
    part = _part(parent)
    if name in {"rate", "quota"} and part in {Limit, Amount, Override}:
        return UNREADABLE
    if name == "id" and part is Limit:
        return f"limits[{parent[3]}]"
    if name == "from" and part is Override:
        return -1 - int(parent[-1])
    if len(parent) == 3 and parent[2] == "plans":
        return {}
    return "1" if (*parent, name) == ("version",) else None


def _at(rest: Any, path: Path) -> Any:
    for step in path:
        if not isinstance(rest, dict | list):
            return None
        try:
            rest = cast("Any", rest)[step]
        except (LookupError, TypeError):
            return None  # a step that does not fit leads nowhere
    return rest


def _unshared(value: Any) -> Any:
    """A copy in which aliases are values of their own."""
    if isinstance(value, dict):
        return {name: _unshared(item) for name, item in value.items()}
    return [_unshared(item) for item in value] if isinstance(value, list) else value


def _without_holes(rest: Any) -> tuple[Any, dict[Path, list[int]]]:
    origins: dict[Path, list[int]] = {}

    def copy(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {name: copy(item, (*path, name)) for name, item in value.items()}
        if not isinstance(value, list):
            return value
        kept = [index for index, item in enumerate(value) if item is not _HOLE]
        if len(kept) < len(value):
            origins[path] = kept
        return [copy(value[index], (*path, index)) for index in kept]

    return copy(rest, ()), origins


def _finding(found: ErrorDetails, value: Plain) -> Finding:
    path, kind = found["loc"], found["type"]
    context: Mapping[str, Any] = found.get("ctx", {})
    written = _at(value, path)
    if kind == OWN_ERROR:
        return Finding(
            path,
            context["message"],
            context["hint"],
            is_about_key=context["is_about_key"],
            offset=context["offset"],
        )
    later = not_yet(path, written)
    if later is not None and kind in {"extra_forbidden", "literal_error", "enum"}:
        return Finding(path, later[0], later[1], is_about_key=kind == "extra_forbidden")
    if kind == "extra_forbidden":
        message, hint = f"unknown field {quoted(str(path[-1]))}", _near_field(path)
        return Finding(path, message, hint, is_about_key=True)
    if kind == "missing":
        return Finding(path[:-1], *_missing(path), is_about_key=True)
    if kind in {"literal_error", "enum"}:
        return _unknown_word(path, written, context)
    return Finding(path, *_wrong_kind(kind, written))


def _missing(path: Path) -> tuple[str, str]:
    examples = {
        "version": "add version: 1 at the top",
        "id": "add an id, such as id: search; it is the counter's identity",
        "limit": "add the id of a limit",
    }
    name = str(path[-1])
    return f"{quoted(name)} is missing", examples.get(name, "")


def _unknown_word(path: Path, written: object, context: Mapping[str, Any]) -> Finding:
    if not isinstance(written, str):
        return Finding(
            path, f"expected a word, found {described(written)}", str(context["expected"])
        )
    if path == ("version",):
        return Finding(path, f"version {quoted(written)} is unknown", "write version: 1")
    known = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
    hint = did_you_mean(written, known)
    return Finding(path, f"unknown {path[-1]} {quoted(written)}", hint)


def _wrong_kind(kind: str, written: object) -> tuple[str, str]:
    found = "text" if isinstance(written, str) else described(written)
    if kind == "list_type":
        hint = f"write [{written}]" if isinstance(written, str) else "write [a, b] or lines with -"
        return f"expected a list, found {found}", hint
    if kind in {"dict_type", "model_type", "model_attributes_type"}:
        hint = "write its fields below it, indented"
        if isinstance(written, list):
            hint += ", without -"
        return f"expected a mapping, found {found}", hint
    return f"cannot be read ({kind})", ""


def _near_field(path: Path) -> str:
    part = _part(path[:-1])
    if part is None:
        return ""
    names = [info.alias or name for name, info in part.model_fields.items()]
    hint = did_you_mean(str(path[-1]), names)
    return hint or "known here: " + ", ".join(names)


def _part(path: Path) -> type[Part] | None:
    """Which class of the document a path leads to."""
    shapes: tuple[tuple[type[Part], tuple[str | None, ...]], ...] = (
        (Document, ()),
        (Domain, ("domains", None)),
        (Limit, ("domains", None, "limits", None)),
        (Amount, ("domains", None, "plans", None, None)),
        (Tenant, ("domains", None, "tenants", None)),
        (Override, ("domains", None, "tenants", None, "overrides", None)),
    )
    for part, steps in shapes:
        if len(steps) == len(path) and all(_fits(steps, path)):
            return part
    return None


def _fits(steps: tuple[str | None, ...], path: Path) -> Iterator[bool]:
    return (step is None or step == name for step, name in zip(steps, path, strict=True))
