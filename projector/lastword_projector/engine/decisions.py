"""Decisions: which of an owner's events no longer count, and what was chosen among the assertions of a key.

An event may withdraw earlier ones by their ids (`withdraw`, or a set with `withdraws`), decisions among them. What
reads a withdrawn event does not count either. Since whatever is named precedes what names it, the newest withdrawals
are looked at first. Candidates withdraw candidates alone, and so never decide about what the others rest on.
"""

from collections.abc import Iterable, Mapping, Sequence

from lastword_projector.engine.records import Decided, Record


class Standing:
    """What decisions make of the events of one owner."""

    def __init__(self, decisions: Sequence[Decided] = ()) -> None:
        self._decisions = decisions
        self.withdrawn: Mapping[bytes, Decided] = _withdrawn(decisions) if decisions else {}
        """By event id: the first withdrawal that counts."""

    def withdrawal_of(self, record: Record) -> Decided | None:
        """What withdrew an event, or what it reads; None if it stands."""
        if not self.withdrawn:
            return None
        found = self.withdrawn.get(record.event_id)
        if found is None and record.source_event_id is not None:
            found = self.withdrawn.get(record.source_event_id)
        return found

    def counting(self, records: Iterable[Record]) -> list[Record]:
        """Those that are not withdrawn."""
        if not self.withdrawn:
            return list(records)
        return [record for record in records if self.withdrawal_of(record) is None]

    def resolves(self, scope: str, key: str) -> tuple[Decided, ...]:
        """The resolves of a key that count, in accepted order."""
        return tuple(
            each
            for each in self._decisions
            if each.resolves and (each.scope, each.key) == (scope, key) and each.event_id not in self.withdrawn
        )

    def authority_of(self, record: Record) -> int:
        """The authority of an event: its own, or that of whoever chose it, if that is higher."""
        chosen = [
            each.authority
            for each in self._decisions
            if each.resolves and each.resolves[0] == record.event_id and each.event_id not in self.withdrawn
        ]
        return max([record.authority, *chosen])


ALL_STAND = Standing()
"""Nobody has decided anything."""


def decided_by(record: Record) -> Decided | None:
    """What an event decides about others; None if it does not, or does not count."""
    decision = record.decision
    if decision is None or not record.counts:
        return None
    return Decided(
        record.sequence,
        record.recorded_at,
        record.event_id,
        record.authority,
        record.source_event_id,
        record.scope,
        record.key,
        decision.withdraws,
        decision.resolves,
    )


def standing_of(records: Iterable[Record], *, known_at: int | None = None) -> Standing:
    """What the decisions among an owner's records, those up to `known_at`, make of them."""
    found = [
        decided
        for record in records
        if record.decision is not None
        and (known_at is None or record.sequence <= known_at)
        and (decided := decided_by(record)) is not None
    ]
    return Standing(found) if found else ALL_STAND


def _withdrawn(decisions: Sequence[Decided]) -> Mapping[bytes, Decided]:
    gone: dict[bytes, Decided] = {}
    for are_candidates in (False, True):
        for each in reversed(decisions):
            if (each.source_event_id is not None) is are_candidates and not (
                each.event_id in gone or each.source_event_id in gone
            ):
                gone |= dict.fromkeys(each.withdraws, each)
    return gone
