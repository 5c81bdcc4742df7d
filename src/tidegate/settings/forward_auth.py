"""Reads the file of doors for proxies: TOML with a table `[forward_auth.NAME]` for each."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidegate.errors import ConfigError

TABLE: Final = "forward_auth"
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a door.

    Args:
        form: What its value is, for people.
        default: What it is if the file says nothing; `...`: it must be said.
    """

    form: str
    default: object

    def takes(self, value: object) -> bool:
        """Whether a value is of this form; the engine checks what it says."""
        match self.form:
            case "a whole number":
                return isinstance(value, int) and not isinstance(value, bool) and value < 2**63
            case "true or false":
                return isinstance(value, bool)
            case "a list of texts":
                return isinstance(value, list) and all(isinstance(item, str) for item in value)
            case "a list of tables of texts":
                return isinstance(value, list) and all(map(_is_table_of_texts, value))
            case _:
                return isinstance(value, str)


FIELDS: Final = {
    "domain": Field("a text", ...),
    "descriptors": Field("a list of tables of texts", ...),
    "cost": Field("a whole number", 1),
    "trusted_proxies": Field("a list of texts", []),
    "address": Field("a text", "x-forwarded-for"),
    "uri": Field("a text", ""),
    "method": Field("a text", ""),
    "request_id": Field("a text", ""),
    "ipv4_prefix": Field("a whole number", 32),
    "ipv6_prefix": Field("a whole number", 64),
    "fold_case": Field("true or false", default=False),
    "keep_trailing_slash": Field("true or false", default=False),
    "deny_status": Field("a whole number", 429),
}
"""Every field of a door. A header that is empty is none."""
_HEADERS: Final = ("address", "uri", "method", "request_id")


def read_doors(path: str) -> bytes:
    """Reads the doors and fills in what they do not say; the engine checks each value.

    Args:
        path: The file.

    Returns:
        The doors by name, as JSON.

    Raises:
        ConfigError: if the file cannot be read, is no TOML, or names what there is not.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MOST_BYTES).decode()
        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"the doors for proxies cannot be read: {reason}", path=path) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"no TOML: {error}", path=path) from None
    doors = document.pop(TABLE, {})
    for name in document:
        raise ConfigError(f'"{name}" is unknown here', path=path, hint=f"write [{TABLE}.NAME]")
    if not isinstance(doors, dict) or not doors:
        raise ConfigError(f"there is no table [{TABLE}.NAME]", path=path)
    return json.dumps({name: _door(path, name, said) for name, said in doors.items()}).encode()


def _door(path: str, name: str, said: object) -> dict[str, object]:
    place = f"{path}: {TABLE}.{name}"
    if not isinstance(said, dict):
        raise ConfigError("is a table", path=place, hint=f"write [{TABLE}.{name}]")
    for key, value in said.items():
        field = FIELDS.get(key)
        if field is None:
            near = difflib.get_close_matches(key, FIELDS, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}"
            raise ConfigError("there is no such field", path=f"{place}.{key}", hint=hint)
        if not field.takes(value):
            raise ConfigError(f"must be {field.form}", path=f"{place}.{key}")
    for key, field in FIELDS.items():
        if field.default is ... and key not in said:
            raise ConfigError(f"{key} is missing; it must be {field.form}", path=place)
    door = {key: said.get(key, field.default) for key, field in FIELDS.items()}
    return door | {key: door[key] or None for key in _HEADERS}


def _is_table_of_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
