"""From what a rule proposes to the decision that is written down."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lastword.reconciliation.assertions import Assertion, LeaveOpen, Proposal, Resolve, Rule
from lastword_schemas import jsontext, limits
from lastword_schemas.authority import Authority, Role

SERVICE: Final = "reconciler"
_NAMESPACE: Final = uuid.UUID("6f5a0a0e-6f0b-5c3c-9a55-7265636f6e63")


def proposed(rule: Rule, assertions: Sequence[Assertion]) -> Proposal:
    """What a rule proposes; what a person confirmed is left to a person."""
    proposal = rule(assertions)
    if any(one.authority is Authority.CONFIRMED for one in _undone(proposal, assertions)):
        return LeaveOpen("a person confirmed what it would end; a person is to look")
    return proposal


def decision(
    owner: str, scope: str, key: str, proposal: Proposal, assertions: Sequence[Assertion]
) -> Mapping[str, Any] | None:
    """The event as `POST /v1/events` takes it; None where it is left open.

    It saw the log up to the last of the assertions. Its id is made from the rule and them: proposing the same again is
    the same event. So a decision that somebody withdrew is not made again before something else was said.
    """
    if isinstance(proposal, LeaveOpen):
        return None
    undone = _undone(proposal, assertions)
    authority = max((one.authority for one in undone), key=lambda each: each.rank, default=Authority.INFERRED)
    rule = proposal.why.partition(":")[0]
    seen = "/".join(sorted(one.event_id for one in assertions))
    event = {
        "event_id": str(uuid.uuid5(_NAMESPACE, f"{rule}/{owner}/{scope}/{key}/{seen}")),
        "owner": owner,
        "scope": scope,
        "actor": {"service": SERVICE, "role": Role.SERVICE.value},
        "authority": authority.value,
        "text": proposal.why,
        "saw": max(one.sequence for one in assertions),
    }
    if isinstance(proposal, Resolve):
        others = _one_of_each(undone)[: limits.MAX_NAMES - 1]
        return event | {"operation": "resolve", "key": key, "names": [proposal.chosen, *others]}
    return event | {"operation": "withdraw", "names": list(proposal.event_ids)[: limits.MAX_NAMES]}


def _one_of_each(assertions: Iterable[Assertion]) -> list[str]:
    """The first of those that say the same with the same authority: a resolve ends the others with it."""
    found: dict[tuple[str, Authority], str] = {}
    for one in sorted(assertions, key=lambda each: (each.mark, each.event_id)):
        found.setdefault((jsontext.canonical(one.value), one.authority), one.event_id)
    return list(found.values())


def _undone(proposal: Proposal, assertions: Iterable[Assertion]) -> list[Assertion]:
    """The assertions that a proposal ends or withdraws."""
    if isinstance(proposal, LeaveOpen):
        return []
    named = proposal.others if isinstance(proposal, Resolve) else proposal.event_ids
    return [one for one in assertions if one.event_id in named]
