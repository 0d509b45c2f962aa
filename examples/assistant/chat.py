"""The chat service: it writes down what people say and what they set, and hands every turn to the extractor."""

import asyncio
from typing import NamedTuple

from lastword import AsyncClient, Receipt


class Turn(NamedTuple):
    """What the extractor gets to read."""

    person: str
    receipt: Receipt
    """Where the log has the turn: what a suggestion cites."""
    text: str


class Chat:
    """Takes part in conversations."""

    def __init__(self, client: AsyncClient, turns: "asyncio.Queue[Turn]") -> None:
        self._client, self._turns = client, turns

    async def hears(self, person: str, text: str) -> None:
        """Somebody says something. The extractor reads it when it comes to it; nobody waits for that."""
        receipt = await self._client.user(person).say(thread="t1", text=text)
        self._turns.put_nowait(Turn(person, receipt, text))

    async def sets(self, person: str, key: str, value: str) -> str:
        """Somebody chooses a value on the screen of settings. The receipt is the position that a reader must be at."""
        return str(await self._client.user(person).set(key, value))

    async def deletes(self, person: str, key: str) -> str:
        """Somebody takes a value back; the position as of `sets`."""
        return str(await self._client.user(person).delete(key))
