"""From a value that somebody chose to the events that a resolve names."""

from typing import Any

from lastword_schemas import jsontext
from lastword_schemas.answers import BranchAnswer, InspectionRecord
from lastword_schemas.errors import InvalidInput


def named_by(record: InspectionRecord, value: Any) -> list[str]:
    """The ids of the events that a resolve names, by which of the values that stand in an answer `value` alone stands:
    first that of the chosen one. Raises InvalidInput where it does not stand there, or does so alone."""
    standing = [branch for branch in record.branches if branch.operation == "set" and branch.ended_by is None]
    chosen = [branch for branch in standing if _same(branch, value)]
    if not chosen:
        what = ", ".join(dict.fromkeys(jsontext.canonical(branch.value) for branch in standing)) or "nothing"
        raise InvalidInput(
            f"it is none of the values of '{record.identity.key}' that stand side by side ({what}): set it instead",
            field="value",
        )
    if len(chosen) == len(standing):
        raise InvalidInput(
            f"no other value of '{record.identity.key}' stands: nothing is to be resolved", field="value"
        )
    first = max(chosen, key=lambda branch: branch.authority.rank)
    others = [branch for branch in standing if not _same(branch, value)]
    return [first.source.event_id, *(branch.source.event_id for branch in others)]


def _same(branch: BranchAnswer, value: Any) -> bool:
    return jsontext.canonical(branch.value) == jsontext.canonical(value)
