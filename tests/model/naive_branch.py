"""Policy `branch` a second time, from its definition: who stands is asked of everybody against everybody."""

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from lastword_projector.engine.records import mark_of

if TYPE_CHECKING:
    from tests.model.naive import Heard, State


class Kept(NamedTuple):
    """What stands of one value by one authority, or a delete that may still end something."""

    event_id: str
    latest: str
    times: int
    expires_at: str | None = None


def is_delete(event: "Heard") -> bool:
    return bool(event.header["operation"] == "delete")


def superseded(event: "Heard", events: "Sequence[Heard]") -> bool:
    """By a later assertion of strictly higher authority, whatever has become of that."""
    return any(not is_delete(other) and other.mark > event.mark and other.rank > event.rank for other in events)


def deleted(event: "Heard", events: "Sequence[Heard]") -> bool:
    return any(is_delete(other) and other.mark >= event.mark and other.rank >= event.rank for other in events)


def standing(events: "Sequence[Heard]") -> "list[Heard]":
    """The assertions that count on, the earliest first."""
    found = [
        event
        for event in events
        if not (is_delete(event) or event.ended or superseded(event, events) or deleted(event, events))
    ]
    return sorted(found, key=lambda event: (event.mark, event.event_id))


def why(events: "Sequence[Heard]") -> str | None:
    """Why there is no single answer."""
    stand = standing(events)
    if not stand:
        going = [event for event in events if not event.ended]
        last = max(event.mark for event in going)
        return "equal_version_conflict" if any(not is_delete(one) and one.mark == last for one in going) else None
    if len({event.says for event in stand}) > 1:
        firsts = [group[0] for group in groups(stand)]
        tied = any(one.mark == other.mark and one.says != other.says for one in firsts for other in firsts)
        return "equal_version_conflict" if tied else "values_differ"
    deletes = [event for event in events if is_delete(event) and not superseded(event, events)]
    weaker = any(delete.mark >= one.mark and delete.rank < one.rank for delete in deletes for one in stand)
    return "weaker_delete" if weaker else None


def tied(delete: "Heard", events: "Sequence[Heard]") -> bool:
    """Whether an assertion has the very same mark as a delete."""
    return any(said.mark == delete.mark and not is_delete(said) and not said.ended for said in events)


def expiry(group: "Sequence[Heard]") -> str | None:
    """When the last of them expires, if all do."""
    times = [event.header.get("expires_at") for event in group]
    return None if None in times else max(time for time in times if time)


def current(events: "Sequence[Heard]") -> "list[Heard]":
    """Assertions of a value that goes on without a break; deletes that nothing was said after, or that contest it."""
    stand = standing(events)
    going_on = list(stand)
    for _ in events:  # as far as it reaches
        going_on += [
            event
            for event in events
            if not is_delete(event)
            and event not in going_on
            and any(event.says == other.says and touch(event, other, events) for other in going_on)
        ]
    contested = {kept.event_id for kept in state(events).kept[1:] if kept.times == 0 and why(events) == "weaker_delete"}
    ordered = sorted(events, key=lambda event: (event.mark, event.event_id))
    for at, event in enumerate(ordered):
        run = [*takewhile(is_delete, reversed(ordered[:at])), event, *takewhile(is_delete, ordered[at + 1 :])]
        is_last = len(run) > 0 and all(is_delete(other) for other in ordered[at:])
        if is_delete(event) and (is_last or any(other.event_id in contested for other in run)):
            going_on.append(event)
    return going_on


def touch(one: "Heard", other: "Heard", events: "Sequence[Heard]") -> bool:
    """Whether neither had ended when the other was made."""
    return one.mark <= end(other, events) and other.mark <= end(one, events)


def end(event: "Heard", events: "Sequence[Heard]") -> tuple[int, int, int]:
    """The mark of what ended an assertion."""
    ending = [
        other.mark
        for other in events
        if (is_delete(other) and other.mark >= event.mark and other.rank >= event.rank)
        or (not event.ended and not is_delete(other) and other.mark > event.mark and other.rank > event.rank)
    ]
    ending += [event.ended] if event.ended else []
    return min(ending, default=(2**60, 0, 0))


def groups(stand: "Sequence[Heard]") -> "list[list[Heard]]":
    """By value and authority."""
    found: dict[tuple[str, int], list[Heard]] = {}
    for event in stand:
        found.setdefault((event.says, event.rank), []).append(event)
    return list(found.values())


def state(events: "Sequence[Heard]") -> "State":
    from tests.model.naive import State

    stand = standing(events)
    deletes = [event for event in events if is_delete(event) and not superseded(event, events)]
    deletes = [delete for delete in deletes if not deleted_by_another(delete, deletes)]
    deletes.sort(key=lambda delete: delete.mark)
    if stand:
        highest = max(event.rank for event in stand)
        pointer = next(event for event in stand if event.rank == highest)
        first = next(event for event in stand if event.says == pointer.says)
    else:
        pointer = first = deletes[-1]
    kept = [Kept(group[0].event_id, mark_of(*group[-1].mark), len(group), expiry(group)) for group in groups(stand)]
    ended = [event for event in sorted(events, key=lambda one: (one.mark, one.event_id)) if event.ended]
    kept += [
        Kept(group[0].event_id, f"ended {mark_of(*group[-1].mark)}", len(group), expiry(group))
        for group in groups(ended)
    ]
    kept += [Kept(delete.event_id, "tied" if tied(delete, events) else "", 0) for delete in deletes]
    return State(pointer, first.mark, first.started_at, None, why(events) is not None, (why(events), *kept))


def deleted_by_another(delete: "Heard", deletes: "Sequence[Heard]") -> bool:
    """Whether another delete ends all that this one does; of two at one mark the one with the smaller id stays."""
    return any(
        other.mark >= delete.mark
        and other.rank >= delete.rank
        and (other.mark > delete.mark or other.event_id < delete.event_id)
        for other in deletes
    )


def effect(event: "Heard", said: "Sequence[Heard]") -> str:
    """What the event does to what was said before."""
    after = [*said, event]
    before_stand, stand = standing(said), standing(after)
    same = bool(said) and answer(said) == answer(after)
    if not is_delete(event):
        if event not in stand:
            return "late" if same else "conflict"
        firsts = [group[0] for group in groups(stand)]
        if any(other.mark == event.mark and other.says != event.says for other in firsts):
            return "conflict"
        if same:
            return "restated"
        if why(after):
            return "branched"
        return "updated" if before_stand else "added"
    if not same:
        if not stand:
            return "conflict" if why(after) else "deleted"
        return "branched" if why(after) else "updated"
    newest = max(other.mark for other in said)
    if event.mark < newest:
        return "late"
    return "deleted" if event.mark > newest and not stand else "restated"


def answer(events: "Sequence[Heard]") -> object:
    """What a reader gets."""
    stand = standing(events)
    return {event.says for event in stand}, state(events).pointer.says if stand else None, why(events)
