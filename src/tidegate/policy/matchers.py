"""What `when` asks of one value: exact, "prefix*", [any, of], {regex}, {cidr}, {not}."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import PydanticCustomError

from tidegate.policy.fields import TEXT_SCHEMA, described, mistake, raise_all
from tidegate.policy.problems import Path, did_you_mean, quoted

Kind = Literal["exact", "prefix", "regex", "cidr"]
KINDS: tuple[Kind, ...] = ("exact", "prefix", "regex", "cidr")
LONGEST_REGEX = 1000
_LONGEST_LIST = 10_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way for a value to match; `text` is the value, its beginning, a regex or a network."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Matcher:
    """A value matches if any pattern does; negated, if none does."""

    any: tuple[Pattern, ...]
    is_negated: bool = False


def read_matcher(value: object) -> Matcher:
    """Reads what stands after a key of `when`."""
    if isinstance(value, dict) and "not" in value:
        if len(value) > 1:
            raise mistake("not stands alone", "put everything under not")
        inner = value["not"]
        if isinstance(inner, dict) and "not" in inner:
            raise mistake("not within not", "write the value without either")
        return Matcher(_patterns(inner, ("not",)), is_negated=True)
    return Matcher(_patterns(value, ()))


def _patterns(value: object, path: Path) -> tuple[Pattern, ...]:
    found: list[Pattern] = []
    mistakes: list[tuple[Path, PydanticCustomError]] = []
    is_list = isinstance(value, list)
    items = value if isinstance(value, list) else [value]
    if not items:
        mistakes.append((path, mistake("an empty list matches nothing", 'write "*" for any value')))
    if len(items) > _LONGEST_LIST:
        mistakes.append((path, mistake(f"a list of more than {_LONGEST_LIST:,}", "use a prefix")))
    for index, item in enumerate(items[:_LONGEST_LIST]):
        here = (*path, index) if is_list else path
        try:
            found.append(_pattern(item))
        except ValidationError as error:
            mistakes.extend(
                ((*here, *line["loc"]), mistake(line["ctx"]["message"], line["ctx"]["hint"]))
                for line in error.errors()
            )
        except PydanticCustomError as error:
            mistakes.append((here, error))
    if mistakes:
        raise_all("when", mistakes)
    return tuple(dict.fromkeys(found))


def _pattern(value: object) -> Pattern:
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, dict):
        hint = 'write "" for the empty value' if value is None else ""
        raise mistake(f"expected a value to match, found {described(value)}", hint)
    if len(value) != 1:
        raise mistake(
            "expected one of exact, prefix, regex, cidr, not", "write {regex: '^/v[12]/'}"
        )
    ((kind, written),) = value.items()
    if kind not in KINDS:
        hint = (
            "not stands outside of the list"
            if kind == "not"
            else did_you_mean(kind, (*KINDS, "not"))
        )
        raise_all(
            "when", [((kind,), mistake(f"unknown matcher {quoted(kind)}", hint, is_about_key=True))]
        )
    if not isinstance(written, str):
        hint = (
            f"write [{{{kind}: …}}, {{{kind}: …}}] for several" if isinstance(written, list) else ""
        )
        wrong = mistake(f"expected text, found {described(written)}", hint)
        raise_all("when", [((kind,), wrong)])
    try:
        return Pattern(kind, _checked(kind, written))
    except PydanticCustomError as error:
        raise_all("when", [((kind,), error)])


def _text(value: str) -> Pattern:
    """`abc*` is a prefix, text without a star is the value itself."""
    stars = value.count("*")
    if not stars:
        return Pattern("exact", value)
    if stars == 1 and value.endswith("*"):
        return Pattern("prefix", value[:-1])
    parts = ".*".join(re.escape(part) for part in value.split("*"))
    message = f"{quoted(value)}: a star means a prefix and stands only at the end"
    hint = f"write {{regex: '^{parts}$'}}, or {{exact: {quoted(value)}}} for the star itself"
    raise mistake(message, hint)


def _checked(kind: Kind, written: str) -> str:
    if kind == "regex" and len(written) > LONGEST_REGEX:
        raise mistake(
            f"a regex longer than {LONGEST_REGEX} characters", "use several limits or a list"
        )
    return _network(written) if kind == "cidr" else written


def _network(written: str) -> str:
    if "%" in written:
        raise mistake(f"{quoted(written)} holds a zone id", "leave out what follows the %")
    try:
        return str(ipaddress.ip_network(written))
    except ValueError as error:
        reason = str(error)
    try:
        hint = f"did you mean {ipaddress.ip_network(written, strict=False)}?"
        reason = "bits are set beyond the prefix"
    except ValueError:
        hint = "write it as 10.0.0.0/8 or 2001:db8::/32"
    raise mistake(f"{quoted(written)} is no network: {reason}", hint)


def _schema() -> dict[str, object]:
    typed: dict[str, object] = {
        "type": "object",
        "properties": {
            "exact": {**TEXT_SCHEMA, "description": "The value itself, stars included."},
            "prefix": {**TEXT_SCHEMA, "description": "The beginning of the value."},
            "regex": {
                "type": "string",
                "maxLength": LONGEST_REGEX,
                "description": "A regular expression of Rust's regex crate, found anywhere.",
            },
            "cidr": {"type": "string", "description": "A network that the address lies in."},
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
    one = [{**TEXT_SCHEMA, "pattern": r"^[^*]*\*?$"}, typed]
    many = [*one, {"type": "array", "items": {"anyOf": one}, "minItems": 1}]
    negated = {
        "type": "object",
        "properties": {"not": {"anyOf": many}},
        "required": ["not"],
        "additionalProperties": False,
    }
    return {"anyOf": [*many, negated]}


MatcherField = Annotated[Matcher, PlainValidator(read_matcher), WithJsonSchema(_schema())]
