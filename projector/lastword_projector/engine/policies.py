"""The policies by which the events of a key fold, by the name that a declaration gives.

Each is a module with the same functions. `step` folds one more event into the entry, whatever the order of arrival, or
says `NEEDS_HISTORY`, and then `refold` does; `fold` makes the entry of all of a key's events. What `step` makes of them
one by one is what `fold` makes of them together.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from lastword_projector.engine import branch, latest
from lastword_projector.engine.records import Decided, Entry, Record
from lastword_projector.engine.steps import Step
from lastword_schemas.registry import Registry
from lastword_schemas.verdicts import Unresolved


class Policy(NamedTuple):
    """How the events of a key fold."""

    step: Callable[[Entry | None, Record], Step]
    """What one counting event does to the entry of its key."""
    refold: Callable[[Entry | None, Record, Iterable[Record], Sequence[Decided]], Step]
    """The same where the entry alone does not tell: with all counting events of the key before that one, and the
    resolves of it that count."""
    fold: Callable[[Iterable[Record], Sequence[Decided]], Entry | None]
    """The entry of one key from its counting events, in any order, and the resolves of it that count; None if there are
    no events."""
    is_told: Callable[[Entry, int], bool]
    """Whether events with a source sequence of at most the one given could not change an entry that was folded from
    all newer ones."""
    why: Callable[[Entry], Unresolved | None]
    """Why an entry is unresolved; None if it is not."""
    at: Callable[[Entry, int], Entry]
    """The entry as it reads at a moment (microseconds since 1970): without what has expired, unless all of it has."""
    expires_at: Callable[[Entry], int | None]
    """When what an entry says expires, microseconds since 1970; None: never."""


POLICIES: Final = {
    "latest": Policy(latest.step, latest.refold, latest.fold, latest.is_told, latest.why, latest.at, latest.expires_at),
    "branch": Policy(branch.step, branch.refold, branch.fold, branch.is_told, branch.why, branch.at, branch.expires_at),
}
"""By name: what `KeyDeclaration.policy` can be."""


def policy_name(entry: Entry | None, key: str, registry: Registry) -> str:
    """The name of an entry's policy: the one under which it began; where there is none yet, the key's in the
    registry."""
    return registry.policy_of(key) if entry is None else entry.policy


def policy_of(entry: Entry | None, key: str, registry: Registry) -> Policy:
    """The policy of an entry, as `policy_name`."""
    return POLICIES[policy_name(entry, key, registry)]
