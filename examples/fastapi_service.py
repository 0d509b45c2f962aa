"""A FastAPI service with lastword as a dependency.

    uvicorn examples.fastapi_service:app

One client for the whole service; a handle for each request, which reads nothing older than what its caller has seen:
the position travels in the header `Lastword-Position`, from service to service and back.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from lastword import AsyncClient, AsyncMemory, LastwordError, Refused


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the client when the service starts, close it when it stops."""
    async with AsyncClient(service="settings") as client:
        app.state.lastword = client
        yield


app = FastAPI(title="Settings", lifespan=lifespan)


async def memory_of(
    request: Request,
    user: str,
    response: Response,
    lastword_position: Annotated[str | None, Header()] = None,
) -> AsyncIterator[AsyncMemory]:
    """What lastword keeps of the user of this request."""
    client: AsyncClient = request.app.state.lastword
    memory = client.user(user)
    if lastword_position is not None:
        memory = memory.after(lastword_position)
    yield memory


Memory = Annotated[AsyncMemory, Depends(memory_of)]


class Tone(BaseModel):
    """How mails should sound; null where nobody has said."""

    tone: str | None


@app.get("/tone")
async def get_tone(memory: Memory, response: Response) -> Tone:
    """What applies now."""
    tone = (await memory.get("mail.tone", as_type=str)).value_or(None)
    return _answer(memory, response, Tone(tone=tone))


@app.put("/tone")
async def put_tone(memory: Memory, response: Response, wanted: Tone) -> Tone:
    """Choose; null takes the choice back."""
    if wanted.tone is None:
        await memory.delete("mail.tone")
    else:
        await memory.set("mail.tone", wanted.tone)
    return _answer(memory, response, wanted)


@app.exception_handler(LastwordError)
async def on_trouble(_: Request, error: LastwordError) -> Response:
    """What lastword refuses is the caller's to mend; everything else may be over in a moment."""
    refused = isinstance(error, Refused)
    return JSONResponse({"detail": error.message, "code": error.code}, 422 if refused else 503)


def _answer(memory: AsyncMemory, response: Response, tone: Tone) -> Tone:
    if memory.position is not None:
        response.headers["Lastword-Position"] = memory.position
    return tone
