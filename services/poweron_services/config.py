"""The settings: read once from the environment, then passed on as values."""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from poweron_events.log.kafka_settings import KafkaSettings


def default_home() -> Path:
    """Where PowerOn keeps its data unless told otherwise."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "poweron"


class Settings(BaseSettings):
    """Everything that can be set, as `POWERON_…` in the environment."""

    model_config = SettingsConfigDict(
        env_prefix="POWERON_", env_ignore_empty=True, frozen=True, extra="forbid", secrets_dir=None
    )

    home: Path = Field(default_factory=default_home)
    kafka: str | None = None
    """Bootstrap servers; unset: an embedded Kafka."""
    kafka_prefix: str = ""
    kafka_session_timeout_ms: int = Field(default=6_000, ge=1_000, le=10_000)
    """After this the partitions of a killed process move on; the broker has a lower limit of its own."""
    kafka_replication_factor: int = Field(default=1, ge=1)
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    kafka_ca_file: Path | None = None
    kafka_certificate_file: Path | None = None
    kafka_key_file: Path | None = None
    postgres: SecretStr | None = None
    """DSN; unset: an embedded Postgres."""
    postgres_statement_cache: int = Field(default=100, ge=0)
    """0 where a connection pooler such as PgBouncer stands before Postgres."""
    content: str | None = None
    """Folder or URL of the content store; unset: a folder in `home`."""
    model: str = "builtin"
    """`builtin`, or `scripted:FILE` to answer from a script."""
    language: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    concurrency: int = Field(default=64, ge=1)
    """How many pieces of work, and how many actions, one process does at a time."""
    max_open: int = Field(default=1_000, ge=1)
    """How many workflows may be open before further requests wait in Kafka."""

    @field_validator("model")
    @classmethod
    def _is_a_model(cls, model: str) -> str:
        kind, _, file = model.partition(":")
        if model != "builtin" and not (kind == "scripted" and file):
            raise ValueError(f"{model!r} is neither `builtin` nor `scripted:FILE`")
        return model

    @property
    def content_place(self) -> str:
        return self.content or str(self.home / "content")

    def kafka_settings(self, bootstrap: str) -> KafkaSettings:
        """The settings of every Kafka client."""
        password = self.kafka_sasl_password
        return KafkaSettings(
            bootstrap=bootstrap,
            security_protocol=self.kafka_security_protocol,
            sasl_mechanism=self.kafka_sasl_mechanism,
            sasl_username=self.kafka_sasl_username,
            sasl_password=password.get_secret_value() if password else None,
            ca_file=_text(self.kafka_ca_file),
            certificate_file=_text(self.kafka_certificate_file),
            key_file=_text(self.kafka_key_file),
            replication_factor=self.kafka_replication_factor,
            session_timeout_ms=self.kafka_session_timeout_ms,
            prefix=self.kafka_prefix,
        )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
