"""The three stories of the walk-through."""

from typing import Any, Final

from lastword.walkthrough import Answer, Event, Look, Part, Replay, SetBack, Until, Verdict, Versions, turn
from lastword_schemas.answers import Rule, Status


def _said(at: int, owner: str, text: str, thread: str = "thread-1") -> Event:
    return Event(at, turn(owner, f"turn-{at}", thread, text))


def _set(at: int, owner: str, key: str, value: Any, scope: str = "global") -> Event:
    actor = {"service": "settings-page", "role": "person"}
    draft = {"operation": "set", "owner": owner, "scope": scope, "key": key, "value": value, "actor": actor}
    return Event(at, draft | {"event_id": f"statement-{at}"})


def _delete(at: int, owner: str, key: str, scope: str = "global") -> Event:
    actor = {"service": "settings-page", "role": "person"}
    draft = {"operation": "delete", "owner": owner, "scope": scope, "key": key, "actor": actor}
    return Event(at, draft | {"event_id": f"statement-{at}"})


def _read_from(at: int, turn: Event, key: str, value: Any, quote: str, *, event_id: str | None = None) -> Event:
    """A candidate: an extractor's reading of a turn, quoting it."""
    start = turn.draft["text"].index(quote)
    draft = {
        "operation": "set",
        "owner": turn.draft["owner"],
        "scope": "global",
        "key": key,
        "value": value,
        "source_event_id": turn.draft["event_id"],
        "span": [start, start + len(quote)],
        "quote": quote,
        "authority": "stated",
        "event_id": event_id or f"reading-{at}",
        "actor": {"service": "extractor"},
    }
    return Event(at, draft)


def _is(value: str, sequence: int, *after: int, rule: Rule = Rule.EXACT) -> Answer:
    return Answer(Status.SET, rule, value, sequence, after)


def _deleted(sequence: int, *after: int) -> Answer:
    return Answer(Status.DELETED, Rule.TOMBSTONE, None, sequence, after)


_ABSENT: Final = Answer(Status.ABSENT, Rule.ABSENT)
_A: Final = "user:reader-A"
_B: Final = "user:reader-B"
_C: Final = "user:reader-C"
_TRAVELLER: Final = "user:traveller"
_DETAIL: Final = "answer_detail"
_FLIGHT: Final = "travel.flight_time"
_COMET: Final = "project:Comet"


def _ask_a(at: int, expected: Answer, key: str = _DETAIL, scope: str = "global") -> Look:
    place = scope.removeprefix("project:")
    return Look(f"A {place} {key} at {at}", _A, key, expected, scope, at)


SCOPES: Final = Part(
    "Who, where, when",
    "Reader A wants brief answers, then detailed ones, in project Comet brief ones again, and in the end takes the "
    "global wish back. Reader B is somebody else. Each question gets the last word that applied at that point.",
    (
        _set(10, _A, _DETAIL, "brief"),
        _set(20, _A, _DETAIL, "detailed"),
        _set(25, _A, _DETAIL, "brief", _COMET),
        _set(30, _B, _DETAIL, "brief"),
        _set(40, _A, "theme", "dark"),
        _delete(45, _A, _DETAIL),
        Until(_A, 50),
        _ask_a(15, _is("brief", 10)),
        _ask_a(22, _is("detailed", 20, 10)),
        _ask_a(30, _is("detailed", 20, 10)),
        _ask_a(30, _is("brief", 25), scope=_COMET),
        _ask_a(30, _is("detailed", 20, 10, rule=Rule.FALLBACK), scope="project:Orion"),
        Look(f"B global {_DETAIL} at 30", _B, _DETAIL, _is("brief", 30), as_of=30),
        _ask_a(40, _is("dark", 40), key="theme"),
        _ask_a(40, _is("detailed", 20, 10)),
        _ask_a(50, _deleted(45, 20)),
        _ask_a(50, _is("brief", 25), scope=_COMET),
        _ask_a(50, _is("dark", 40), key="theme"),
        _ask_a(50, _deleted(45, 20), scope="project:Orion"),
        _ask_a(9, _ABSENT),
        _ask_a(30, _is("detailed", 20, 10, rule=Rule.FALLBACK), scope="project:Come"),
        _set(55, _A, "theme", "light", _COMET),
        _delete(60, _A, "theme", _COMET),
        _set(65, _A, "units", "metric"),
        _set(70, _A, "units", "imperial", _COMET),
        _delete(75, _A, "units", _COMET),
        _ask_a(60, _deleted(60, 55), key="theme", scope=_COMET),
        _ask_a(74, _is("imperial", 70), key="units", scope=_COMET),
        _ask_a(75, _is("metric", 65, rule=Rule.FELL_THROUGH), key="units", scope=_COMET),
        Look(f"A global {_DETAIL} now", _A, _DETAIL, _deleted(45, 20)),
        Look(f"A Comet {_DETAIL} now", _A, _DETAIL, _is("brief", 25), _COMET),
        Look("A global theme now", _A, "theme", _is("dark", 40)),
        Look("A Comet theme now", _A, "theme", _deleted(60, 55), _COMET),
        Look("A Comet units now", _A, "units", _is("metric", 65, rule=Rule.FELL_THROUGH), _COMET),
        Look(f"B global {_DETAIL} now", _B, _DETAIL, _is("brief", 30)),
    ),
)

_BRIEF_TURN = _said(10, _C, "Please keep your answers brief.")
_DETAILED_TURN = _said(20, _C, "From now on I want detailed answers.")

COMPLETIONS: Final = Part(
    "Four completions",
    "Reader C says something at 10 and the opposite at 20. Extractors read both, and finish in the wrong order: a "
    "reading counts from where it was said, not from when somebody got round to it.",
    (
        _BRIEF_TURN,
        _DETAILED_TURN,
        _read_from(21, _DETAILED_TURN, _DETAIL, "detailed", "detailed answers"),
        _read_from(22, _BRIEF_TURN, _DETAIL, "brief", "keep your answers brief"),
        Look("C completed 20, then 10", _C, _DETAIL, _is("detailed", 20, 10)),
        Verdict("verdict on completion 10", _C, 22, "late (20, 10)"),
        _delete(45, _C, _DETAIL),
        _read_from(46, _DETAILED_TURN, _DETAIL, "detailed", "detailed answers"),
        Look("C deleted at 45, then 20", _C, _DETAIL, _deleted(45, 20)),
        Verdict("verdict on completion 20", _C, 46, "late (45, 20)"),
    ),
)

_MORNING_TURN = _said(10, _TRAVELLER, "I usually prefer morning flights.")
_EVENING_TURN = _said(20, _TRAVELLER, "Evening flights work better now.", "thread-2")
_EVENING = _read_from(22, _EVENING_TURN, _FLIGHT, "evening", "Evening flights", event_id="evening")
_STILL_DELETED = _deleted(30, 20)

TRAVEL: Final = Part(
    "A preference that must not come back",
    "Morning flights, then evening ones, then neither. After that everything happens that brings old preferences back "
    "elsewhere: a late reading, a second copy, a checkpoint set back, a full replay.",
    (
        _MORNING_TURN,
        _read_from(12, _MORNING_TURN, _FLIGHT, "morning", "morning flights"),
        _EVENING_TURN,
        _EVENING,
        _said(25, _TRAVELLER, "Book me a flight to Lisbon.", "thread-3"),
        Look("a new thread asks", _TRAVELLER, _FLIGHT, _is("evening", 20, 10)),
        Versions("its history", _TRAVELLER, _FLIGHT, ("morning@10 until set@20", "evening@20")),
        _delete(30, _TRAVELLER, _FLIGHT),
        Look("after a delete at 30", _TRAVELLER, _FLIGHT, _STILL_DELETED),
        _read_from(35, _MORNING_TURN, _FLIGHT, "morning", "morning flights"),
        Look("after a late reading of 10", _TRAVELLER, _FLIGHT, _STILL_DELETED),
        Verdict("verdict on that reading", _TRAVELLER, 35, "late (30, 10)"),
        Event(40, _EVENING.draft),
        Look("after a duplicate publish", _TRAVELLER, _FLIGHT, _STILL_DELETED),
        Verdict("verdict on the duplicate", _TRAVELLER, 40, "duplicate"),
        SetBack(_TRAVELLER, 10),
        Until(_TRAVELLER, 45),
        Look("after a checkpoint set back", _TRAVELLER, _FLIGHT, _STILL_DELETED),
        Replay(),
        Look("after a full replay", _TRAVELLER, _FLIGHT, _STILL_DELETED),
        Versions(
            "its history",
            _TRAVELLER,
            _FLIGHT,
            ("morning@10 until set@20", "evening@20 until delete@30", "deleted@30"),
        ),
    ),
)

PARTS: Final = (SCOPES, COMPLETIONS, TRAVEL)
