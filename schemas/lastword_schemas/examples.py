"""Requests as the API's page shows them, in an order in which they can be sent. A test sends them.

They speak of keys of the starter registry.
"""

from typing import Any, Final

_ADA: Final[dict[str, Any]] = {"owner": "user:ada", "scope": "global"}
_SETTINGS: Final = {"actor": {"service": "settings"}}
_TONE: Final = _ADA | {"operation": "set", "key": "mail.tone", "value": "brief"} | _SETTINGS
_TURN: Final = _ADA | {
    "operation": "say",
    "thread": "t1",
    "message": "m1",
    "text": "Evening flights work better now.",
    "event_id": "ada-t1-m1",
    "actor": {"service": "chat"},
}
_READING: Final = _ADA | {
    "key": "travel.flight_time",
    "value": "evening",
    "source_event_id": "ada-t1-m1",
    "quote": "Evening flights",
    "span": [0, 15],
    "authority": "stated",
    "confidence": 0.9,
    "actor": {"service": "extractor"},
}

EVENTS: Final[dict[str, Any]] = {
    "a setting": _TONE,
    "what was said": _TURN,
    "of one project, for a while": _TONE
    | {"scope": "project:Comet", "value": "formal", "expires_at": "2099-12-31T23:59:59Z"},
    "only if there is none yet": _ADA
    | {"operation": "set", "key": "name", "value": "Ada", "expected_sequence": 0, "event_id": "ada-name-1"}
    | {"actor": {"service": "settings", "role": "person"}, "authority": "confirmed"},
    "a value that ends another": _TONE
    | {"key": "units", "value": "metric", "retires": [{"scope": "project:Comet", "key": "mail.tone"}]},
    "a tombstone": _ADA | {"operation": "delete", "key": "mail.signature"} | _SETTINGS,
    "several": {"events": [_TONE | {"key": "theme", "value": "dark"}, _TONE | {"key": "language", "value": "en"}]},
}
"""Bodies of `POST /v1/events`."""
CANDIDATES: Final[dict[str, Any]] = {
    "a reading of what was said": _READING,
    "several": {"candidates": [_READING, _READING | {"key": "interest.topic", "value": "flying"}]},
}
"""Bodies of `POST /v1/candidates`."""
VALUES: Final[dict[str, Any]] = {
    "what applies in a project": {"owner": "user:ada", "scope": "project:Comet", "keys": ["mail.tone", "units"]},
    "as of a moment": {"owner": "user:ada", "keys": ["mail.tone"], "as_of": "2026-03-01T12:00:00Z"},
}
"""Bodies of `POST /v1/values/read`."""
SEARCHES: Final[dict[str, Any]] = {
    "what matters for a task": {"owner": "user:ada", "scope": "project:Comet", "query": "Find a flight to Berlin"},
    "of the whole past": {"owner": "user:ada", "query": "tone of mails", "include": "history", "limit": 10},
}
"""Bodies of `POST /v1/search`."""
CONTEXTS: Final[dict[str, Any]] = {
    "for a task": {"owner": "user:ada", "scope": "project:Comet", "task": "Find a flight to Berlin", "budget": 500},
    "at the start of a turn": {"owner": "user:ada", "keys": ["language"], "limit": 5},
    "with what was just said": {
        "owner": "user:ada",
        "task": "Answer this mail",
        "overlay": [{"scope": "global", "key": "mail.tone", "value": "warm"}],
        "store": False,
    },
}
"""Bodies of `POST /v1/contexts`."""
CONTEXT: Final = "c1.c3d12d90c0bb8dff.3559b75f8fc1536f.0.11.9f86d081884c7d659a2feaa0c55ad015"
"""The id of a context as it looks; there is none with it."""
CHECKS: Final[dict[str, Any]] = {
    "items that a model was handed": {
        "owner": "user:ada",
        "scope": "project:Comet",
        "items": [{"scope": "global", "key": "travel.flight_time", "source_sequence": 2}],
        "task": "Find a flight to Berlin",
    },
}
"""Bodies of `POST /v1/contexts/check`."""
EVENT_ID: Final = "ada-t1-m1"
"""Of an event that the examples publish."""
