"""A server that speaks OpenAI's chat completions as far as an extractor uses them, well or badly as it is told."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

FINDING = {
    "kind": "durable",
    "quote": "I live in Lisbon",
    "key": "home.city",
    "operation": "set",
    "value": '"Lisbon"',
    "project": None,
    "explicit": True,
}


def finding(**changed: Any) -> dict[str, Any]:
    """A finding in "I live in Lisbon.", or another one."""
    return FINDING | changed


class ModelServer:
    """Answers each request with the next of `answers`; with the last one for ever.

    An answer is findings, a status (int), the bytes of a body, or seconds to wait before the findings (float, list).
    """

    def __init__(self, *answers: Any) -> None:
        self.requests: list[dict[str, Any]] = []
        self.authorizations: list[str | None] = []
        waiting = list(answers)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body | {"path": self.path})
                outer.authorizations.append(self.headers["Authorization"])
                answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                status, content = outer.made(answer)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True  # it waited no longer

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def made(self, answer: Any) -> tuple[int, bytes]:
        """Status and body of an answer."""
        if isinstance(answer, int):
            return answer, b'{"error": "I live in Lisbon"}'
        if isinstance(answer, bytes):
            return 200, answer
        if isinstance(answer, tuple):
            time.sleep(answer[0])
            answer = answer[1]
        content = json.dumps({"findings": answer})
        message = {"choices": [{"message": {"content": content}}], "usage": {"total_tokens": 100}}
        return 200, json.dumps(message).encode()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
