"""Reads a settings file: TOML with one table, `[serve]`, whose keys are the rows of the table."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegate.errors import ConfigError
from tidegate.settings.table import ROWS, Setting
from tidegate.settings.values import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE: Final = "serve"
_MOST_BYTES: Final = 1 << 20
_AT = re.compile(r"\(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_HEADER = re.compile(r"\s*\[\s*[\"']?(?P<name>[\w.-]+)[\"']?\s*\]\s*(?:#.*)?")
_KEY = re.compile(
    r"\s*[\"']?(?P<first>[\w-]+)[\"']?\s*(?:\.\s*[\"']?(?P<second>[\w-]+)[\"']?\s*)?="
)


@dataclass(frozen=True, slots=True)
class Line:
    """One setting of the file: its value as text, and where it stands."""

    row: Setting
    text: str
    where: str


@dataclass(frozen=True, slots=True)
class Lines:
    """What a file says, and what is wrong with the rest of it."""

    said: tuple[Line, ...]
    problems: tuple[ConfigError, ...]


def read_settings_file(path: str) -> Lines:
    """Reads a file.

    Raises:
        ConfigError: if it cannot be read or is no TOML.
    """
    text = _text(path)
    try:
        document: dict[str, object] = tomllib.loads(text)
    except ValueError as error:  # beside its own errors, numbers that are too long
        raise _syntax(path, str(error), text) from None
    except RecursionError:
        raise ConfigError("nested too deeply", path=path) from None
    places = _places(text)
    problems = [
        _stray(name, _where(path, places.get((name, "")))) for name in document if name != TABLE
    ]
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        raise ConfigError(
            f"{TABLE} is a table; write [{TABLE}] and its settings below",
            path=_where(path, places.get((TABLE, ""))),
        )
    said = tuple(_lines(path, table, places, problems))
    return Lines(said, tuple(problems))


def _syntax(path: str, why: str, text: str) -> ConfigError:
    what = why.rpartition(" (at ")[0] or why
    at = _AT.search(why)
    place = f"{at['line']}:{at['column']}" if at else str(max(1, len(text.splitlines())))
    return ConfigError(f"no TOML: {what[:1].lower()}{what[1:]}", path=f"{path}:{place}")


def _text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(
            f"the settings file cannot be read: {reason.lower()}",
            path=path,
            hint="--config names it; without one, flags and environment do",
        ) from None
    if len(data) > _MOST_BYTES:
        raise ConfigError("too long for a settings file", path=path)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("no UTF-8", path=f"{path}:{line}") from None


def _lines(
    path: str,
    table: dict[str, object],
    places: dict[tuple[str, str], int],
    problems: list[ConfigError],
) -> Iterable[Line]:
    rows = {row.name: row for row in ROWS if row.is_in_file}
    for name, value in table.items():
        where = _where(path, places.get((TABLE, name)) or places.get((TABLE, "")))
        row = rows.get(name)
        if row is None:
            problems.append(
                ConfigError(f"{quoted(name)} is no setting", path=where, hint=_near(name))
            )
            continue
        try:
            text = _as_text(row, value)
        except ValueError as error:
            problems.append(ConfigError(f"{name} {error}", path=where))
            continue
        if row.kind.is_path and text:
            text = str(Path(path).parent / text)
        yield Line(row, text, where)


def _as_text(row: Setting, value: object) -> str:
    if isinstance(value, str):
        return value
    if row.kind.is_number and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if row.kind.is_number:
        raise ValueError(f"must be {row.kind.form}")
    example = "" if row.kind.is_secret or not row.default else f': {row.name} = "{row.default}"'
    raise ValueError(f"must be a text in quotes{example}")


def _stray(name: str, where: str) -> ConfigError:
    if name in {row.name for row in ROWS if row.is_in_file}:
        hint = f"write it below a line [{TABLE}]"
    else:
        hint = f"the settings stand in the table [{TABLE}]"
    return ConfigError(f"{quoted(name)} is unknown at the top of the file", path=where, hint=hint)


def _near(name: str) -> str:
    names = [row.name for row in ROWS if row.is_in_file]
    plain = name.lower().replace("_", "-")
    if plain == "config":
        return "a settings file names no other"
    near = difflib.get_close_matches(plain, names, n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else "tidegate config lists all settings"


def _where(path: str, line: int | None) -> str:
    return f"{path}:{line}" if line else path


def _places(text: str) -> dict[tuple[str, str], int]:
    """The lines of tables `(name, "")` and of their keys `(table, key)`, as a reader sees them.

    The parser tells no lines. A text over several lines may look like a key: the first one counts.
    """
    table = ""
    places: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.fullmatch(line):
            table = header["name"]
            places.setdefault((table, ""), number)
        elif key := _KEY.match(line):
            if table:
                places.setdefault((table, key["first"]), number)
            else:
                places.setdefault((key["first"], ""), number)
                if key["second"]:
                    places.setdefault((key["first"], key["second"]), number)
    return places
