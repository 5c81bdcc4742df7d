"""The kinds of values that a policy document is made of: how each is read, and its JSON Schema.

A value comes as the text that was written, so each kind reads text. The schemas are for editors,
which see numbers and booleans where people leave out the quotes.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, NoReturn

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from tidegate.errors import ConfigError
from tidegate.policy.problems import Path, did_you_mean, quoted
from tidegate.policy.quotas import parse_quota
from tidegate.policy.rates import RateError, Rates, parse_count, parse_rates
from tidegate.policy.units import LEAST_SLOTS, MAX_COUNT, MOST_SLOTS, QUOTA_UNITS, UNIT_SECONDS
from tidegate.policy.zones import zone_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

OWN_ERROR = "tidegate"
_LONGEST_NAME = 200
_FLAGS = {"true": True, "false": False}

_INSTANT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(Z|z|[+-][0-9]{2}:[0-9]{2})?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def mistake(
    message: str, hint: str = "", *, offset: int = 0, is_about_key: bool = False
) -> PydanticCustomError:
    """An error with the fix beside it, in the form that pydantic collects."""
    context = {"message": message, "hint": hint, "offset": offset, "is_about_key": is_about_key}
    return PydanticCustomError(OWN_ERROR, "{message}", context)


def raise_all(title: str, mistakes: Iterable[tuple[Path, PydanticCustomError]]) -> NoReturn:
    """Raises several mistakes of one value at once."""
    lines = [InitErrorDetails(type=error, loc=path, input=None) for path, error in mistakes]
    raise ValidationError.from_exception_data(title, lines)


def described(value: object) -> str:
    """What stands where text was expected."""
    if value is None:
        return "nothing"
    return "a list" if isinstance(value, list) else "a mapping"


def text(value: object) -> str:
    """Text as it is written, empty text included."""
    if isinstance(value, str):
        return value
    hint = 'write "" for the empty text' if value is None else ""
    raise mistake(f"expected text, found {described(value)}", hint)


def name(value: object) -> str:
    """Text that is shown: not empty, of one line."""
    word = text(value)
    if not word:
        raise mistake("must not be empty")
    if len(word) > _LONGEST_NAME:
        raise mistake(f"longer than {_LONGEST_NAME} characters")
    if not word.isprintable():
        raise mistake(f"{quoted(word)} holds characters that cannot be shown", "use plain text")
    return word


def rates(value: object) -> Rates:
    """A rate of a policy file."""
    if isinstance(value, Rates):
        return value
    return _read("rate", _rates, text(value))


def quota(value: object) -> Rates:
    """A quota of a policy file."""
    if isinstance(value, Rates):
        return value
    return _read("quota", _quota, text(value))


def zone(value: object) -> str:
    """The IANA name of a time zone."""
    word = text(value)
    if word not in zone_names():
        hint = did_you_mean(word, zone_names()) or "an IANA name, such as Europe/Berlin or UTC"
        raise mistake(f"unknown time zone {quoted(word)}", hint)
    return word


def _read(what: str, parse: Callable[[str], Rates], written: str) -> Rates:
    try:
        return parse(written)
    except RateError as error:
        whole = quoted(error.text)
        raise_all(
            what,
            [
                (
                    (),
                    mistake(
                        f"{what} {whole}: {problem.message}", problem.hint, offset=problem.position
                    ),
                )
                for problem in error.problems
            ],
        )


@lru_cache(maxsize=4096)
def _quota(written: str) -> Rates:
    return parse_quota(written)


@lru_cache(maxsize=4096)
def _rates(written: str) -> Rates:
    return parse_rates(written, is_burst_allowed=False)


def count(value: object) -> int:
    """A whole number from 1."""
    if isinstance(value, int):
        return value
    try:
        return parse_count(text(value))
    except ConfigError as error:
        raise mistake(error.message, error.hint) from None


def slots(value: object) -> int:
    """Into how many parts a sliding window is split."""
    number = count(value)
    if not LEAST_SLOTS <= number <= MOST_SLOTS:
        raise mistake(f"{number} slots", f"allowed: {LEAST_SLOTS} to {MOST_SLOTS}; more err less")
    return number


def flag(value: object) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    word = text(value)
    if word.lower() not in _FLAGS:
        raise mistake(f"{quoted(word)} is neither true nor false", "write true or false")
    return _FLAGS[word.lower()]


@lru_cache(maxsize=4096)
def _instant(written: str) -> int:
    match = _INSTANT.fullmatch(written)
    if match is None:
        day = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", written)
        example = f"{written}T00:00:00Z" if day else "2026-12-31T00:00:00Z"
        raise mistake(f"{quoted(written)} is no instant", f"write date, time and zone: {example}")
    date, minutes, seconds, zone = match.groups()
    if zone is None:
        raise mistake(f"{quoted(written)} names no time zone", f"add Z or an offset: {written}Z")
    try:
        moment = datetime.fromisoformat(f"{date}T{minutes}{seconds or ':00'}{zone.upper()}")
        passed = moment - _EPOCH
    except (ValueError, OverflowError):
        raise mistake(f"{quoted(written)} does not exist", "look at day, hour and zone") from None
    if passed.days < 0:
        raise mistake(f"{quoted(written)} lies before 1970", "leave it out for no bound")
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def instant_us(value: object) -> int:
    """A moment with its zone, as microseconds since 1970 UTC."""
    if isinstance(value, int):
        return value
    return _instant(text(value))


def _or_empty_list(value: object) -> object:
    return [] if value is None else value


def _or_empty_mapping(value: object) -> object:
    return {} if value is None else value


def _rate_pattern() -> str:
    units = "|".join(sorted(UNIT_SECONDS, key=lambda unit: (-len(unit), unit)))
    one = rf"[0-9]+[kM]?\s*(/|per(?![A-Za-z]))\s*([0-9]+\s*)?({units})"
    return rf"^\s*(unlimited|{one}\s*(;\s*{one}\s*)*)\s*$"


def _quota_pattern() -> str:
    units = "|".join(sorted(QUOTA_UNITS, key=lambda unit: (-len(unit), unit)))
    one = rf"[0-9]+[kM]?\s*(/|per(?![A-Za-z]))\s*({units})"
    return rf"^\s*(unlimited|{one}\s*(;\s*{one}\s*)*)\s*$"


def _allow_null(schema: dict[str, JsonValue]) -> None:
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    elif "$ref" in schema:
        schema["anyOf"] = [{"$ref": schema.pop("$ref")}, {"type": "null"}]


TEXT_SCHEMA = {"type": ["string", "number", "boolean"]}
_NAME_SCHEMA = {**TEXT_SCHEMA, "minLength": 1}
_RATE_SCHEMA = {
    "type": "string",
    "pattern": _rate_pattern(),
    "examples": ["100/min", "5/s; 10k/day", "1M per 15min", "0/min", "unlimited"],
}
_QUOTA_SCHEMA = {
    "type": "string",
    "pattern": _quota_pattern(),
    "examples": ["5M/month", "500k/day; 5M/month", "0/year", "unlimited"],
}
_COUNT_SCHEMA = {
    "type": ["integer", "string"],
    "minimum": 1,
    "maximum": MAX_COUNT,
    "pattern": r"^\s*[0-9]+[kM]?\s*$",
}
_SLOTS_SCHEMA = {
    "type": ["integer", "string"],
    "minimum": LEAST_SLOTS,
    "maximum": MOST_SLOTS,
    "pattern": r"^\s*[0-9]+\s*$",
}
_FLAG_SCHEMA = {"type": ["boolean", "string"], "enum": [True, False, "true", "false"]}
_ZONE_SCHEMA = {"type": "string", "minLength": 1, "examples": ["Europe/Berlin", "UTC"]}
# Some readers of YAML make a date of it, so the type is said by what it is not.
_INSTANT_SCHEMA = {
    "not": {"type": ["number", "boolean", "array", "object", "null"]},
    "format": "date-time",
    "pattern": rf"^{_INSTANT.pattern.removesuffix('?')}$",
    "examples": ["2026-12-31T00:00:00Z"],
}

Text = Annotated[str, PlainValidator(text), WithJsonSchema(TEXT_SCHEMA)]
Name = Annotated[str, PlainValidator(name), WithJsonSchema(_NAME_SCHEMA)]
OptionalText = Annotated[str | None, PlainValidator(text), WithJsonSchema(TEXT_SCHEMA)]
OptionalName = Annotated[str | None, PlainValidator(name), WithJsonSchema(_NAME_SCHEMA)]
Flag = Annotated[bool, PlainValidator(flag), WithJsonSchema(_FLAG_SCHEMA)]
OptionalRates = Annotated[Rates | None, PlainValidator(rates), WithJsonSchema(_RATE_SCHEMA)]
OptionalQuota = Annotated[Rates | None, PlainValidator(quota), WithJsonSchema(_QUOTA_SCHEMA)]
OptionalZone = Annotated[str | None, PlainValidator(zone), WithJsonSchema(_ZONE_SCHEMA)]
OptionalCount = Annotated[int | None, PlainValidator(count), WithJsonSchema(_COUNT_SCHEMA)]
OptionalSlots = Annotated[int | None, PlainValidator(slots), WithJsonSchema(_SLOTS_SCHEMA)]
OptionalInstant = Annotated[int | None, PlainValidator(instant_us), WithJsonSchema(_INSTANT_SCHEMA)]

EmptyableList = BeforeValidator(_or_empty_list)
EmptyableMapping = BeforeValidator(_or_empty_mapping)
NULLABLE = Field(json_schema_extra=_allow_null)
