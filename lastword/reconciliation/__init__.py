"""Reconciliation: what to do about an entry whose standing assertions differ.

Each rule looks at the assertions and proposes a decision, or leaves the entry open and says why. A rule has no clock
and asks nobody: whoever runs it again on the same assertions gets the same proposal.
"""

from lastword.reconciliation.assertions import Assertion, LeaveOpen, Proposal, Resolve, Rule, Withdraw
from lastword.reconciliation.confidence import confidence_weighted
from lastword.reconciliation.contradiction import Checker, contradiction_pass
from lastword.reconciliation.newest import newest_stated

__all__ = [
    "Assertion",
    "Checker",
    "LeaveOpen",
    "Proposal",
    "Resolve",
    "Rule",
    "Withdraw",
    "confidence_weighted",
    "contradiction_pass",
    "newest_stated",
]
