"""The root of every error that lastword raises."""

from typing import Any, ClassVar


class LastwordError(ValueError):
    """Something in lastword went wrong."""

    code: ClassVar[str] = "error"
    """Stable, kebab-case name of the situation; the `code` of a problem document."""
    retryable: ClassVar[bool] = False
    """Whether the same call may succeed later without being changed."""

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        self.field = field
        """The offending field of the input (dotted path), where there is one."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Whatever the arguments of a subclass are, another process gets the error as it is."""
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def message(self) -> str:
        """The text for people: what is wrong and what to do next."""
        return str(self.args[0])

    def members(self) -> dict[str, Any]:
        """What the problem document of this error has besides the common members."""
        return {}


def _restored(kind: type[LastwordError], args: tuple[Any, ...], members: dict[str, Any]) -> LastwordError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(members)
    return error


class InvalidInput(LastwordError):
    """The input does not have the form that is asked for."""

    code = "malformed"


class NotYet(InvalidInput):
    """This build of lastword does not support that yet."""

    code = "not-yet"


class UnknownOperation(InvalidInput):
    """There is no such operation."""

    code = "unknown-operation"


class TooLarge(InvalidInput):
    """The input is larger than the limit."""

    code = "too-large"
