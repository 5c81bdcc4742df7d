"""A running service, asked over HTTP by the command line."""

from __future__ import annotations

import http.client
import json
import ssl
from urllib.parse import urlsplit

from tidegate.errors import ConfigError, InternalError, StoreError

_TIMEOUT_SECONDS = 5.0
_LONGEST_ANSWER = 1 << 22
_HINT = (
    "start one with `tidegate dev FILE`, name it with --server URL,"
    " or ask a file with --policy FILE"
)


class ServiceClient:
    """Keeps one connection to a service.

    Args:
        url: Such as `http://127.0.0.1:8080`.
        token: Shown to the service as the bearer's.
        hint: What to do where nobody listens.

    Raises:
        ConfigError: if that is no such URL.
    """

    def __init__(self, url: str, token: str | None = None, *, hint: str = _HINT) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            raise ConfigError(f'"{url}" has no usable port', path="--server") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            example = "such as http://127.0.0.1:8080"
            raise ConfigError(f'"{url}" is no service', path="--server", hint=example)
        self._hint = hint
        self._url = f"{parts.scheme}://{parts.netloc}"
        self._path = parts.path.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            self._connection = http.client.HTTPSConnection(
                parts.hostname, port, timeout=_TIMEOUT_SECONDS, context=ssl.create_default_context()
            )
        else:
            self._connection = http.client.HTTPConnection(
                parts.hostname, port or 8080, timeout=_TIMEOUT_SECONDS
            )

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        """Sends a question and gives the answer's document.

        Raises:
            ConfigError: if nobody listens there, or the question was refused.
            StoreError: if the service cannot answer now.
            InternalError: if what answered is no service of ours.
        """
        status, document = self._exchange("POST", path, json.dumps(body).encode())
        return self._read(status, document)

    def get(self, path: str) -> dict[str, object] | str:
        """Fetches a document, or says why there is none of that name.

        Raises:
            ConfigError: if nobody listens there, or the question was refused.
            StoreError: if the service cannot answer now.
            InternalError: if what answered is no service of ours.
        """
        status, document = self._exchange("GET", path, None)
        if status == 404:
            return str(document.get("detail"))
        return self._read(status, document)

    def _read(self, status: int, document: dict[str, object]) -> dict[str, object]:
        detail = document.get("detail") or document.get("title") or "no reason given"
        if status == 200:
            return document
        if status in {500, 503}:
            raise StoreError(f"{self._url} cannot answer now: {detail}", retry=True)
        raise ConfigError(f"{self._url} refused the question: {detail}")

    def _exchange(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[int, dict[str, object]]:
        headers = {"content-type": "application/json", **self._headers}
        try:
            self._connection.request(method, self._path + path, body, headers)
            answer = self._connection.getresponse()
            status, data = answer.status, answer.read(_LONGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ConfigError(
                f"no service at {self._url} ({reason.lower()})", hint=self._hint
            ) from None
        try:
            document = json.loads(data)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise InternalError(f"{self._url} answered {status} with something else than JSON")
        return status, document
