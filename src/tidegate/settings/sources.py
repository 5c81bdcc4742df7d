"""What is in force, and who said it: command line, else environment, else file, else default."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tidegate.errors import ConfigError
from tidegate.settings.settings_file import read_settings_file
from tidegate.settings.table import ROWS, VARIABLES, Setting, Settings
from tidegate.settings.values import quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence

_CONFIG: Final = "config"
_NEEDS: Final = (
    ("tls-cert", "tls-key"),
    ("tls-key", "tls-cert"),
    ("tls-client-ca", "tls-cert"),
    ("tls-client-uris", "tls-client-ca"),
    ("otlp-headers", "otlp-endpoint"),
    ("otlp-ca", "otlp-endpoint"),
)
# Kubernetes sets these in every pod that runs beside a Service called tidegate or tidegate-….
_OF_KUBERNETES = re.compile(
    rf"{VARIABLES}(?:\w+_)?"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)


class Source(StrEnum):
    """Who says a value; the first of these that says one wins."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Found:
    """A value in force.

    Args:
        row: The setting.
        value: What `Settings` holds.
        source: Who said it.
        where: The flag, the variable, or the file with its line; empty for a default.
    """

    row: Setting
    value: object
    source: Source
    where: str

    @property
    def shown(self) -> str | None:
        """The value as text, without secrets; `None` if nothing is set."""
        if self.value is None and not self.row.default:
            return None
        return self.row.kind.show(self.value)


@dataclass(frozen=True, slots=True)
class InForce:
    """All settings, and where each comes from."""

    settings: Settings
    found: tuple[Found, ...]

    def where(self, name: str) -> str:
        """Who said the setting of that name: a flag, a variable, or a line of the file."""
        return next((one.where for one in self.found if one.row.name == name), "")


@dataclass(frozen=True, slots=True)
class _Said:
    """What one source says of one setting."""

    row: Setting
    text: str
    source: Source
    where: str


def add_arguments(parser: argparse.ArgumentParser, names: Sequence[str] = ()) -> None:
    """Declares the options of these settings; all of them if none is named."""
    for row in ROWS:
        if not names or row.name in names:
            default = f"; default: {row.default}" if row.default else ""
            parser.add_argument(
                row.flag,
                metavar=row.metavar,
                dest=row.field,
                help=f"{row.help} (or {row.variable}){default}",
            )


def read_settings(
    args: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> Settings:
    """The settings in force, as `in_force` finds them.

    Raises:
        ConfigError: as `in_force` does.
    """
    return in_force(args, environment).settings


def in_force(args: argparse.Namespace, environment: Mapping[str, str] | None = None) -> InForce:
    """Takes each setting from the command line, else the environment, else the settings file, else
    its default. What the arguments do not declare keeps its default. An empty variable is none.

    Args:
        args: What `add_arguments` declared, parsed.
        environment: In place of the environment of the process.

    Raises:
        ConfigError: if a source says what cannot be used or is unknown, even where another source
            goes before it; names all such places, and repeats no secret.
    """  # noqa: D205  two sentences belong together
    environment = os.environ if environment is None else environment
    rows = [row for row in ROWS if hasattr(args, row.field)]
    problems = list(_unknown(environment))
    said = [*_flags(rows, args), *_variables(rows, environment)]
    config = next((one.text for one in said if one.row.name == _CONFIG and one.text), None)
    if config is not None:
        said += _filed(config, problems)
    found: dict[str, Found] = {}
    for one in said:
        try:
            read = Found(one.row, one.row.kind.read(one.text), one.source, one.where)
        except ValueError as error:
            problems.append(_unusable(one, str(error)))
        else:
            found.setdefault(one.row.name, read)
    everything = tuple(found.get(row.name) or _default(row) for row in ROWS)
    settings = Settings(**{one.row.field: one.value for one in everything})  # type: ignore[arg-type]  # each row reads its field's type
    problems += _impossible(settings, found)
    raise_all(problems)
    return InForce(settings, tuple(one for one in everything if one.row in rows))


def _flags(rows: Iterable[Setting], args: argparse.Namespace) -> Iterable[_Said]:
    for row in rows:
        text = getattr(args, row.field)
        if text is not None:
            yield _Said(row, text, Source.FLAG, row.flag)


def _variables(rows: Iterable[Setting], environment: Mapping[str, str]) -> Iterable[_Said]:
    for row in rows:
        text = environment.get(row.variable)
        if text:
            yield _Said(row, text, Source.ENVIRONMENT, row.variable)


def _filed(config: str, problems: list[ConfigError]) -> Iterable[_Said]:
    try:
        lines = read_settings_file(config)
    except ConfigError as error:
        problems.append(error)
        return
    problems += lines.problems
    for line in lines.said:
        yield _Said(line.row, line.text, Source.FILE, line.where)


def _default(row: Setting) -> Found:
    return Found(row, row.kind.read(row.default) if row.default else None, Source.DEFAULT, "")


def _unknown(environment: Mapping[str, str]) -> Iterable[ConfigError]:
    known = [row.variable for row in ROWS]
    for name in sorted(environment):
        if name.startswith(VARIABLES) and name not in known and not _OF_KUBERNETES.fullmatch(name):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            hint = f"did you mean {near[0]}?" if near else "tidegate config lists all settings"
            yield ConfigError("there is no such setting", path=name, hint=hint)


def _unusable(one: _Said, why: str) -> ConfigError:
    value = "its value" if one.row.kind.is_secret else quoted(one.text)
    name = f"{one.row.name}: " if one.source is Source.FILE else ""
    return ConfigError(f"{name}{value} {why}", path=one.where)


def _impossible(settings: Settings, found: Mapping[str, Found]) -> Iterable[ConfigError]:
    """What is wrong with values that are fine each for itself."""
    has_port = not settings.http.endswith(":0")
    if has_port and settings.http == settings.grpc and {"http", "grpc"} & set(found):
        where = (found.get("grpc") or found["http"]).where
        yield ConfigError(
            f"HTTP and gRPC cannot both be served at {settings.http}",
            path=where,
            hint="give each a port of its own",
        )
    for name, needed in _NEEDS:
        one = found.get(name)
        lacks = getattr(settings, needed.replace("-", "_")) is None
        if one is not None and one.value is not None and lacks:
            yield ConfigError(f"{name} needs {needed} beside it", path=one.where)
    if settings.state_file is not None and settings.store is not None:
        yield ConfigError(
            "state-file is for counters in memory; those of a shared store outlive a node anyway",
            path=found["state-file"].where,
            hint="leave it out, or leave out store",
        )
    if settings.otlp_ca is not None and (settings.otlp_endpoint or "").startswith("http:"):
        yield ConfigError(
            "otlp-ca is for a collector with a certificate",
            path=found["otlp-ca"].where,
            hint="write https in otlp-endpoint",
        )


def raise_all(problems: Sequence[ConfigError]) -> None:
    """Raises what is wrong, all of it in one error; nothing where nothing is.

    Raises:
        ConfigError: if there is any.
    """
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"{len(problems)} settings cannot be used:{listed}")
