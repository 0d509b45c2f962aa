"""`python -m tests.support.slow_extractor`: an extractor in the background that is slow and often fails.

It finds two candidates in every turn whose text is a number. Settings as of `lastword extractor`.
"""

import asyncio
import random
import warnings

from lastword.extraction import Candidate, Extraction, ExtractorUnavailable, Message
from lastword.logs import set_up_logging
from lastword.settings import ExtractorSettings
from lastword_schemas.authority import Authority
from lastword_schemas.registry import Registry

LONGEST_S = 0.15
KEYS = ("any", "guess")
NAME = "slow-1"


class SlowExtractor:
    """Takes its time, is not there now and then, and breaks on many a turn when it first sees it."""

    name = NAME

    def __init__(self, registry: Registry) -> None:
        self._broke_on: set[str] = set()

    async def extract(self, message: Message) -> Extraction:
        """See `Extractor`."""
        await asyncio.sleep(random.random() * LONGEST_S)
        if random.random() < 0.05:
            raise ExtractorUnavailable
        if random.random() < 0.05 and message.source not in self._broke_on:
            self._broke_on.add(message.source)
            raise RuntimeError(message.text)
        if not message.text.isdigit():
            return Extraction()
        span = (0, len(message.text))
        found = [Candidate(key, int(message.text), span, message.text, Authority.STATED, 1.0) for key in KEYS]
        return Extraction(tuple(found))


if __name__ == "__main__":
    from lastword.extraction.running import run_extractor

    warnings.simplefilter("ignore")
    set_up_logging("INFO")
    run_extractor(ExtractorSettings(), make=SlowExtractor)
