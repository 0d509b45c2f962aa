"""python -m examples.assistant: one conversation, with an extractor that is always too late.

LASTWORD_URL says where lastword is; without it, it is where `make demo` puts it.
"""

import asyncio
import contextlib
import uuid

from examples.assistant.chat import Chat, Turn
from examples.assistant.extractor import Extractor
from examples.assistant.mail import Mail
from lastword import AsyncClient


async def main() -> None:
    """Ada changes her mind while the extractor is still busy with what she said before."""
    ada = f"ada-{uuid.uuid4().hex[:8]}"
    turns: asyncio.Queue[Turn] = asyncio.Queue()
    async with (
        AsyncClient(service="chat") as at_chat,
        AsyncClient(service="extractor") as at_extractor,
        AsyncClient(service="mail") as at_mail,
    ):
        chat, mail = Chat(at_chat, turns), Mail(at_mail)
        extractor = asyncio.create_task(Extractor(at_extractor, turns).run())

        await chat.hears(ada, "I like morning flights and an aisle seat.")
        await chat.hears(ada, "Please write brief mails.")
        await chat.hears(ada, "No, evening flights are better.")
        await chat.sets(ada, "mail.tone", "formal")
        position = await chat.deletes(ada, "travel.seat")
        print("at once:     ", await mail.write(ada, position))

        await turns.join()  # what was read of the first turn came last
        print("later:       ", await mail.write(ada, position))

        extractor.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await extractor
        for event in await at_chat.user(ada).events():
            made = event.effect or event.reason
            print(f"  {event.position.sequence:>4}  {event.operation:<6} {event.key or '':<18} {made}")


if __name__ == "__main__":
    asyncio.run(main())
