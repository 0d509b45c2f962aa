"""Settings: one frozen class a deployable, read from environment variables with the prefix LASTWORD_."""

import json
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

if TYPE_CHECKING:
    from lastword_producers.broker import KafkaSettings

DEFAULT_API_PORT = 7411
DEFAULT_KAFKA_PORT = 7412
DEFAULT_REDIS_PORT = 7413
DEFAULT_WORKER_PORT = 7414
DEFAULT_AUDITOR_PORT = 7415
DEFAULT_EXTRACTOR_PORT = 7416
DEFAULT_RECONCILER_PORT = 7417
"""Where the local launcher puts its parts, and where the settings look by default."""

_CONFIG = SettingsConfigDict(env_prefix="LASTWORD_", frozen=True, extra="ignore", use_attribute_docstrings=True)


class ConnectionSettings(BaseSettings):
    """How to reach Kafka and Redis."""

    model_config = SettingsConfigDict(
        env_prefix="LASTWORD_", frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    kafka: str = f"127.0.0.1:{DEFAULT_KAFKA_PORT}"
    """Bootstrap servers of Kafka: `host:port`, several separated by commas."""
    topic: str = "lastword.events"
    """The history topic."""
    dead_letter_topic: str = "lastword.dead-letters"
    """Where records go that cannot be given to an owner."""
    changes_topic: str = "lastword.changes"
    """Where changes are told; empty: nowhere."""
    contexts_topic: str = "lastword.contexts"
    """Where contexts are stored; empty: nowhere."""
    contexts_days: int = Field(default=90, ge=1)
    """Days that contexts are kept, where `lastword topics create` makes their topic; later the topic says it."""
    kafka_extra: dict[str, str] = Field(default_factory=dict, repr=False)
    """More librdkafka settings as a JSON object, such as `{"security.protocol": "SASL_SSL", ...}`. Never shown."""
    redis: SecretStr = SecretStr(f"redis://127.0.0.1:{DEFAULT_REDIS_PORT}/0")
    """URL of Redis or Valkey. Never shown: it may hold a password."""
    namespace: str = "main"
    """Which projection of the log in Redis: lower-case letters, digits, `-` and `_`."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """How much is logged."""
    log_format: Literal["text", "json"] = "text"
    """`json`: one JSON object a line, see docs/operations.md."""

    @property
    def kafka_settings(self) -> "KafkaSettings":
        """The same, as the producers take it."""
        from lastword_producers.broker import KafkaSettings  # here, because most commands have no need of Kafka

        return KafkaSettings(
            self.kafka,
            self.topic,
            self.dead_letter_topic,
            self.changes_topic,
            self.kafka_extra,
            self.contexts_topic,
            self.contexts_days,
        )

    def environment(self) -> dict[str, str]:
        """The variables that make a child process read exactly these settings, whatever this process's own say."""
        variables = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, SecretStr):
                value = value.get_secret_value()
            variables[f"LASTWORD_{name.upper()}"] = json.dumps(value) if isinstance(value, dict) else str(value)
        return variables


class WorkerSettings(ConnectionSettings):
    """A projector worker."""

    group: str = "lastword-projector"
    """The consumer group; workers of one group share the partitions."""
    group_protocol: Literal["auto", "consumer", "classic"] = "auto"
    """`auto` asks the broker, in plaintext; behind TLS or SASL say which."""
    worker_host: str = "127.0.0.1"
    """Where `/healthz` of the worker listens."""
    worker_port: int = Field(default=DEFAULT_WORKER_PORT, ge=0, le=65_535)
    """The port of it; 0 = any free one, which is logged."""


class AuditorSettings(ConnectionSettings):
    """A continuous auditor."""

    auditor_rate: float = Field(default=2_000, ge=1)
    """Records of the log, and entries and events of owners, that it looks at in a second, at most."""
    auditor_round_s: float = Field(default=300, ge=0)
    """Seconds from the beginning of a round through all partitions to that of the next, at least."""
    auditor_host: str = "127.0.0.1"
    """Where its `/healthz` and `/metrics` listen."""
    auditor_port: int = Field(default=DEFAULT_AUDITOR_PORT, ge=0, le=65_535)
    """The port of them; 0 = any free one, which is logged."""


class ExtractorSettings(ConnectionSettings):
    """An extractor in the background."""

    extractor: Literal["rules", "endpoint"] = "rules"
    """`rules`: by grammar, for English. `endpoint`: by the model behind an OpenAI-compatible endpoint."""
    extractor_group: str = "lastword-extractor"
    """The consumer group; extractors of one group share the partitions."""
    extractor_session_s: float = Field(default=10, ge=1)
    """Seconds without a sign of life after which its partitions are given to others; Kafka allows 6 or more."""
    extractor_concurrency: int = Field(default=8, ge=1, le=1_000)
    """Turns that are read at once."""
    extractor_services: str = ""
    """Only turns of these services are read, separated by commas; empty: all turns."""
    extractor_namespaces: str = ""
    """First parts of keys, separated by commas, in which undeclared keys may be proposed: `notes` for `notes.hobby`."""
    extractor_url: str = "http://127.0.0.1:11434/v1"
    """Of an `endpoint`: what `/chat/completions` follows."""
    extractor_model: str = ""
    """Of an `endpoint`: the model's name."""
    extractor_api_key: SecretStr = SecretStr("")
    """Of an `endpoint`: sent as bearer token. Never shown."""
    extractor_timeout_s: float = Field(default=30, gt=0)
    """Of an `endpoint`: seconds for one answer."""
    extractor_retries: int = Field(default=2, ge=0)
    """Of an `endpoint`: how often it is asked again at once where its answer is late or of no use."""
    extractor_hourly_tokens: int = Field(default=1_000_000, ge=1)
    """Of an `endpoint`: tokens that may be used in an hour; then it waits."""
    extractor_host: str = "127.0.0.1"
    """Where its `/healthz` listens."""
    extractor_port: int = Field(default=DEFAULT_EXTRACTOR_PORT, ge=0, le=65_535)
    """The port of it; 0 = any free one, which is logged."""


class ReconcilerSettings(ConnectionSettings):
    """A reconciler. It follows the topic of changes."""

    reconciler_group: str = "lastword-reconciler"
    """The consumer group; reconcilers of one group share the partitions."""
    reconciler_session_s: float = Field(default=10, ge=1)
    """Seconds without a sign of life after which its partitions are given to others; Kafka allows 6 or more."""
    reconciler_host: str = "127.0.0.1"
    """Where its `/healthz` listens."""
    reconciler_port: int = Field(default=DEFAULT_RECONCILER_PORT, ge=0, le=65_535)
    """The port of it; 0 = any free one, which is logged."""


class ApiSettings(ConnectionSettings):
    """The HTTP API."""

    host: str = "127.0.0.1"
    """Where the API listens; loopback unless told otherwise: it asks nobody who they are yet."""
    port: int = Field(default=DEFAULT_API_PORT, ge=0, le=65_535)
    """The port of the API."""
    max_in_flight: int = Field(default=10_000, ge=1)
    """Events that may wait for Kafka's acknowledgement at once; more are refused with 503."""
    max_streams: int = Field(default=5_000, ge=0)
    """Streams of changes that may be open at once; more are refused with 503."""
    max_bytes_in_flight: int = Field(default=64 * 1024 * 1024, ge=1)
    """Bytes that they may have; the API needs about twice as much memory for them."""


class ClientSettings(BaseSettings):
    """The command line's reads and writes."""

    model_config = SettingsConfigDict(
        env_prefix="LASTWORD_", frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    url: str = f"http://127.0.0.1:{DEFAULT_API_PORT}"
    """Where the API is."""
