"""The log of a data plane: one line for each event, for people and for machines, on stderr."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from tidegate.policy.problems import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

_LEVELS: Final = ("debug", "info", "warning", "error")
_LONGEST_VALUE: Final = 400


class Log:
    """Writes `time level message key=value …`, or a JSON object; never fails.

    Args:
        stream: Where to; default: stderr as it is when a line is written.
        level: The least that is written: debug, info, warning or error.
        is_json: A JSON object for each line.
    """

    def __init__(
        self, stream: TextIO | None = None, *, level: str = "info", is_json: bool = False
    ) -> None:
        self._stream = stream
        self._levels = _LEVELS[_LEVELS.index(level) :]
        self._is_json = is_json

    def has(self, level: str) -> bool:
        """Whether lines of that level are written."""
        return level in self._levels

    def info(self, message: str, **fields: object) -> None:
        """Notes what happened."""
        self.write("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Notes what somebody should look at."""
        self.write("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Notes what went wrong."""
        self.write("error", message, fields)

    def write(self, level: str, message: str, fields: Mapping[str, object]) -> None:
        """Notes something of a level."""
        if not self.has(level):
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._is_json:
            head = {"time": now, "level": level, "message": message}
            line = json.dumps(head | dict(fields), default=str)
        else:
            words = "".join(f" {name}={_value(value)}" for name, value in fields.items())
            line = f"{now} {level:<7} {_one_line(message)}{words}"
        stream = self._stream or sys.stderr
        try:
            # One write, so that lines of two threads do not mix.
            print(f"{line}\n", end="", file=stream, flush=True)
        except (OSError, ValueError):
            # Nobody reads the log any more; the service goes on.
            return


def _one_line(message: str) -> str:
    return " | ".join(message.splitlines()) or message


def _value(value: object) -> str:
    text = str(value)
    is_plain = text and not any(mark.isspace() or mark in '"=' for mark in text)
    if is_plain and text.isprintable():
        return text
    shown = text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
    escaped = printable(shown.replace('"', '\\"'))
    return f'"{escaped}"'
