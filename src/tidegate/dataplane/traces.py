"""Sends the spans of a node to a collector, by OTLP over HTTP."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegate._native import Server
    from tidegate.dataplane.log import Log
    from tidegate.settings import Settings

_EVERY_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_TIMEOUT_SECONDS: Final = 3.0
_FLUSH_SECONDS: Final = 1.0
_BATCH: Final = 512
_MOST_ANSWER_BYTES: Final = 65_536


@contextmanager
def traces_to(settings: Settings, server: Server, log: Log) -> Iterator[None]:
    """Sends spans while the context lasts, and at its end, for at most 1 s, those that wait.

    Args:
        settings: Which collector, if any, what it is sent beside spans, and whom it is trusted by.
        server: Whose spans.
        log: Is told when the collector fails, and when it answers again.
    """
    if settings.otlp_endpoint is None:
        yield
        return
    sender = _Sender(settings.otlp_endpoint, settings, server, log)
    # A daemon: a collector that does not answer must not hold the process.
    thread = threading.Thread(target=sender.run, name="tidegate-traces", daemon=True)
    thread.start()
    try:
        yield
    finally:
        sender.stop()
        thread.join(_FLUSH_SECONDS)


def trust(authorities: str | None) -> ssl.SSLContext:
    """Whose certificates a collector may show.

    Args:
        authorities: A file (PEM); None: the system's.

    Raises:
        ConfigError: if the file cannot be used.
    """
    try:
        return ssl.create_default_context(cafile=authorities)
    except ssl.SSLError:
        raise ConfigError(f"no PEM certificate of an authority: {authorities}") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(f"cannot read: {reason}: {authorities}") from None


class _Sender:
    def __init__(self, endpoint: str, settings: Settings, server: Server, log: Log) -> None:
        self._endpoint = endpoint
        self._headers = {**dict(settings.otlp_headers or ()), "content-type": "application/json"}
        is_encrypted = endpoint.startswith("https:")
        self._trust = trust(settings.otlp_ca) if is_encrypted else None
        self._server = server
        self._log = log
        self._stopped = threading.Event()
        self._failure: str | None = None
        host = socket.gethostname()
        names = {
            "service.name": "tidegate",
            "service.instance.id": f"{host}/{server.http_address}",
            "host.name": host,
        }
        attributes = [{"key": key, "value": {"stringValue": name}} for key, name in names.items()]
        self._resource = json.dumps({"attributes": attributes})

    def run(self) -> None:
        """Sends what waits each second until the stop, then once more.

        A batch that fails is dropped and counted; the next one follows after a pause that grows.
        """
        pause = _EVERY_SECONDS
        while not self._stopped.wait(pause):
            is_sent = self._send_all(_TIMEOUT_SECONDS)
            pause = _EVERY_SECONDS if is_sent else min(2 * pause, _LONGEST_PAUSE_SECONDS)
        self._send_all(_FLUSH_SECONDS)

    def stop(self) -> None:
        """Lets `run` end."""
        self._stopped.set()

    def _send_all(self, timeout: float) -> bool:
        """Sends what waits now; false from the first batch on that fails."""
        # What comes meanwhile can wait a second, so that this ends under any load.
        until = time.monotonic() + timeout
        while spans := self._server.take_spans(_BATCH):
            failure = self._post(spans)
            self._tell(failure)
            if failure is not None:
                self._server.note_spans_dropped(len(spans))
                return False
            if time.monotonic() >= until:
                break
        return True

    def _post(self, spans: Sequence[str]) -> str | None:
        """Sends a batch; says why it was not taken."""
        scope = f'{{"scope": {{"name": "tidegate"}}, "spans": [{",".join(spans)}]}}'
        body = f'{{"resourceSpans": [{{"resource": {self._resource}, "scopeSpans": [{scope}]}}]}}'
        path = urlsplit(self._endpoint).path
        try:
            connection = self._connection()
            try:
                connection.request("POST", f"{path}/v1/traces", body.encode(), self._headers)
                answer = connection.getresponse()
                answer.read(_MOST_ANSWER_BYTES)
            finally:
                connection.close()
        except (OSError, HTTPException, ValueError) as error:
            return str(error) or type(error).__name__
        return None if answer.status // 100 == 2 else f"it answered {answer.status}"

    def _connection(self) -> HTTPConnection:
        url = urlsplit(self._endpoint)
        host = url.hostname or ""
        if self._trust is None:
            return HTTPConnection(host, url.port, timeout=_TIMEOUT_SECONDS)
        return HTTPSConnection(host, url.port, timeout=_TIMEOUT_SECONDS, context=self._trust)

    def _tell(self, failure: str | None) -> None:
        """Logs each change between answers and failures once."""
        before, self._failure = self._failure, failure
        if failure is not None and before is None:
            self._log.warning(
                "collector fails, spans are dropped", endpoint=self._endpoint, reason=failure
            )
        elif failure is None and before is not None:
            self._log.info("collector answers", endpoint=self._endpoint)
