"""The HTTP application over parts in memory. It is built once a process; each request says which parts answer it."""

import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from fastapi import FastAPI

from lastword.app import Parts, create_app
from lastword.testing.transport import Application, Message, Receive, Send
from lastword_producers.desk import Desk
from lastword_query_api.changes import Changes
from lastword_query_api.context.contexts import Contexts
from lastword_query_api.readings import ReaderPort, Readings
from lastword_query_api.search.searches import Searches

_parts: ContextVar[Parts] = ContextVar("lastword parts")


class _PartsOfTheRequest:
    """`Parts` of whichever lastword a request is for."""

    @property
    def reader(self) -> ReaderPort:
        return _parts.get().reader

    @property
    def readings(self) -> Readings:
        return _parts.get().readings

    @property
    def searches(self) -> Searches:
        return _parts.get().searches

    @property
    def contexts(self) -> Contexts:
        return _parts.get().contexts

    @property
    def changes(self) -> Changes:
        return _parts.get().changes

    def get_desk(self) -> Desk:
        return _parts.get().get_desk()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        yield


@functools.cache
def _application() -> FastAPI:
    return create_app(_PartsOfTheRequest())


def application(parts: Parts) -> Application:
    """An ASGI application that answers from these parts. It needs no lifespan."""

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        token = _parts.set(parts)
        try:
            await _application()(scope, receive, send)
        finally:
            _parts.reset(token)

    return app
