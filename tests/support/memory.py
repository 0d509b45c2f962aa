"""A lastword in memory with the face of `RunningLastword`, so that tests of the real one run on it too."""

from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import httpx

from lastword.testing import InMemoryLastword
from lastword_producers.broker import KafkaSettings
from lastword_producers.log_identity import LogIdentity
from lastword_producers.publisher import CandidateClient, Publisher
from lastword_schemas.envelope import Envelope
from lastword_schemas.positions import Receipt
from lastword_schemas.registry import parse_registry_file
from tests.support.running import DECLARED, RunningLastword


class _Log:
    """A `LogWriter` over the writer in memory."""

    def __init__(self, lastword: InMemoryLastword) -> None:
        self._writer = lastword._writer
        self.log = self._writer.log

    def submit(self, envelope: Envelope, wait_s: float) -> Future[Receipt]:
        return self._writer.submit(envelope)

    def close(self, timeout_s: float) -> None:
        pass


class RunningInMemory(RunningLastword):
    """A context manager."""

    def __init__(self) -> None:
        self.registry = parse_registry_file(DECLARED)

    def __enter__(self) -> Self:
        self.memory = memory = InMemoryLastword(self.registry)
        self.log = memory.log.identity

        class Client:
            def _open(self, log: LogIdentity) -> None:
                self._opened = _Log(memory)

        class InMemoryPublisher(Client, Publisher):  # type: ignore[misc]
            pass

        class InMemoryCandidates(Client, CandidateClient):  # type: ignore[misc]
            pass

        nobody = KafkaSettings("127.0.0.1:1")
        self.publisher = InMemoryPublisher(nobody, self.log, service="tests")
        self.candidates = InMemoryCandidates(nobody, self.log, service="extractor")
        self.http = self.new_client()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()
        self.memory.close()

    def new_client(self) -> httpx.Client:
        return httpx.Client(transport=self.memory.transport, base_url=self.memory.url)

    def projected(self, receipts: Iterable[Receipt]) -> None:
        """All of it is."""
