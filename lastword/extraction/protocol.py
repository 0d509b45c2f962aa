"""What an extractor is given and what it answers."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from lastword_schemas.authority import Authority
from lastword_schemas.errors import LastwordError

Span = tuple[int, int]
"""[start, end) in a message's text, in Unicode code points."""


class Why(StrEnum):
    """Why something in a message is not proposed as a memory."""

    ONE_OFF = "one-off"
    """An instruction for this answer, this task or a limited time."""
    QUOTED = "quoted"
    """Somebody else's words: in quotation marks, reported or pasted."""
    HYPOTHETICAL = "hypothetical"
    """What would be, might be, is wished for or played."""
    NEGATED = "negated"
    """What does not apply; nothing is said of what does."""
    OTHER_PERSON = "other-person"
    """It is about somebody else."""
    QUESTION = "question"
    """It is asked, not said."""
    PAST = "past"
    """It applied once."""
    NOT_YET = "not-yet"
    """It is to apply later, if nothing comes between."""
    SEVERAL_OWNERS = "several-owners"
    """It is said of several people at once: no one owner."""
    SEVERAL_SCOPES = "several-scopes"
    """It is said of several projects at once: no one scope."""
    OTHER_SCOPE = "other-scope"
    """A scope that it was not said in and that the message does not name."""
    SEVERAL_VALUES = "several-values"
    """Two values without a choice between them: not one fact."""
    SEVERAL_KEYS = "several-keys"
    """Two declared keys fit equally well."""
    TOO_LONG = "too-long"
    """It stands in a sentence too long to be read."""
    NO_KEY = "no-key"
    """No key is declared for it, so it would change no answer."""
    NO_VALUE = "no-value"
    """The key is named, and no value that its schema takes."""
    UNTRACEABLE = "untraceable"
    """No source that is in the log, or the quote does not stand at its span."""
    SENSITIVE = "sensitive"
    """Its class forbids that it is read from messages."""
    NOT_KEPT = "not-kept"
    """Its retention ends with the conversation."""
    RECALLED = "recalled"
    """Memory's own words, that were recalled into the prompt: no new evidence."""


class ExtractionFailed(LastwordError):
    """The message could not be read."""

    code = "extraction-failed"


class ExtractorUnavailable(ExtractionFailed):
    """The message could not be read now; later it may be."""

    code = "extractor-unavailable"
    retryable = True


@dataclass(frozen=True, slots=True)
class Message:
    """A turn, as an extractor gets to read it."""

    text: str
    owner: str = ""
    scope: str = "global"
    """Where it was said; what names no project of its own is proposed there."""
    source: str = ""
    """Event id or receipt of the turn in the log; without one nothing can be proposed."""
    recalled: tuple[str, ...] = ()
    """Texts that memory gave the prompt before this message."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reading of a message: what to remember."""

    key: str
    value: Any
    """A JSON value; None on a `delete`."""
    span: Span | None
    quote: str | None
    """The words at the span."""
    authority: Authority
    confidence: float
    scope: str = "global"
    operation: Literal["set", "delete"] = "set"


@dataclass(frozen=True, slots=True)
class NotProposed:
    """Something that looked like a memory and is none."""

    why: Why
    span: Span
    key: str | None = None
    """The key that it would have been of, where one was recognized."""
    detail: str = ""
    """In words, without the message's own."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """All that an extractor made of a message."""

    candidates: tuple[Candidate, ...] = ()
    refused: tuple[NotProposed, ...] = ()


class Extractor(Protocol):
    """Reads messages, in the background or on the hot path. It publishes nothing: whoever calls it does."""

    @property
    def name(self) -> str:
        """Its name and version, such as `rules-1`: the service that its candidates name. It is part of their event ids,
        so another version's readings are other events."""
        ...

    async def extract(self, message: Message) -> Extraction:
        """What the message says. May be called again for the same message, and for several at once.

        Raises ExtractorUnavailable where the message cannot be read now, ExtractionFailed where it cannot at all.
        """
        ...
