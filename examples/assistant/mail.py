"""The mail service: it only reads. It never met the chat service; the position that came with the order is enough."""

from lastword import AsyncClient

_GREETINGS = {"brief": "Hi,", "formal": "Dear Sir or Madam,"}


class Mail:
    """Writes mails in the way that the person wants now."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def write(self, person: str, position: str) -> str:
        """A mail to the airline, by what is known at `position` or later."""
        known = await self._client.user(person).get_many(
            ["mail.tone", "travel.flight_time", "travel.seat"], at_least=position
        )
        greeting = _GREETINGS.get(known["mail.tone"].value_or("neutral"), "Hello,")
        time, seat = known["travel.flight_time"].value_or("any time"), known["travel.seat"].value_or("any seat")
        return f"{greeting} please book a flight ({time}, {seat})."
