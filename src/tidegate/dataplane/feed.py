"""Watches a policy file and hands out what it becomes: a new snapshot, or why there is none.

It polls, since a Kubernetes ConfigMap changes by the swap of a symlink above the file, editors
rename over it, and network file systems tell nobody. A change is taken once the file has kept still
for a poll, so that a half-written file is not.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.compiler import Snapshot, compile_policy, year_of
from tidegate.errors import TidegateError
from tidegate.policy.problems import Problem
from tidegate.policy.yaml_text import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegate.policy.document import Document

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The file is valid: what to run from now on, and its warnings."""

    snapshot: Snapshot
    document: Document
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The file cannot be used, or is gone: keep what runs, and say why."""

    problems: tuple[Problem, ...]


FeedEvent = Loaded | Failed


@dataclass(frozen=True, slots=True)
class _Signature:
    """What changes when the file does; `reason` says why there is none."""

    target: str
    numbers: tuple[int, ...] = ()
    reason: str = ""


class PolicyFeed:
    """Watches one policy file.

    Args:
        path: The file, or a symlink to it.
        poll_seconds: Time between two looks. A change is taken at the second look that finds the
            file as the look before did, so in at most three times this.
        monotonic: The clock of `next_change`.
        sleep: How `next_change` waits between looks.
        wall: Seconds since 1970. Where a policy has quotas, each year brings it again, so that the
            calendars in its snapshot stay years ahead of a node that runs for long.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        poll_seconds: float = 0.1,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self._poll_seconds = poll_seconds
        self._monotonic = monotonic
        self._sleep = sleep
        self._wall = wall
        self._stale_at_s: int | None = None
        self._is_stopped = False
        self._last_seen: _Signature | None = None
        self._taken: _Signature | None = None
        self._told: str | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopped

    def stop(self) -> None:
        """Lets `next_change` return within one poll; safe in a signal handler."""
        self._is_stopped = True

    def next_change(self, timeout: float | None = None) -> FeedEvent | None:
        """Waits for the next event; the first is what the file is now.

        Args:
            timeout: Seconds; `None` waits for ever.

        Returns:
            `None` after the timeout or a stop.
        """
        deadline = None if timeout is None else self._monotonic() + timeout
        while not self._is_stopped:
            event = self.poll()
            if event is not None:
                return event
            left = self._poll_seconds if deadline is None else deadline - self._monotonic()
            if left <= 0:
                return None
            self._sleep(min(left, self._poll_seconds))
        return None

    def poll(self) -> FeedEvent | None:
        """Looks once, without waiting."""
        seen = self._look()
        if self._stale_at_s is not None and self._wall() >= self._stale_at_s:
            self._stale_at_s = self._taken = self._told = None
        is_first, is_still = self._last_seen is None, seen == self._last_seen
        self._last_seen = seen
        if is_first and not seen.reason:
            # At the start there is nothing to keep, so nothing to wait for. It is not marked as
            # taken: a write within the same tick of the file system's clock must still be seen.
            return self._take(seen)
        if seen == self._taken or not (is_first or is_still):
            return None
        self._taken = seen
        return self._take(seen)

    def _look(self) -> _Signature:
        target = ""
        try:
            target = os.path.realpath(self.path)
            found = os.stat(target)  # noqa: PTH116
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            return _Signature(target, reason=(reason or str(error)).lower())
        if not stat.S_ISREG(found.st_mode):
            return _Signature(target, reason="not a regular file")
        numbers = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        return _Signature(target, numbers)

    def _take(self, seen: _Signature) -> FeedEvent | None:
        if seen.reason:
            return self._unreadable(seen.reason)
        data, reason = b"", ""
        try:
            with open(seen.target, "rb") as file:  # noqa: PTH123  resolved, so that a swap is seen
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
        if self._look() != seen:
            self._taken = None
            return None
        if reason:
            self._taken = None
            return self._unreadable(reason)
        content = hashlib.sha256(data).hexdigest()
        if content == self._told:
            return None
        self._told = content
        event = self._compiled(data)
        # Where the file cannot be used, the calendars that run are made anew once it can.
        self._stale_at_s = event.snapshot.stale_at_s if isinstance(event, Loaded) else None
        return event

    def _unreadable(self, reason: str) -> Failed | None:
        if reason == self._told:
            return None
        self._told = reason
        return self._failed(f"the policy cannot be read: {reason}", "put the file back")

    def _compiled(self, data: bytes) -> FeedEvent:
        try:
            compiled = compile_policy(data, str(self.path), year=year_of(self._wall()))
        except TidegateError as error:
            return self._failed(str(error))
        except Exception:
            # A bug of ours must not take down a node that runs on its last good snapshot.
            log.exception("policy %s: unexpected error", self.path)
            return self._failed("the policy could not be compiled: a bug of Tidegate, see the log")
        if compiled.snapshot is None or compiled.document is None:
            return Failed(compiled.problems)
        return Loaded(compiled.snapshot, compiled.document, compiled.problems)

    def _failed(self, message: str, hint: str = "") -> Failed:
        return Failed((Problem(str(self.path), 0, 0, "", message, hint),))
