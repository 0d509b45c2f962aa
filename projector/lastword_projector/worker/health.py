"""`GET /healthz` of a worker or an auditor, on a small server of its own."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol


class Status(Protocol):
    """How a part is."""

    @property
    def healthy(self) -> bool:
        """Whether all is well."""
        ...

    def report(self) -> dict[str, Any]:
        """More about it, as JSON."""
        ...


class HealthServer:
    """Answers `/healthz` with the status as JSON: 200 if all is well, 503 if not. A context manager.

    With `metrics` it answers `/metrics` too, in the text format of Prometheus.
    """

    def __init__(self, status: Status, host: str, port: int, *, metrics: Callable[[], str] | None = None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/healthz":
                    self._answer(200 if status.healthy else 503, "application/json", json.dumps(status.report()))
                elif self.path == "/metrics" and metrics is not None:
                    self._answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics())
                else:
                    self.send_error(404)

            def _answer(self, code: int, kind: str, text: str) -> None:
                body = text.encode()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing: a probe every few seconds is no news."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_port

    def __enter__(self) -> "HealthServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
