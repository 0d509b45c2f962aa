"""Extraction on the hot path: read a turn now, publish what was found, and wait for the verdicts."""

from dataclasses import dataclass

from lastword import AsyncClient, Result
from lastword.extraction.candidates import event_of
from lastword.extraction.protocol import Candidate, Extractor, Message, NotProposed


@dataclass(frozen=True, slots=True)
class Extracted:
    """What became of a turn."""

    published: tuple[tuple[Candidate, Result], ...]
    """The candidates, each with its receipt and verdict, or why it does not count."""
    refused: tuple[NotProposed, ...]
    """What was not proposed, and why."""

    @property
    def applied(self) -> tuple[Candidate, ...]:
        """The candidates that count."""
        return tuple(candidate for candidate, result in self.published if result.outcome == "applied")


async def extract_now(client: AsyncClient, extractor: Extractor, message: Message) -> Extracted:
    """Read a turn that is in the log, publish its candidates in one request and wait for the verdicts.

    An extractor of the same name in the background makes the same events of it, so both may read it. What the client
    then reads is at least as new. Raises what the extractor raises; nothing about single candidates is raised.
    """
    found = await extractor.extract(message)
    events = [event_of(candidate, message, extractor.name) for candidate in found.candidates]
    results = await client.publish_many(events, applied=True) if events else []
    return Extracted(tuple(zip(found.candidates, results, strict=True)), found.refused)
