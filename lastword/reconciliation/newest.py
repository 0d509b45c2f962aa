"""`newest_stated`: what the person said last stands."""

from collections.abc import Sequence

from lastword.reconciliation.assertions import Assertion, LeaveOpen, Proposal, by_value, settle_on
from lastword_schemas.authority import Authority


def newest_stated(assertions: Sequence[Assertion]) -> Proposal:
    """The assertion with the greatest mark among those of authority `stated` or more.

    Guesses settle nothing: an entry that holds only inferred assertions is left open. So is one whose two newest have
    the very same mark and differ.
    """
    said = [one for one in assertions if one.authority.rank >= Authority.STATED.rank]
    if not said:
        return LeaveOpen("every assertion is inferred: the person has not said it")
    top = max(one.mark for one in said)
    newest = [one for one in said if one.mark == top]
    agreed = by_value(newest)
    if len(agreed) > 1:
        return LeaveOpen(f"two values were said at the same place (sequence {top[0]})")
    value = by_value(assertions)[next(iter(agreed))]
    return settle_on(value, assertions, f"newest_stated: said last, at sequence {top[0]}")
