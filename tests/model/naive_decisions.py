"""Decisions a second time, from their definition: who is withdrawn, raised or ended is asked of everybody."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.model.naive import Heard

AUTHORITIES = {1: "inferred", 2: "stated", 3: "confirmed"}


def withdraws(event: "Heard") -> list[str]:
    """The ids of the events that it withdraws, if it counts."""
    if not event.counts or not event.header:
        return []
    named = event.header["names"] if event.header["operation"] == "withdraw" else event.header["withdraws"]
    return named or []


def withdrawing(heard: "Sequence[Heard]") -> "list[Heard]":
    return [event for event in heard if withdraws(event)]


def withdrawn_by(event: "Heard", decisions: "Sequence[Heard]") -> "Heard | None":
    """The first of the decisions that withdrew it, or what it reads."""
    for each in decisions:
        if each.owner == event.owner and event.event_id in withdraws(each) and not withdrawn_by(each, decisions):
            return each
    return withdrawn_by(event.source, decisions) if event.source is not None else None


def resolves(key: "tuple[str, str, str]", heard: "Sequence[Heard]") -> "list[Heard]":
    """The resolves of a key that count."""
    found = [event for event in heard if event.counts and event.header["operation"] == "resolve" and event.key == key]
    decisions = withdrawing(heard)
    return [event for event in found if not withdrawn_by(event, decisions)]


def rank_among(event: "Heard", heard: "Sequence[Heard]") -> int:
    """Its authority, or that of somebody who chose it."""
    decisions = withdrawing(heard)
    chosen = [
        other.rank
        for other in heard
        if other.owner == event.owner
        and other.counts
        and other.header["operation"] == "resolve"
        and other.header["names"][0] == event.event_id
        and not withdrawn_by(other, decisions)
    ]
    return max([event.rank, *chosen])


def resolved(said: "list[Heard]", key: "tuple[str, str, str]", heard: "Sequence[Heard]") -> "list[Heard]":
    """What was said of a key, with the authority that it was given, and with the mark of what ended it."""
    sets = {event.event_id: event for event in said if event.header["operation"] == "set"}
    acting = [each for each in resolves(key, heard) if each.header["names"][0] in sets]
    if not acting:
        return said
    raised = []
    for event in said:
        ranks = [each.rank for each in acting if each.header["names"][0] == event.event_id]
        authority = AUTHORITIES[max([event.rank, *ranks])]
        raised.append(replace(event, header=event.header | {"authority": authority}))
    return [event if is_delete(event) else replace(event, ended=_ended(event, acting, sets)) for event in raised]


def is_delete(event: "Heard") -> bool:
    return bool(event.header["operation"] == "delete")


def _ended(event: "Heard", acting: "Sequence[Heard]", sets: "dict[str, Heard]") -> tuple[int, int, int] | None:
    speaking = []
    for each in acting:
        values = [sets[named].says for named in each.header["names"] if named in sets]
        if event.says in values and event.source_sequence < each.sequence and event.rank <= each.rank:
            speaking.append((each, values[0] == event.says))
    if not speaking or speaking[-1][1]:
        return None
    last = speaking[-1][0]
    return last.sequence, last.rank, 0
