"""The rules by the names that a declaration gives, and the checker that comes with lastword."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from lastword.extraction.protocol import Why
from lastword.extraction.rules.manner import manner
from lastword.reconciliation.assertions import Assertion, Rule
from lastword.reconciliation.confidence import confidence_weighted
from lastword.reconciliation.contradiction import Checker, contradiction_pass
from lastword.reconciliation.newest import newest_stated

REFUTING: Final = frozenset({Why.HYPOTHETICAL, Why.QUOTED, Why.NEGATED, Why.OTHER_PERSON, Why.QUESTION})
"""What says that a sentence tells nothing of the person's life as it is."""


def rules(checker: Checker | None = None) -> Mapping[str, Rule]:
    """The rules by name; with another checker than the one that comes with lastword."""
    return {
        "newest_stated": newest_stated,
        "confidence_weighted": confidence_weighted,
        "contradiction_pass": partial(contradiction_pass, checker=checker or grammar),
    }


def grammar(assertion: Assertion) -> str | None:
    """The checker that comes with lastword: whether the words that an assertion quotes are supposed, asked, denied, or
    somebody else's, by the grammar of their sentence. It knows English, and refutes nothing that quotes no words."""
    if assertion.text is None or assertion.span is None:
        return None
    why = manner(assertion.text, assertion.span)
    return why.value if why in REFUTING else None
