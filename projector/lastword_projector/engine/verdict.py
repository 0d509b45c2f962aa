"""The verdict on an event: counts, refused with a reason, or a copy. The order of the checks is fixed; the first that
fails wins."""

from typing import NamedTuple

from lastword_projector.engine.decisions import Standing
from lastword_projector.engine.decode import Event, actor_problem
from lastword_projector.engine.keys import Keys
from lastword_projector.engine.records import Decision, Entry, Record, canonical_value
from lastword_schemas.authority import DECISIONS, AuthorityRank, Operation
from lastword_schemas.model import parse_instant, to_micros
from lastword_schemas.positions import parse_receipt
from lastword_schemas.verdicts import Reason


class Refusal(NamedTuple):
    """Why an event does not count."""

    reason: Reason
    detail: str
    """In words, without the value."""


def same_content(event: Event, first: Record) -> bool:
    """Whether an event is a copy of the record with its id: all but the publisher's times, and the place among what is
    backfilled (a later export of the same may give it another)."""
    value, body = event.value, event.body
    equal_values = first.value == value
    if not equal_values and first.value is not None and value is not None:
        equal_values = canonical_value(first.value) == canonical_value(value)
    expires_at = None if event.expires_at is None else to_micros(parse_instant(event.expires_at))
    is_candidate = event.source_event_id is not None
    own_place = is_candidate or (
        (first.thread, first.message) == (event.thread, event.message)
        and (first.backfill is None) == (event.backfill is None)
    )
    return (
        equal_values
        and own_place
        and (first.operation, first.scope, first.key) == (event.operation, event.scope, event.key)
        and (first.service, first.role, first.authority)
        == (event.actor.service, event.actor.role, event.authority.rank)
        and (first.source_event_id, first.span, first.quote) == (event.source_id, event.span, body.quote)
        and (first.text, first.confidence, first.expires_at) == (body.text, event.confidence, expires_at)
        and (first.expected_sequence, first.retires) == (event.expected_sequence, event.retired_keys)
        and (first.decision == event.decision or _decides_the_same(event.decision, first.decision))
    )


def judge_event(event: Event, key_matches: bool, keys: Keys) -> Refusal | None:
    """Checks of the event alone: its record key, its keys, its value, its actor."""
    if not key_matches:
        return Refusal(Reason.KEY_MISMATCH, "the record's Kafka key is not owner/scope/key of the envelope")
    if event.key is not None:
        if not keys.takes(event.key):
            return _undeclared(event.key)
        for other in event.retires or ():
            if not keys.takes(other.key):
                return _undeclared(other.key)
        if keys.has_schema(event.key) and (value := event.value) is not None:
            problem = keys.value_problem(event.key, value)
            if problem is not None:
                return Refusal(Reason.VALUE_SCHEMA, problem)
    if (problem := actor_problem(event)) is not None:
        return Refusal(Reason.ACTOR_NOT_ALLOWED, problem)
    return None


def judge_citation(event: Event, source: Record | None, *, log_id: str, partition: int, offset: int) -> Refusal | None:
    """Checks of what a candidate cites. `source` is the owner's event with the cited id before this one."""
    if event.source_event_id == event.event_id:
        return Refusal(Reason.SOURCE_LATER, "a candidate cannot cite itself")
    if event.source_receipt is not None:
        receipt = parse_receipt(event.source_receipt, field="source_receipt")
        if receipt.event_id != event.source_event_id:
            return Refusal(Reason.SOURCE_MISSING, "the cited receipt is of another event than source_event_id")
        if receipt.log_id != log_id:
            return Refusal(Reason.SOURCE_MISSING, "the cited receipt is of another log")
        if receipt.partition != partition:
            return Refusal(Reason.SOURCE_OF_OTHER_OWNER, "the cited event is in the partition of another owner")
        if receipt.offset >= offset:
            return Refusal(Reason.SOURCE_LATER, "the cited event does not precede the candidate")
        if source is None:
            return Refusal(Reason.SOURCE_OF_OTHER_OWNER, "the owner has no event at the cited position")
        if source.sequence > receipt.sequence:  # a receipt of a later copy is of the same event
            return Refusal(Reason.SOURCE_MISSING, "the cited event does not stand where the receipt says")
    if source is None:
        return Refusal(Reason.SOURCE_MISSING, "the owner has no event with the cited id before the candidate")
    if source.is_candidate:
        return Refusal(Reason.SOURCE_IS_CANDIDATE, "the cited event is itself a candidate; cite what it reads")
    if source.operation in DECISIONS:
        return Refusal(Reason.SOURCE_IS_CANDIDATE, "the cited event is a decision; cite what it is about")
    if not source.counts:
        return Refusal(Reason.SOURCE_REFUSED, "the cited event was refused")
    return _judge_reading(event, source)


def judge_named(event: Event, made: Record, named: Record | None, standing: Standing) -> Refusal | None:
    """Whether an event may withdraw, choose or end one that it names. `named` is the owner's with that id before it."""
    if named is None:
        return Refusal(Reason.NAMED_MISSING, "the owner has no event with a named id before this one")
    if not named.counts:
        return Refusal(Reason.NAMED_REFUSED, f"the named event at sequence {named.sequence} was refused")
    if made.is_candidate and not named.is_candidate:
        return Refusal(
            Reason.NAMED_NOT_ALLOWED, f"a candidate withdraws candidates only; sequence {named.sequence} is none"
        )
    if event.operation is Operation.RESOLVE and (named.operation, named.scope, named.key) != ("set", *made.place):
        return Refusal(Reason.NAMED_NOT_ALLOWED, f"sequence {named.sequence} is not a set of that scope and key")
    if made.authority < (needed := standing.authority_of(named)):
        return Refusal(
            Reason.AUTHORITY_BELOW_NAMED,
            f"sequence {named.sequence} has authority '{AuthorityRank(needed).authority}', this '{event.authority}'",
        )
    return None


def judge_resolvable(policy: str) -> Refusal | None:
    """Whether the entry of a resolve's key is one in which assertions stand side by side."""
    if policy == "branch":
        return None
    return Refusal(Reason.NAMED_NOT_ALLOWED, f"under policy '{policy}' nothing stands side by side; set the value")


def judge_authority(event: Event, rank: int, keys: Keys) -> Refusal | None:
    """Whether the event, with an authority of this rank, has the weight that its key asks for, and each key that it
    retires."""
    if event.key is None:
        return None
    if rank < keys.min_rank(event.key):
        return _too_low(event, event.key, keys)
    for other in event.retires or ():
        if rank < keys.min_rank(other.key):
            return _too_low(event, other.key, keys)
    return None


def judge_expected(expected_sequence: int, entry: Entry | None) -> Refusal | None:
    """Whether the entry that a conditional statement meets is the one that it expects."""
    if entry is not None and entry.is_void:
        entry = None
    found = 0 if entry is None else entry.record.source_sequence
    if entry is not None and entry.unresolved:
        detail = f"expected_sequence is {expected_sequence}, and the entry, at sequence {found}, is unresolved"
        return Refusal(Reason.EXPECTED_SEQUENCE, detail)
    if found != expected_sequence:
        what = "there is no entry (0)" if entry is None else f"the entry's source sequence is {found}"
        return Refusal(Reason.EXPECTED_SEQUENCE, f"expected_sequence is {expected_sequence}, {what}")
    return None


def _decides_the_same(one: Decision | None, other: Decision | None) -> bool:
    """What became of other entries is not content."""
    if one is None or other is None:
        return False
    return (one.withdraws, one.resolves, one.saw) == (other.withdraws, other.resolves, other.saw)


def _undeclared(key: str) -> Refusal:
    return Refusal(Reason.UNDECLARED_KEY, f"'{key}' is not declared in the registry in force")


def _too_low(event: Event, key: str, keys: Keys) -> Refusal:
    needed = AuthorityRank(keys.min_rank(key)).authority
    return Refusal(
        Reason.AUTHORITY_TOO_LOW, f"'{key}' takes authority '{needed}' or higher, this is '{event.authority}'"
    )


def _judge_reading(event: Event, source: Record) -> Refusal | None:
    quote = event.body.quote
    quoted = event.span is not None and quote is not None
    is_turn = source.operation == Operation.SAY
    if quoted:
        start, end = event.span or (0, 0)
        if source.text is None or end > len(source.text) or source.text[start:end] != quote:
            return Refusal(Reason.QUOTE_NOT_AT_SPAN, f"the source's text does not have the quote at [{start}, {end})")
    if is_turn and not quoted and event.authority.rank >= AuthorityRank.STATED:
        return Refusal(Reason.QUOTE_MISSING, f"authority '{event.authority}' needs a quote of the turn at its span")
    if not is_turn and event.authority.rank > source.authority:
        return Refusal(
            Reason.AUTHORITY_ABOVE_SOURCE,
            f"the cited statement has authority '{AuthorityRank(source.authority).authority}'",
        )
    return None
