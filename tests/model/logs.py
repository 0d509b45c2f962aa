"""Random logs for hypothesis: few owners, scopes, keys and values, so that everything meets everything."""

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from lastword_schemas import jsontext
from lastword_schemas.envelope import Envelope
from lastword_schemas.errors import InvalidInput
from lastword_schemas.identity import record_key
from lastword_schemas.positions import Receipt
from tests.support.logs import ADA, BEN, UNSET, Log, registry_of

TEXT = "no 🙂 yes, no"
QUOTES = (None, (0, "no"), (5, "yes"), (10, "no"), (3, "🙂"), (4, "no"), (10, "nope"))
"""Places in TEXT in code points; the last two are not there."""
OWNERS, SCOPES = (ADA, BEN), ("global", "project:Comet")
VALUES: tuple[Any, ...] = ("no", "no", "yes", "yes", {"a": [], "b": {}}, {"b": {}, "a": []}, None)
KEYS = (*("tone",) * 5, *("guess",) * 5, *("home",) * 7, "vow", "size", *("undeclared",) * 2)
LIKELY = ("guess", "home")
"""Keys whose sets seldom are refused."""
BRANCH = {"policy": "branch"}
SOME_KEYS = registry_of(tone={}, guess={"min_authority": "inferred"}, home=BRANCH)
MORE_KEYS = registry_of(
    tone={},
    guess={"min_authority": "inferred"},
    vow={"min_authority": "confirmed"},
    size={"schema": {"enum": ["no", None]}},
    home=BRANCH | {"min_authority": "stated"},
)
OPEN_KEYS = SOME_KEYS.model_copy(update={"undeclared": "branch"})
"""Whatever is not declared counts too."""
FEWER_KEYS = registry_of(tone={}).model_copy(update={"undeclared": "branch"})
OTHER_POLICIES = registry_of(tone=BRANCH, guess={"min_authority": "inferred"}, home={}, undeclared={})
"""Not to be had: keys keep their policies; an entry that began while its key was not declared keeps that."""
REGISTRIES = (SOME_KEYS, SOME_KEYS, MORE_KEYS, OPEN_KEYS, OPEN_KEYS, FEWER_KEYS, OTHER_POLICIES)

RETIRED = (
    ((0, "tone"), (1, "tone")),
    ((0, "guess"), (1, "guess")),
    ((0, "tone"), (0, "guess")),
    ((1, "tone"), (0, "tone"), (1, "guess"), (0, "guess")),
    ((0, "vow"),),
    ((0, "home"), (1, "home")),
    ((0, "tone"), (0, "undeclared")),
)

T = TypeVar("T")


@dataclass(frozen=True)
class Move:
    """What somebody does next; numbers pick from what there is."""

    kind: str
    owner: int
    scope: int
    key: str
    value: Any
    weight: int
    pick: int
    quote: tuple[int, str] | None
    expects: str
    """Of a statement: nothing, what the owner said last of the key, or any sequence."""
    retires: tuple[tuple[int, str], ...]
    """Scopes and keys; what is the event's own or stands twice is left out."""

    @property
    def at(self) -> tuple[int, str]:
        """Scope and key."""
        return self.scope, self.key

    def picked(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.pick % len(items)]


KINDS = (
    *("withdraw", "withdraw", "resolve", "resolve", "correction", "correction"),
    *("set", "set", "set", "delete", "delete", "say", "say", "say", "say", "retraction", "retraction"),
    *("backfill", "backfill", "backfill", "backfilled delete", "shifted copy"),
    *("reading",) * 8,
    *("late reading",) * 8,
    *("copy", "copy", "reuse", "wrong actor", "wrong record key", "garbage", "malformed", "registry"),
)
"""The last row is what should not be."""


def plan_of(seed: int, length: int) -> list[Move]:
    """What everybody does, one after the other."""
    choice = random.Random(seed).choice
    return [
        Move(
            kind=choice(KINDS),
            owner=choice([0, 0, 0, 0, 0, 0, 1]),
            scope=choice([0, 0, 0, 0, 0, 0, 1]),
            key=choice(KEYS),
            value=choice(VALUES),
            weight=choice(range(3)),
            pick=choice(range(100)),
            quote=choice(QUOTES),
            expects=choice(["nothing", "nothing", "nothing", "last", "last", "any"]),
            retires=choice([(), (), (), *RETIRED]),
        )
        for _ in range(length)
    ]


plans = st.builds(plan_of, st.integers(0, 2**32 - 1), st.integers(1, 60))
"""By seed, not move by move: hypothesis repeats its draws so much that marks would hardly ever meet."""


def identifier(number: int) -> str:
    """Event ids that do not come in their order."""
    return f"{(number * 7919) % 10007:08x}-0000-4000-8000-{number:012x}"


class Author:
    """Writes the log of a plan."""

    def __init__(self) -> None:
        self.log = Log(registry=SOME_KEYS)
        self.all: list[tuple[str, Receipt]] = []
        """Owner and receipt of every valid envelope."""
        self.last: dict[tuple[str, str, str], int] = {}
        """Sequence of the last statement of a key: refused or not, with or without readings and retirements since."""
        self.readings: dict[str, list[str]] = {}
        self.sets: dict[tuple[str, str, str], list[str]] = {}
        """Ids of the sets of a key that most likely count, read ones too."""
        self.citable: dict[str, list[Receipt]] = {owner: [] for owner in OWNERS}
        """Turns and statements."""

    def act(self, move: Move, number: int) -> None:
        """Do the next thing, number `number`."""
        owner, log, ident = OWNERS[move.owner], self.log, identifier(number)
        common: dict[str, Any] = {"scope": SCOPES[move.scope], "event_id": ident}
        authority = ("inferred", "stated", "confirmed")[move.weight]
        more = common | {"authority": authority, "role": "person" if authority == "confirmed" else "service"}
        match move.kind:
            case "set":
                more |= self._condition(move, owner) | self._retires(move)
                if move.pick % 3 == 0:
                    more |= {"expires_at": f"2026-05-0{1 + move.pick % 5}T12:00:00Z"}
                self._said(owner, log.set(owner, move.key, move.value, **more), (common["scope"], move.key))
            case "correction" if self._own(owner):
                more |= {"withdraws": self._named(move, owner)}
                self._said(owner, log.set(owner, move.key, move.value, **more), (common["scope"], move.key))
            case "withdraw" if self._own(owner):
                if move.weight:
                    more |= {"authority": "confirmed", "role": "person"}
                self._said(owner, log.withdraw(owner, *self._named(move, owner), **more))
            case "resolve" if len(named := self._choice(move, owner)) > 1:
                if move.weight:
                    more |= {"authority": "confirmed", "role": "person"}
                self._said(owner, log.resolve(owner, move.key if move.pick % 9 == 0 else "home", *named, **more))
            case "delete":
                more |= self._condition(move, owner)
                self._said(owner, log.delete(owner, move.key, **more), (common["scope"], move.key), is_set=False)
            case "backfill":
                more |= {"backfill": move.pick % 3}
                self._said(owner, log.set(owner, move.key, move.value, **more), (common["scope"], move.key))
            case "backfilled delete":
                more |= {"backfill": move.pick % 3}
                self._said(owner, log.delete(owner, move.key, **more), (common["scope"], move.key), is_set=False)
            case "shifted copy" if self.all:
                self._shifted(move)
            case "say":
                self._said(owner, log.say(owner, TEXT, **common))
            case "reading" | "retraction" | "late reading":
                made = self._read(move, owner, common)
                self.all.append((owner, made))
                self.readings.setdefault(owner, []).append(made.event_id)
                if move.kind != "retraction" and move.key in LIKELY and move.quote in QUOTES[:5] and move.pick % 12:
                    self.sets.setdefault((owner, common["scope"], move.key), []).append(made.event_id)
            case "copy" if self.all:
                first_owner, receipt = move.picked(self.all)
                self.all.append((first_owner, log.copy(receipt)))
            case "reuse" if self.all:
                first_owner, receipt = move.picked(self.all)
                log.set(first_owner, move.key, move.value, scope=common["scope"], event_id=receipt.event_id)
            case "wrong actor":
                self.all.append((owner, log.raw(owner=owner, key=move.key, authority="confirmed", **common)))
            case "wrong record key":
                envelope = Envelope.read(
                    {"owner": owner, "key": move.key, "operation": "delete", "actor": {"service": "app"}, **common}
                )
                log.append(record_key(owner, common["scope"], move.key + "!").encode(), envelope.to_bytes())
            case "garbage":
                log.append(b"k", move.picked([b"\xff\x00", b"", b"{}", b"[1", b'{"v":0}']))
            case "malformed":
                log.append(b"k", f'{{"v":1,"owner":"{owner}","event_id":"{ident}"}}'.encode())
            case "registry":
                log.apply(move.picked(REGISTRIES))

    def _own(self, owner: str) -> list[str]:
        """The ids of all of an owner's events, first copies and others, refused ones too."""
        return [receipt.event_id for whose, receipt in self.all if whose == owner]

    def _named(self, move: Move, owner: str) -> list[str]:
        """One or two ids, most often of sets and candidates that are still news."""
        own = self._own(owner)
        sets = [ident for at, said in self.sets.items() if at[0] == owner for ident in said[-2:]]
        first = move.picked(sets if sets and move.pick % 4 else own[-4:])
        return [first] if move.pick % 5 else list(dict.fromkeys([first, move.picked(own)]))

    def _choice(self, move: Move, owner: str) -> list[str]:
        """Ids of an owner's sets of `home`; now and then of anything."""
        said = self.sets.get((owner, SCOPES[move.scope], "home"), []) if move.pick % 9 else self._own(owner)
        return list(dict.fromkeys([move.picked(said), *said[-2:]])) if said else []

    def _shifted(self, move: Move) -> None:
        """A copy that has another place among what is backfilled; of what is not a reuse of its id."""
        _, receipt = move.picked(self.all)
        (first,) = (record for record in self.log.records if record.offset == receipt.offset)
        data = jsontext.parse_stored(first.value or b"")
        with contextlib.suppress(InvalidInput):  # a turn, a candidate
            self.log.put(Envelope.read(data | {"backfill": move.pick % 4}))

    def _said(self, owner: str, receipt: Receipt, of: tuple[str, str] | None = None, *, is_set: bool = True) -> None:
        self.all.append((owner, receipt))
        self.citable[owner].append(receipt)
        if of is not None:
            if is_set and of[1] in LIKELY:
                self.sets.setdefault((owner, *of), []).append(receipt.event_id)
            self.last[owner, *of] = receipt.sequence

    def _condition(self, move: Move, owner: str) -> dict[str, Any]:
        if move.expects == "nothing":
            return {}
        last = self.last.get((owner, SCOPES[move.scope], move.key), 0)
        return {"expected_sequence": last if move.expects == "last" else move.pick % self.log.next_offset}

    def _retires(self, move: Move) -> dict[str, Any]:
        others = [{"scope": SCOPES[scope], "key": key} for scope, key in move.retires if (scope, key) != move.at]
        return {"retires": others} if others else {}

    def _read(self, move: Move, owner: str, common: dict[str, Any]) -> Receipt:
        """Mostly of the owner's own words; sometimes of anything that is there, of itself or of nothing."""
        own, source = self.citable[owner], None
        if own and move.pick % 12:
            source = move.picked(own[:3] if move.kind == "late reading" else own[-3:])
        elif self.all and move.pick:
            source = move.picked(self.all)[1]
        more: dict[str, Any] = {}
        if move.quote is not None:
            more = {"quote": move.quote[1], "start": move.quote[0]}
        if move.key == "guess" and move.weight:
            more["authority"] = "inferred"
        elif move.quote is None and move.weight == 2:
            more["authority"] = "stated"
        if move.kind != "retraction":
            more |= self._retires(move)
            if move.pick % 8 == 0 and (read := self.readings.get(owner)):
                more["withdraws"] = [move.picked(read)]
        return self.log.candidate(
            owner,
            move.key,
            UNSET if move.kind == "retraction" else move.value,
            source=source or (common["event_id"] if move.weight else identifier(9999)),
            by_receipt=source is not None and move.pick % 5 == 0,
            **more,
            **common,
        )


def log_of(plan: list[Move]) -> Log:
    """The log of what they do."""
    author = Author()
    for number, move in enumerate(plan, start=1):
        author.act(move, number)
    return author.log
