"""Brings what happens on the native threads into the log."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegate import _native

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegate.dataplane.log import Log

_LAST_LINES_SECONDS = 1.0


@contextmanager
def journal_in(log: Log) -> Iterator[None]:
    """Logs the events of this process's native threads while the context lasts."""
    _native.open_journal(has_denials=log.has("debug"))
    # A daemon: a log that nobody drains must not hold the process.
    writer = threading.Thread(target=_write, args=(log,), name="tidegate-log", daemon=True)
    writer.start()
    try:
        yield
    finally:
        _native.close_journal()
        writer.join(_LAST_LINES_SECONDS)


def _write(log: Log) -> None:
    while event := _native.next_event():
        level, message, fields = event
        log.write(level, message, dict(fields))
