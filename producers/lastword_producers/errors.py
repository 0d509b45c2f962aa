"""Every error of the log and of publishing, one a situation."""

from lastword_schemas.errors import LastwordError


class BrokerUnavailable(LastwordError):
    """Kafka does not answer."""

    code = "broker-unavailable"
    retryable = True


class BrokerRefused(LastwordError):
    """Kafka answers, and refuses what it is asked for."""

    code = "broker-refused"


class LogNotReady(LastwordError):
    """The history topic or some of its genesis records do not exist yet."""

    code = "log-not-ready"
    retryable = True


class LogMismatch(LastwordError):
    """The history topic is not the log that it should be."""

    code = "log-mismatch"


class PublishFailed(LastwordError):
    """The event is certainly not in the log."""

    code = "publish-failed"

    def __init__(self, message: str, *, event_id: str | None = None) -> None:
        super().__init__(message)
        self.event_id = event_id
        """The event that was to be published."""


class Backpressure(PublishFailed):
    """Too many events are in flight; this one was not sent."""

    code = "backpressure"
    retryable = True


class PublisherClosed(PublishFailed):
    """The publisher is closed; the event was not sent."""

    code = "publisher-closed"


class UnknownOutcome(LastwordError):
    """The event may be in the log or not."""

    code = "unknown-outcome"
    retryable = True

    def __init__(self, event_id: str, reason: str) -> None:
        super().__init__(
            f"whether event {event_id} is in the log is not known ({reason}). Publish it again with the same event_id: "
            "if the first copy is there, the second changes nothing"
        )
        self.event_id = event_id
        """The id to publish the event with again."""


class UndeclaredKey(LastwordError):
    """The key registry does not declare the key."""

    code = "undeclared-key"

    def __init__(self, key: str, *, meant: str | None = None, field: str = "key") -> None:
        perhaps = "" if meant is None else f"say {meant!r} if that is meant, or "
        super().__init__(
            f"key {key!r} is not declared: {perhaps}add it to the key registry file (keys.toml) and run "
            "`lastword keys apply keys.toml`",
            field=field,
        )


class ValueSchema(LastwordError):
    """The value does not fit the schema of its key."""

    code = "value-schema"


class AuthorityTooLow(LastwordError):
    """The key asks for more authority than the event has."""

    code = "authority-too-low"
