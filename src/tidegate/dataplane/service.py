"""The life of a data plane: start with a good policy, follow the file, drain when told to."""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate import _native
from tidegate.dataplane.feed import Failed, Loaded, PolicyFeed
from tidegate.dataplane.files import connections_that_fit
from tidegate.dataplane.journal import journal_in
from tidegate.dataplane.log import Log
from tidegate.dataplane.state import keep, tell_taken
from tidegate.dataplane.traces import traces_to
from tidegate.errors import ConfigError, TidegateError
from tidegate.settings.forward_auth import read_doors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import FrameType

    from tidegate.policy.document import Document
    from tidegate.policy.problems import Problem
    from tidegate.settings import Settings

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_SECONDS = 1.0
_TICK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Started:
    """A service whose doors are open."""

    http: str
    grpc: str
    revision: str
    document: Document


class Service:
    """One data plane over one policy file.

    Args:
        path: The policy file.
        settings: How to serve.
        log: Where events are noted.
    """

    def __init__(self, path: Path, settings: Settings, log: Log | None = None) -> None:
        self._path = path
        self._settings = settings
        self._log = log or Log(level=settings.log_level, is_json=settings.log_format == "json")
        self._feed = PolicyFeed(path)
        self._store_error: str | None = None
        self._tls_error: str | None = None
        self._tls_loads = 1

    def run(self, announce: Callable[[Started], None]) -> int:
        """Serves until a signal says to stop; a second one ends the process at once.

        Args:
            announce: Called once the doors are open.

        Returns:
            0 after a drain, 2 if the policy cannot be used.

        Raises:
            ConfigError: if a setting cannot be used or an address cannot be listened on.
        """
        if not self._path.exists():
            raise ConfigError(f"cannot read {self._path}: no such file")
        first = self._feed.poll()
        if not isinstance(first, Loaded):
            return self._refuse(first)
        for problem in first.problems:
            self._log.warning(str(problem))
        # The handlers stand before the doors open, so that no signal finds the default action.
        for number in _STOPS:
            signal.signal(number, self._stop)
        server = self._start(first)
        addresses = (server.http_address, server.grpc_address)
        if self._settings.state_file is not None:
            tell_taken(self._settings.state_file, server, self._log)
        announce(Started(*addresses, first.snapshot.revision, first.document))
        with journal_in(self._log), traces_to(self._settings, server, self._log):
            self._serve(server)
        if self._settings.state_file is not None:
            keep(self._settings.state_file, server, self._log)
        self._log.info("stopped")
        return 0

    def _refuse(self, event: Failed | None) -> int:
        problems: Sequence[Problem] = event.problems if event else ()
        for problem in problems:
            print(problem, file=sys.stderr)
        count = sum(problem.is_error for problem in problems)
        print(
            f"tidegate: error: {self._path} cannot be used ({count} to fix);"
            f" not started. Check it with: tidegate validate {self._path}",
            file=sys.stderr,
        )
        return 2

    def _start(self, first: Loaded) -> _native.Server:
        settings = self._settings
        options = _native.ServiceOptions(
            http=settings.http,
            grpc=settings.grpc,
            workers=settings.workers,
            max_counters=settings.max_counters,
            store=settings.store,
            prefix=f"{settings.prefix}:",
            deadline_us=settings.store_timeout_us,
            wait_replicas=settings.store_wait_replicas,
            store_batch=settings.store_batch,
            headers=settings.headers,
            max_connections=self._connections(),
            max_connections_per_peer=settings.max_connections_per_peer,
            drain_notice_us=settings.drain_notice_us,
            denials_kept=settings.denials_kept,
            metrics=settings.metrics == "on",
            traces=settings.otlp_endpoint is not None,
            tls_cert=settings.tls_cert,
            tls_key=settings.tls_key,
            tls_client_ca=settings.tls_client_ca,
            tls_client_uris=list(settings.tls_client_uris or ()),
        )
        return _native.Server.start(
            first.snapshot.data,
            options,
            admin_token=settings.admin_token,
            door_token=settings.door_token,
            forward_auth=read_doors(settings.forward_auth) if settings.forward_auth else None,
            state_file=settings.state_file,
        )

    def _connections(self) -> int:
        wanted = self._settings.max_connections
        fits = connections_that_fit(wanted, self._settings.workers)
        if fits < wanted:
            self._log.warning(
                "fewer connections fit, the system allows too few open files; raise `ulimit -n`",
                connections=fits,
                max_connections=wanted,
            )
        return fits

    def _serve(self, server: _native.Server) -> None:
        try:
            while not self._feed.is_stopped:
                event = self._feed.next_change(timeout=_LOOK_SECONDS)
                if event is not None:
                    self._take(server, event)
                self._look_at_store(server)
                self._look_at_certificates(server)
        finally:
            self._drain(server)

    def _take(self, server: _native.Server, event: Loaded | Failed) -> None:
        if isinstance(event, Failed):
            self._keep(server, event.problems)
            return
        try:
            revision = server.load(event.snapshot.data)
        except TidegateError as error:
            self._log.error("policy refused, the old one stays", reason=error)
            return
        for problem in event.problems:
            self._log.warning(str(problem))
        self._log.info("policy loaded", revision=revision, file=self._path)

    def _keep(self, server: _native.Server, problems: Sequence[Problem]) -> None:
        errors = [str(problem) for problem in problems if problem.is_error]
        server.note_reload_failure("; ".join(errors))
        for error in errors:
            self._log.error(error)
        self._log.error(
            "policy refused, the old one stays", revision=server.revision, problems=len(errors)
        )

    def _look_at_store(self, server: _native.Server) -> None:
        error = server.store_error
        if error == self._store_error:
            return
        self._store_error = error
        store = self._settings.store_name
        if error is None:
            self._log.info("store answers", store=store)
            for warning in server.store_warnings:
                self._log.warning(warning, store=store)
        else:
            self._log.error("store away, on_store_failure decides", store=store, reason=error)

    def _look_at_certificates(self, server: _native.Server) -> None:
        error, loads = server.tls_error, server.tls_loads
        if error != self._tls_error and error is not None:
            self._log.error("certificates refused, the old ones stay", reason=error)
        elif loads > self._tls_loads:
            self._log.info("certificates loaded", file=self._settings.tls_cert)
        self._tls_error, self._tls_loads = error, loads

    def _stop(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._feed.is_stopped:
            os._exit(128 + number)
        self._feed.stop()

    def _drain(self, server: _native.Server) -> None:
        self._feed.stop()
        self._log.info("draining")
        # In a thread of its own, since a signal reaches Python only between two steps of the main
        # one; a daemon, so that it holds no exit.
        drain = threading.Thread(target=server.drain, name="tidegate-drain", daemon=True)
        drain.start()
        while drain.is_alive():
            drain.join(_TICK_SECONDS)
