"""`confidence_weighted`: the value with the most independent support stands."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

from lastword.reconciliation.assertions import Assertion, LeaveOpen, Proposal, by_value, settle_on
from lastword_schemas.authority import Authority

ASSUMED: Final = {Authority.CONFIRMED: 0.99, Authority.STATED: 0.9, Authority.INFERRED: 0.5}
"""How far an assertion is trusted that comes without a confidence."""
LEAD: Final = 0.1
"""By how much a value must lead; less is a tie."""


def confidence_weighted(assertions: Sequence[Assertion]) -> Proposal:
    """The value with the greatest support, if it leads by `LEAD` at least; else the entry is left open.

    The support of a value is `1 - (1 - c1)(1 - c2)...` over its witnesses: how likely it is that at least one of them
    is right, if they err independently of each other (noisy-or; Pearl, Probabilistic Reasoning in Intelligent Systems,
    1988, section 4.3). A witness is one source event, with the greatest confidence of the readings of it. What has no
    confidence counts with `ASSUMED` for its authority. When it was said plays no part.
    """
    groups = by_value(assertions)
    ranked = sorted(((support(group), text) for text, group in groups.items()), reverse=True)
    if len(ranked) == 1:
        return LeaveOpen("all assertions say the same")
    (first, text), (second, _) = ranked[0], ranked[1]
    if first - second < LEAD:
        return LeaveOpen(f"a tie: support {first:.2f} against {second:.2f}, a value must lead by {LEAD}")
    return settle_on(groups[text], assertions, f"confidence_weighted: support {first:.2f} against {second:.2f}")


def support(assertions: Iterable[Assertion]) -> float:
    """The support of a value by those who assert it, from 0 to 1."""
    witnesses: dict[str, float] = {}
    for one in assertions:
        source = one.source_event_id or one.event_id
        trusted = ASSUMED[one.authority] if one.confidence is None else one.confidence
        witnesses[source] = max(trusted, witnesses.get(source, 0.0))
    return 1 - math.prod(1 - trusted for trusted in witnesses.values())
