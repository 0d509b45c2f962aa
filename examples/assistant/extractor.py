"""The extractor: it reads turns in the background and suggests what they mean, as late as its model makes it."""

import asyncio
import itertools

from examples.assistant.chat import Turn
from lastword import AsyncClient

WORDS = {
    "morning flights": ("travel.flight_time", "morning"),
    "evening flights": ("travel.flight_time", "evening"),
    "aisle": ("travel.seat", "aisle"),
    "window": ("travel.seat", "window"),
    "brief mails": ("mail.tone", "brief"),
}
"""What it understands; a real one asks a model."""


class Extractor:
    """Reads many turns at once, so it is done with them in any order. That does not matter: a suggestion counts from
    the turn that it cites, not from when it comes."""

    def __init__(self, client: AsyncClient, turns: "asyncio.Queue[Turn]") -> None:
        self._client, self._turns = client, turns

    async def run(self) -> None:
        """Read turns until cancelled."""
        async with asyncio.TaskGroup() as reading:
            for number in itertools.count():
                turn = await self._turns.get()
                reading.create_task(self._read(turn, thinks_s=1.5 / 2**number))

    async def _read(self, turn: Turn, thinks_s: float) -> None:
        await asyncio.sleep(thinks_s)  # the model: it takes longest for what was said first
        memory = self._client.user(turn.person)
        for words, (key, value) in WORDS.items():
            if (at := turn.text.find(words)) >= 0:
                await memory.suggest(key, value, source=turn.receipt, quote=words, at=at)
        self._turns.task_done()
