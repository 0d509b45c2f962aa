"""lastword, the memory service for assistants: `from lastword import Client, AsyncClient`.

Names are imported when they are first used: what runs the server need not load the client, and the other way round.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lastword.client.asynchronous import AsyncClient, AsyncMemory
    from lastword.client.batches import Result
    from lastword.client.blocking import Client, Memory
    from lastword.client.errors import (
        AccessDenied,
        Backpressure,
        BeforeHorizon,
        CallFailed,
        DoesNotFit,
        InvalidInput,
        LastwordError,
        Misconfigured,
        NotProjectedYet,
        NotSent,
        PublishFailed,
        Refused,
        ServerError,
        Unavailable,
        UnexpectedAnswer,
        UnknownContext,
        UnknownEvent,
        UnknownOutcome,
        Unreachable,
        WrongLog,
    )
    from lastword.client.receipts import Receipt
    from lastword.client.values import Absent, Deleted, Erased, Expired, NoValue, Status, Unresolved, Value

_HOMES: Final = {
    "asynchronous": ("AsyncClient", "AsyncMemory"),
    "blocking": ("Client", "Memory"),
    "errors": (
        "AccessDenied",
        "Backpressure",
        "BeforeHorizon",
        "CallFailed",
        "DoesNotFit",
        "InvalidInput",
        "LastwordError",
        "Misconfigured",
        "NotSent",
        "NotProjectedYet",
        "PublishFailed",
        "Refused",
        "ServerError",
        "Unavailable",
        "UnexpectedAnswer",
        "UnknownContext",
        "UnknownEvent",
        "UnknownOutcome",
        "Unreachable",
        "WrongLog",
    ),
    "batches": ("Result",),
    "receipts": ("Receipt",),
    "values": ("Absent", "Deleted", "Erased", "Expired", "NoValue", "Status", "Unresolved", "Value"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Absent",
    "AccessDenied",
    "AsyncClient",
    "AsyncMemory",
    "Backpressure",
    "BeforeHorizon",
    "CallFailed",
    "Client",
    "Deleted",
    "DoesNotFit",
    "Erased",
    "Expired",
    "InvalidInput",
    "LastwordError",
    "Memory",
    "Misconfigured",
    "NoValue",
    "NotProjectedYet",
    "NotSent",
    "PublishFailed",
    "Receipt",
    "Refused",
    "Result",
    "ServerError",
    "Status",
    "Unavailable",
    "UnexpectedAnswer",
    "UnknownContext",
    "UnknownEvent",
    "UnknownOutcome",
    "Unreachable",
    "Unresolved",
    "Value",
    "WrongLog",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'lastword' has no attribute {name!r}")
    return getattr(import_module(f"lastword.client.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
