"""`contradiction_pass`: what nobody asserted is withdrawn; what is equally supported stays open."""

from collections.abc import Callable, Iterable, Sequence

from lastword.reconciliation.assertions import Assertion, LeaveOpen, Proposal, Withdraw, by_value

Checker = Callable[[Assertion], str | None]
"""Why an assertion says nothing of the person's life as it is ("hypothetical", "quoted" ...); None if it does.

It sees one assertion with its source's text. A checker on a model fits as well; it should time out by itself.
"""


def contradiction_pass(assertions: Sequence[Assertion], checker: Checker) -> Proposal:
    """Withdraw those assertions that the checker refutes from their own source; never because of another one's.

    Nothing is decided between assertions that stand up to it: two equally supported values are both left. Nor is
    everything withdrawn: if no assertion would be left, a person is to look.
    """
    refuted = {one.event_id: why for one in assertions if (why := checker(one)) is not None}
    if not refuted:
        return LeaveOpen(f"{len(by_value(assertions))} values, and nothing in their sources refutes any of them")
    if len(refuted) == len(assertions):
        return LeaveOpen("every assertion is doubtful: " + _words(refuted.values()))
    return Withdraw(tuple(sorted(refuted)), "contradiction_pass: " + _words(refuted.values()))


def _words(reasons: Iterable[str]) -> str:
    return ", ".join(sorted(set(reasons)))
