"""Who and what an event is about: owner, scope, key. Exact: no folding of case or Unicode, no prefixes."""

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote, unquote

from lastword_schemas import limits
from lastword_schemas.errors import InvalidInput

OwnerKind = Literal["user", "org"]
GLOBAL: Final = "global"
"""The scope that every scope chain ends in."""

_OWNER = re.compile(r"(?:([a-z0-9][a-z0-9._-]*)/)?(user|org):(.+)", re.DOTALL)
_SCOPE = re.compile(r"[a-z][a-z0-9_-]*:.+", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Owner:
    """The person or organisation that a memory belongs to.

    Canonical text: `<tenant>/<kind>:<id>`, for example `main/user:ada`. The id may hold any printable characters, "/"
    and ":" too; the text is unambiguous because a tenant and a kind hold neither.
    """

    tenant: str
    kind: OwnerKind
    id: str

    @classmethod
    def parse(cls, text: str) -> "Owner":
        """Read `user:ada` (tenant `main`) or `acme/user:ada`. Raises InvalidInput with field `owner`."""
        match = _OWNER.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"owner {_shown(text)} is not of the form 'user:<id>', 'org:<id>' or '<tenant>/user:<id>'",
                field="owner",
            )
        tenant, kind, ident = match.group(1) or "main", match.group(2), match.group(3)
        if len(tenant) > limits.MAX_TENANT_LENGTH:
            raise InvalidInput(f"the tenant is longer than {limits.MAX_TENANT_LENGTH} characters", field="owner")
        _check_text(ident, "owner", limits.MAX_OWNER_ID_BYTES)
        return cls(tenant, "user" if kind == "user" else "org", ident)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.kind}:{self.id}"


def check_scope(text: str) -> str:
    """`text` if it is a scope: `global` or `<kind>:<name>`. Raises InvalidInput with field `scope`."""
    if text != GLOBAL and _SCOPE.fullmatch(text) is None:
        raise InvalidInput(
            f"scope {_shown(text)} is neither 'global' nor '<kind>:<name>', such as 'project:Comet'", field="scope"
        )
    return _check_text(text, "scope", limits.MAX_SCOPE_BYTES)


def check_key(text: str) -> str:
    """`text` if it is a key: a name such as `mail.tone`. Raises InvalidInput with field `key`."""
    if not text:
        raise InvalidInput("key is empty; name what the value is about, such as 'mail.tone'", field="key")
    return _check_text(text, "key", limits.MAX_KEY_BYTES)


def check_name(text: str, field: str) -> str:
    """`text` if it can name a service, a thread or a message. Raises InvalidInput with the field given."""
    if not text or len(text) > limits.MAX_SERVICE_LENGTH:
        raise InvalidInput(f"{field} must have 1 to {limits.MAX_SERVICE_LENGTH} characters", field=field)
    return _check_text(text, field, 4 * limits.MAX_SERVICE_LENGTH)


def record_key(owner: str, scope: str, key: str | None) -> str:
    """The Kafka record key: owner, scope and key, each percent-encoded, joined by "/".

    A turn has no key: its record key ends in "/". Every byte outside RFC 3986's unreserved set is encoded, so that a
    "/" inside a part never meets the separator. Source: RFC 3986, sections 2.1 and 2.3.
    """
    return "/".join(quote(part, safe="") for part in (owner, scope, key or ""))


def parse_record_key(text: str) -> tuple[str, str, str | None]:
    """Owner, scope and key of a record key. Raises InvalidInput where it has not three parts, each of UTF-8."""
    parts = text.split("/")
    if len(parts) != 3:
        raise InvalidInput(f"record key {_shown(text)} has not the three parts owner/scope/key", field="key")
    try:
        owner, scope, key = (unquote(part, errors="strict") for part in parts)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"record key {_shown(text)} is not percent-encoded UTF-8", field="key") from error
    return owner, scope, key or None


def scope_chain(scope: str, *, fallback: bool = True) -> tuple[str, ...]:
    """The default precedence: the exact scope, then global; without a fallback the exact scope alone."""
    return (scope, GLOBAL) if fallback and scope != GLOBAL else (scope,)


def _check_text(text: str, field: str, max_bytes: int) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{field} holds a lone surrogate, which is not Unicode text", field=field) from error
    if size > max_bytes:
        raise InvalidInput(f"{field} has {size} bytes; at most {max_bytes} are allowed", field=field)
    if (found := _CONTROL.search(text)) is not None:
        raise InvalidInput(f"{field} holds the control character U+{ord(found.group()):04X}", field=field)
    return text


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:77] + "...")
