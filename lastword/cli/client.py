"""The command line's way to the HTTP API."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from lastword.settings import DEFAULT_API_PORT, ClientSettings
from lastword_schemas import jsontext
from lastword_schemas.errors import InvalidInput, LastwordError

_TIMEOUT_S = 45.0
"""More than the longest wait that can be asked for."""


class ApiUnreachable(LastwordError):
    """Nothing answers where the API should be."""

    code = "api-unreachable"
    retryable = True


class ApiProblem(LastwordError):
    """The API answered with a problem document. `problem` is that document."""

    code = "api-problem"

    def __init__(self, problem: Mapping[str, Any], status: int, retry_after_s: float = 0.0) -> None:
        detail = problem.get("detail") or (
            f"what answers is not lastword's API, by its HTTP status {status}: LASTWORD_URL says where that is"
        )
        super().__init__(str(detail), field=problem.get("field"))
        self.problem = problem
        self.retry_after_s = retry_after_s
        """Seconds that the API asks to wait before it is tried again."""


class NotReady(LastwordError):
    """The API answers, and cannot read or write yet."""

    code = "not-ready"
    retryable = True


class StreamEnded(LastwordError):
    """The API ended a stream of changes."""

    code = "stream-ended"
    retryable = True


class Api:
    """Calls of the API; each returns the answer's JSON text. Raises ApiUnreachable and ApiProblem."""

    def __init__(self, url: str, http: httpx.Client) -> None:
        self.url, self._http = url, http

    def get(self, path: str, **parameters: Any) -> str:
        """GET with those parameters that are not None."""
        return self._call("GET", path, params=_given(parameters))

    def post(self, path: str, body: Any, **parameters: Any) -> str:
        """POST a JSON document."""
        content = jsontext.dump(body).encode()
        return self._call("POST", path, content=content, params=_given(parameters))

    def log_id(self) -> str:
        """The log that it reads and writes. Raises NotReady too."""
        try:
            state = jsontext.parse(self.get("/readyz"))
        except ApiProblem as error:
            state = error.problem
        if (log_id := state.get("log_id")) is None:
            raise NotReady(f"lastword is not ready: {'; '.join(state.get('problems', {}).values())}. Try it later")
        return str(log_id)

    def events(self, path: str, **parameters: Any) -> Iterator[tuple[str, str]]:
        """The server-sent events of a stream as they come, until it ends: kind and data of each."""
        with self._reached(), self._http.stream("GET", path, params=_given(parameters)) as response:
            if not response.is_success:
                response.read()
                raise ApiProblem(_problem(response), response.status_code, _retry_after_s(response))
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                elif fields:
                    if "data" in fields:
                        yield fields.get("event", "message"), fields["data"]
                    fields = {}

    def _call(self, method: str, path: str, **request: Any) -> str:
        with self._reached():
            response = self._http.request(method, path, headers={"Content-Type": "application/json"}, **request)
        # A batch with refused items is an answer too: its items say what became of each.
        if response.is_success or _has_results(response):
            return response.text
        raise ApiProblem(_problem(response), response.status_code, _retry_after_s(response))

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """In the block, what goes wrong on the way to the API says so."""
        try:
            yield
        except httpx.UnsupportedProtocol as error:
            raise _no_url(self.url) from error
        except httpx.TimeoutException as error:
            raise ApiUnreachable(
                f"lastword at {self.url} did not answer within {_TIMEOUT_S:.0f} s; look at its log"
            ) from error
        except httpx.TransportError as error:
            raise ApiUnreachable(
                f"no lastword answers at {self.url} ({error}). Start one on this machine with `lastword up` or "
                "`make demo`, or say in LASTWORD_URL where it is"
            ) from error


@contextmanager
def connect() -> Iterator[Api]:
    """The API that the settings name."""
    url = ClientSettings().url.rstrip("/")
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL as error:
        raise _no_url(url) from error
    is_local = host in ("127.0.0.1", "localhost", "::1")  # never through a proxy
    with httpx.Client(base_url=url, timeout=_TIMEOUT_S, trust_env=not is_local) as http:
        yield Api(url, http)


def _no_url(url: str) -> InvalidInput:
    return InvalidInput(f"LASTWORD_URL is {url!r}, which is no URL such as http://127.0.0.1:{DEFAULT_API_PORT}")


def _given(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if value is not None}


def _problem(response: httpx.Response) -> dict[str, Any]:
    """The problem document; something like it where another server answered."""
    data = _json(response)
    return data if isinstance(data, dict) else {}


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _has_results(response: httpx.Response) -> bool:
    data = _json(response)
    return isinstance(data, dict) and "results" in data


def _json(response: httpx.Response) -> Any:
    try:
        return jsontext.parse(response.content)
    except InvalidInput:
        return None
