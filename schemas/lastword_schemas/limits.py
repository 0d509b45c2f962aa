"""Every limit on sizes and lengths, in one place. The reference page lists them from here."""

from typing import Final

MAX_TENANT_LENGTH: Final = 63
"""Characters of a tenant's name (lower-case ASCII letters, digits, `.`, `_`, `-`)."""
MAX_OWNER_ID_BYTES: Final = 256
"""UTF-8 bytes of an owner's id."""
MAX_SCOPE_BYTES: Final = 256
"""UTF-8 bytes of a scope."""
MAX_KEY_BYTES: Final = 256
"""UTF-8 bytes of a key."""
MAX_SERVICE_LENGTH: Final = 128
"""Characters of a service's name, and of a thread's and a message's id."""
MAX_VALUE_BYTES: Final = 65_536
"""UTF-8 bytes of a value as compact JSON."""
MAX_VALUE_DEPTH: Final = 64
"""Levels of arrays and objects in a value."""
MAX_TEXT_LENGTH: Final = 32_768
"""Unicode code points of a turn's text."""
MAX_QUOTE_LENGTH: Final = 4_096
"""Unicode code points of a candidate's quote."""
MAX_RETIRES: Final = 16
"""Other keys that one `set` may retire."""
MAX_NAMES: Final = 64
"""Earlier events that one event may name, to withdraw them or to choose among them."""
MAX_BACKFILL: Final = 999_999
"""The greatest place of a backfilled statement among those of its key."""
MAX_EVENT_ID_LENGTH: Final = 256
"""Characters of an event id that is not a UUID (it becomes one)."""
MAX_EVENT_BYTES: Final = 262_144
"""Bytes of a whole envelope as it stands in the log."""
MAX_EVENTS_PER_CALL: Final = 1_000
"""Events in one `POST /v1/events` or `POST /v1/candidates` that is one JSON document."""
MAX_BODY_BYTES: Final = 8_388_608
"""Bytes of one HTTP request body that is one JSON document."""
MAX_LINE_BYTES: Final = 1_048_576
"""Bytes of one line of a request that is JSON lines; such a request may have any number of them."""
MAX_KEYS_PER_READ: Final = 500
"""Keys in one `POST /v1/values/read`."""
MAX_SCOPES_PER_READ: Final = 8
"""Scopes in the chain of one read."""
MAX_PAGE: Final = 1_000
"""Items in one page of a profile or a history."""
MAX_WAIT_MS: Final = 30_000
"""The longest wait, in milliseconds, that a read or a publish may ask for."""
MAX_ALIASES: Final = 32
"""Aliases of one declared key."""
MAX_ALIAS_LENGTH: Final = 256
"""Unicode code points of an alias."""
MAX_QUERY_LENGTH: Final = 32_768
"""Unicode code points of what is searched for: those of a turn's text."""
MAX_GROUPS_PER_SEARCH: Final = 32
"""Groups of keys that one search may be limited to."""
MAX_CONTEXT_TOKENS: Final = 32_768
"""Tokens that the prompt of one context may have."""
MAX_CONTEXT_ITEMS: Final = 100
"""Records that may be chosen for one context, keys that may be named for it, items of one check."""
MAX_CONTEXT_BYTES: Final = 1_000_000
"""Bytes of one context as it is stored, quotes of its sources included."""
MAX_OVERLAYS: Final = 32
"""Statements of the current turn that may be laid over one context."""
MAX_LEFT_OUT: Final = 100
"""Records that a context names of those that it leaves out; it counts all."""
MAX_REGISTRY_BYTES: Final = 524_288
"""Bytes of an applied key registry as compact JSON (it is one record in every partition)."""
