"""The log of a data plane: one line for each event, for people and for machines, on stderr."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TextIO

from tidegate.policy.problems import quoted


class Log:
    """Writes `time level message key=value …`; never fails.

    Args:
        stream: Where to; default: stderr as it is when a line is written.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def info(self, message: str, **fields: object) -> None:
        """Notes what happened."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: object) -> None:
        """Notes what somebody should look at."""
        self._write("warning", message, fields)

    def error(self, message: str, **fields: object) -> None:
        """Notes what went wrong."""
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = "".join(f" {name}={_value(value)}" for name, value in fields.items())
        stream = self._stream or sys.stderr
        try:
            print(f"{now} {level:<7} {message}{told}", file=stream, flush=True)
        except (OSError, ValueError):
            # Nobody reads the log any more; the service goes on.
            return


def _value(value: object) -> str:
    text = str(value)
    is_plain = text and not any(mark.isspace() or mark in '"=' for mark in text)
    return text if is_plain and text.isprintable() else quoted(text)
