"""ETags of answers: equal as long as the answer says the same, however far the projection has got meanwhile."""

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from lastword_schemas.answers import InspectionRecord, ProfileAnswer

_HOW_FAR: Final = {"known_at", "position_token"}
"""What moves with every event of the partition, whoever it is about."""
_OF_PROFILE: Final[Any] = dict.fromkeys((*_HOW_FAR, "next_page"), True) | {
    "entries": {"__all__": {"selection": _HOW_FAR}}
}


def etag_of_record(answer: InspectionRecord, text: str) -> str:
    """A weak ETag of an answer with this JSON text: two answers with the same one mean the same.

    Expiry that passes, another declaration of the key and a new scope that answers all show in the answer, and so here.
    """
    before, _, _ = text.rpartition(',"selection":')  # its last member, which quotes nobody
    return _weak(f"{before} {answer.selection.model_dump_json(exclude=_HOW_FAR)}")


def etag_of_profile(answer: ProfileAnswer) -> str:
    """The same for a page of a profile; whether another page follows is part of what it says."""
    return _weak(f"{answer.next_page is None} {answer.model_dump_json(exclude=_OF_PROFILE)}")


def _weak(told: str) -> str:
    return f'W/"{hashlib.blake2b(told.encode(), digest_size=12).hexdigest()}"'


def has_it(if_none_match: Sequence[str], etag: str) -> bool:
    """Whether the values of the If-None-Match header name this ETag, or any.

    Source: RFC 9110, section 13.1.2, with its weak comparison.
    """
    known = [tag.strip().removeprefix("W/") for value in if_none_match for tag in value.split(",")]
    return "*" in known or etag.removeprefix("W/") in known
