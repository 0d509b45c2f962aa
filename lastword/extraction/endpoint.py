"""An extractor that asks a model, behind any endpoint that speaks OpenAI's chat completions with structured output.

The model is not believed: its keys must be declared or in a namespace, its quotes must stand in the message, and what
it claims is at most what the rules of authority allow. What a message tells the model to do can change nothing else.
"""

import asyncio
from typing import Any, Final, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lastword.extraction.admission import Admission
from lastword.extraction.budget import Budget
from lastword.extraction.prompt import instructions, schema_of
from lastword.extraction.protocol import (
    Candidate,
    Extraction,
    ExtractionFailed,
    ExtractorUnavailable,
    Message,
    NotProposed,
    Why,
)
from lastword_schemas import jsontext
from lastword_schemas.authority import Authority
from lastword_schemas.errors import InvalidInput
from lastword_schemas.registry import Registry

_MOST_FINDINGS: Final = 32
_MOST_BYTES: Final = 1_048_576
_PAUSE_S: Final = 0.2


class Finding(BaseModel):
    """What the model says that it read: the answer's form."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: Literal[
        "durable", "one-off", "quoted", "hypothetical", "negated", "other-person", "question", "past", "not-yet"
    ]
    quote: str = Field(min_length=1)
    key: str
    operation: Literal["set", "delete"]
    value: str
    """The value as JSON text; `null` on a delete."""
    project: str | None
    explicit: bool
    """Whether the quote says it in so many words."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    findings: list[Finding] = Field(max_length=_MOST_FINDINGS)


class _Useless(ExtractionFailed):
    """The model's answer has not the form that was asked for."""


class Endpoint:
    """Where a model is, and how much may be asked of it. To be shared by extractors."""

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str = "",
        *,
        timeout_s: float = 30,
        retries: int = 2,
        hourly_tokens: int = 1_000_000,
    ) -> None:
        """`url` is what `/chat/completions` follows; `timeout_s` limits each answer as a whole; `retries` are further
        attempts where an answer is late or of no use."""
        if not model:
            raise InvalidInput("the model has no name: set LASTWORD_EXTRACTOR_MODEL", field="extractor_model")
        self.model = model
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_s, self._retries, self._budget = timeout_s, retries, Budget(hourly_tokens)

    async def ask(self, system: str, message: str, schema: dict[str, Any]) -> list[Finding]:
        """The model's findings in a message. Raises ExtractorUnavailable, BudgetSpent or ExtractionFailed."""
        question = {
            "model": self.model,
            "temperature": 0,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": message}],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "findings", "strict": True, "schema": schema},
            },
        }
        for attempt in range(self._retries + 1):
            self._budget.check()
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await self._answer(question)
            except (ExtractionFailed, httpx.HTTPError, TimeoutError) as error:
                if attempt == self._retries or type(error) is ExtractionFailed:
                    raise _failure(error) from None  # what the endpoint said may be the message itself
            await asyncio.sleep(_PAUSE_S * 2**attempt)
        raise AssertionError

    async def _answer(self, question: dict[str, Any]) -> list[Finding]:
        async with (
            httpx.AsyncClient(timeout=self._timeout_s, headers=self._headers) as http,
            http.stream("POST", self._url, json=question) as response,
        ):
            if response.status_code != 200:
                raise _status_problem(response.status_code)
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > _MOST_BYTES:
                    raise _Useless(f"the answer has more than {_MOST_BYTES} bytes")
        try:
            answer = jsontext.parse(bytes(body))
            self._budget.use(int((answer.get("usage") or {}).get("total_tokens") or len(body) // 4))
            return _Answer.model_validate_json(answer["choices"][0]["message"]["content"]).findings
        except (InvalidInput, ValidationError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise _Useless(f"the answer has not the form that was asked for ({type(error).__name__})") from None


class EndpointExtractor:
    """Reads messages by a model. The same message need not give the same candidates twice."""

    def __init__(self, registry: Registry, endpoint: Endpoint, *, namespaces: tuple[str, ...] = ()) -> None:
        """`namespaces` are first parts of keys in which undeclared keys may be proposed."""
        self.name = f"endpoint-1:{endpoint.model}"[:128]
        self._endpoint, self._admission = endpoint, Admission(registry, namespaces)
        self._system, self._schema = instructions(registry, namespaces), schema_of(Finding, _MOST_FINDINGS)

    async def extract(self, message: Message) -> Extraction:
        """See `Extractor`."""
        findings = await self._endpoint.ask(self._system, message.text, self._schema)
        candidates: list[Candidate] = []
        refused: list[NotProposed] = []
        for finding in findings:
            read = _read(message, finding)
            (candidates if isinstance(read, Candidate) else refused).append(read)  # type: ignore[arg-type]
        return self._admission.admit(message, Extraction(tuple(candidates), tuple(refused)))


def _read(message: Message, finding: Finding) -> Candidate | NotProposed:
    at = message.text.find(finding.quote)
    span = (at, at + len(finding.quote)) if at >= 0 else (0, len(message.text))
    if finding.kind != "durable":
        return NotProposed(Why(finding.kind), span)
    if at < 0:
        return NotProposed(Why.UNTRACEABLE, span)
    try:
        value = None if finding.operation == "delete" else jsontext.parse(finding.value)
    except InvalidInput:
        return NotProposed(Why.NO_VALUE, span)
    scope = f"project:{finding.project}" if finding.project else message.scope
    authority = Authority.STATED if finding.explicit else Authority.INFERRED
    return Candidate(finding.key, value, span, finding.quote, authority, 0.7, scope, finding.operation)


def _status_problem(status: int) -> ExtractionFailed:
    if status in (408, 409, 429) or status >= 500:
        return ExtractorUnavailable(f"the endpoint answers {status}")
    return ExtractionFailed(f"the endpoint answers {status}: check its address, the model's name and the API key")


def _failure(error: Exception) -> ExtractionFailed:
    if isinstance(error, ExtractionFailed):
        return error
    return ExtractorUnavailable(
        f"no answer from the endpoint ({type(error).__name__}). Is it up, and its address right?"
    )
