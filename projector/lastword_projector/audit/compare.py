"""The pure comparison: what the log makes of an owner, against what Redis has. Entries are compared as the codec reads
them, whatever a policy keeps in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from lastword_projector.audit.recompute import OwnerState
from lastword_projector.audit.violations import Violation, What
from lastword_projector.engine.records import Entry, Record, unpack_record
from lastword_projector.store.auditing import Indexed, KeyIndex
from lastword_projector.store.event_ids import event_digest
from lastword_projector.store.packing import unpack_entry

_VERDICT: Final = frozenset({"verdict", "reason", "detail", "related", "retired"})
"""The members of a record that the log's reader made."""
_UNREADABLE = (msgspec.DecodeError, ValueError, IndexError)


def compare_entries(
    partition: int,
    owner: str,
    expected: Mapping[tuple[str, str], Entry],
    stored: Mapping[tuple[str, str], bytes | None],
) -> Iterator[Violation]:
    """Entries of one moment, by scope and key; exactly those keys are compared that either has."""
    for at in expected.keys() | stored.keys():
        entry, data = expected.get(at), stored.get(at)
        if entry is None:
            if data is not None:
                yield _unexplained(partition, owner, at, data)
        elif data is None:
            yield _of_entry(What.ENTRY_MISSING, partition, owner, at, entry, "a tombstone" if _is_delete(entry) else "")
        else:
            try:
                found = unpack_entry(data).entry
            except _UNREADABLE:
                yield _of_entry(What.ENTRY_DIFFERS, partition, owner, at, entry, "its bytes are no entry")
            else:
                if found != entry:
                    detail = f"differs in {', '.join(differences(entry, found))}"
                    yield _of_entry(What.ENTRY_DIFFERS, partition, owner, at, entry, detail)


def compare_history(
    partition: int, owner: str, expected: OwnerState, stored: Sequence[tuple[int, bytes]], below: int
) -> Iterator[Violation]:
    """An owner's history below a sequence, item by item."""
    found: dict[int, bytes] = {}
    last = -1
    for sequence, packed in stored:
        if sequence <= last:
            yield Violation(
                What.HISTORY_DIFFERS, partition, owner, sequence=sequence, detail=f"it stands behind sequence {last}"
            )
        last = max(last, sequence)
        if sequence < below:
            found.setdefault(sequence, packed)
    for sequence, packed in expected.records.items():
        if sequence >= below:
            break
        if (item := found.pop(sequence, None)) != packed:
            yield _of_event(partition, owner, unpack_record(packed), item)
    for sequence, item in found.items():
        record = _readable(item)
        yield Violation(
            What.HISTORY_UNEXPLAINED,
            partition,
            owner,
            record.scope if record else None,
            record.key if record else None,
            sequence,
            record.event_id if record else None,
            "the log has no event of this owner there",
        )


class EventIds:
    """The first copies of owners, against all that the index of event ids has."""

    def __init__(self, partition: int, owners: Mapping[str, OwnerState]) -> None:
        self._partition = partition
        self._left = {
            event_digest(owner, event_id): (event_id, sequence, owner)
            for owner, state in owners.items()
            for event_id, sequence in state.first_copies.items()
        }

    def compare(self, indexed: Indexed) -> Iterator[Violation]:
        """A part of the index."""
        left = self._left
        for digest, found in indexed.sequences.items():
            if (known := left.get(digest)) is None or not indexed.is_found(known[0], digest):
                continue
            event_id, sequence, owner = left.pop(digest)
            if found != sequence:
                detail = f"it points to sequence {found}"
                yield Violation(
                    What.EVENT_ID_DIFFERS, self._partition, owner, sequence=sequence, event_id=event_id, detail=detail
                )

    def missing(self) -> Iterator[Violation]:
        """What no part of the index had."""
        for event_id, sequence, owner in self._left.values():
            yield Violation(What.EVENT_ID_MISSING, self._partition, owner, sequence=sequence, event_id=event_id)


def compare_key_index(
    partition: int,
    owner: str,
    at: tuple[str, str],
    expected: Mapping[int, Record],
    index: KeyIndex,
    *,
    may_have_more: bool,
) -> Iterator[Violation]:
    """The index of a key, against its events by their places in the history."""
    indexed = {place: record for place, record in expected.items() if place < index.indexed}
    for place, record in indexed.items():
        if index.scores[place] != record.source_sequence:
            yield Violation(What.KEY_INDEX_DIFFERS, partition, owner, *at, record.sequence, record.event_id)
    if index.places > len(indexed) and not may_have_more:
        detail = f"it has {index.places - len(indexed)} places that are none of the key's"
        yield Violation(What.KEY_INDEX_DIFFERS, partition, owner, *at, detail=detail)


def differences(one: Any, other: Any) -> list[str]:
    """The names of the members in which two structs of one type differ; of nested structs with their path."""
    if type(one) is not type(other) or not isinstance(one, msgspec.Struct):
        return ["type"]
    names = []
    for name in one.__struct_fields__:
        left, right = getattr(one, name), getattr(other, name)
        if left == right:
            continue
        if isinstance(left, msgspec.Struct) and type(left) is type(right):
            names += [f"{name}.{inner}" for inner in differences(left, right)]
        else:
            names.append(name)
    return names


def _of_event(partition: int, owner: str, expected: Record, item: bytes | None) -> Violation:
    """What is wrong with a history's item."""
    what, detail = What.HISTORY_DIFFERS, ""
    if item is None:
        what = What.HISTORY_MISSING
    elif (found := _readable(item)) is None:
        detail = "its bytes are no record"
    else:
        names = differences(expected, found)
        detail = f"differs in {', '.join(names)}"
        if names and _VERDICT.issuperset(names):
            what = What.VERDICT_DIFFERS
            detail = f"{_verdict(expected)} by the log, {_verdict(found)} in the history"
    return Violation(what, partition, owner, expected.scope, expected.key, expected.sequence, expected.event_id, detail)


def _verdict(record: Record) -> str:
    """Verdict words only, cut to what a word is: stored ones may be anything."""
    words: Iterable[str] = (record.verdict, record.reason or "")
    return " ".join(word for word in words if word.isascii() and word.replace("-", "").isalpha()) or "another"


def _of_entry(what: What, partition: int, owner: str, at: tuple[str, str], entry: Entry, detail: str) -> Violation:
    record = entry.record
    return Violation(what, partition, owner, *at, record.sequence, record.event_id, detail)


def _unexplained(partition: int, owner: str, at: tuple[str, str], data: bytes) -> Violation:
    try:
        record = unpack_entry(data).entry.record
    except _UNREADABLE:
        return Violation(What.ENTRY_UNEXPLAINED, partition, owner, *at, detail="its bytes are no entry")
    return Violation(What.ENTRY_UNEXPLAINED, partition, owner, *at, record.sequence, record.event_id)


def _is_delete(entry: Entry) -> bool:
    return entry.record.is_delete


def _readable(item: bytes) -> Record | None:
    try:
        return unpack_record(item)
    except _UNREADABLE:
        return None
