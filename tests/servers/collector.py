"""A stand-in for a collector of OpenTelemetry: takes OTLP over HTTP, keeps what comes as JSON."""

import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self


@dataclass
class Collector:
    """One on a free loopback port. Use it as a context manager.

    Args:
        status: What it answers; it keeps nothing but where that is 200.
        tls: Its certificate and key, if it speaks HTTPS.
    """

    status: int = 200
    tls: tuple[Path, Path] | None = None
    headers: list[dict[str, str]] = field(default_factory=list, init=False)
    batches: list[dict[str, Any]] = field(default_factory=list, init=False)
    paths: set[str] = field(default_factory=set, init=False)
    _server: ThreadingHTTPServer = field(init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.headers.append({name.lower(): it for name, it in self.headers.items()})
                collector.take(self.path, self.headers["content-type"], body)
                self.send_response(collector.status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*self.tls)
            listening = self._server.socket
            # By whoever serves the connection: a peer that hangs must not hold the others.
            self._server.socket = context.wrap_socket(
                listening, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def take(self, path: str, media_type: str, body: bytes) -> None:
        """Keeps a batch that is JSON; Envoy sends protobuf, which is not for us to read."""
        if self.status == 200 and media_type == "application/json":
            self.batches.append(json.loads(body))
            self.paths.add(path)

    def spans(self) -> list[dict[str, Any]]:
        """All spans that were taken."""
        resources = (of for batch in self.batches for of in batch["resourceSpans"])
        return [span for of in resources for part in of["scopeSpans"] for span in part["spans"]]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a span or a resource by their names."""
    return {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}
