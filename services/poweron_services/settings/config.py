"""The settings: read once from the environment, then passed on as values."""

import getpass
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from poweron_events.actor import Actor, Door
from poweron_events.fold.stage_specs import PROMPT_STAGES
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_projections.audit.verifier.answer_rules import milliseconds_of
from poweron_services.settings.action_variables import ActionVariables, SearchVariables, WebVariables
from poweron_services.settings.secret_settings import SecretSettings, setting_variables
from poweron_services.settings.setting_types import (
    MAX_PORT,
    action_patterns,
    command_of,
    has_usable_ports,
    host_and_port,
    is_broker,
    listed,
    wrong_address,
)

PREFIX: Final = "POWERON_"
PROTOCOL: Final = "POWERON_KAFKA_SECURITY_PROTOCOL"
CLOSE: Final = 0.85  # the similarity, of at most 1, from which a name counts as a misspelled setting
LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
PRICE: Final = re.compile(r"([^=,]+)=\s*([0-9]{1,6}(?:\.[0-9]{1,9})?)\s*,\s*([0-9]{1,6}(?:\.[0-9]{1,9})?)\s*(?:,|$)")
PRICES: Final = re.compile(f"(?:{PRICE.pattern})+")
DURATION: Final = re.compile(r"[1-9][0-9]{0,4}[smhd]")


def default_home() -> Path:
    """Return the folder in which PowerOn keeps its data by default."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "poweron"


def local_user() -> str:
    """Return the login name of the user of this machine."""
    with suppress(OSError, KeyError, ImportError):
        return getpass.getuser()
    return "unknown"


Provider = Literal["openai", "openai-responses", "anthropic", "mistral", "azure", "ollama"]
EMBEDDING_PROVIDERS: tuple[Provider, ...] = ("openai", "mistral", "ollama")
"""Providers of embedding models with OpenAI's interface."""
MODEL_KINDS: Final = frozenset({*get_args(Provider), "scripted"})
OCR_EXAMPLE: Final = "tesseract - - -l eng"
TOPIC_PREFIX: Final = re.compile("[A-Za-z0-9._-]{0,100}")
NEXT_MODEL: Final = re.compile(rf",\s*(?=builtin\b|(?:{'|'.join(sorted(MODEL_KINDS))}):)")
MAX_MODEL_NAME: Final = 1_000  # characters; a script is named by its path


KEY_VARIABLES: Final[dict[str, str]] = {
    "openai": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "azure": "AZURE_OPENAI_API_KEY",
    "ollama": "OLLAMA_API_KEY",
}
PLACE_VARIABLES: Final[dict[str, str]] = {
    "openai": "OPENAI_BASE_URL",
    "openai-responses": "OPENAI_BASE_URL",
    "anthropic": "ANTHROPIC_BASE_URL",
    "mistral": "MISTRAL_BASE_URL",
    "azure": "AZURE_OPENAI_ENDPOINT",
    "ollama": "OLLAMA_BASE_URL",
}
"""The variables with each provider's key and address."""


class ProviderSettings(SecretSettings):
    """The addresses and credentials of language model providers, in their usual variables."""

    model_config = SettingsConfigDict(env_ignore_empty=True, frozen=True, extra="ignore", str_strip_whitespace=True)

    openai_api_key: SecretStr | None = None
    openai_base_url: SecretStr | None = None
    openai_api_version: str | None = None
    """The API version of Azure."""
    anthropic_api_key: SecretStr | None = None
    anthropic_base_url: SecretStr | None = None
    mistral_api_key: SecretStr | None = None
    mistral_base_url: SecretStr | None = None
    azure_openai_api_key: SecretStr | None = None
    azure_openai_endpoint: SecretStr | None = None
    ollama_api_key: SecretStr | None = None
    ollama_base_url: SecretStr | None = None


class Settings(SecretSettings, ActionVariables, SearchVariables, WebVariables):
    """All settings, as `POWERON_…` in the environment."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="forbid", secrets_dir=None
    )

    home: Path = Field(default_factory=default_home)
    kafka: str | None = None
    """Bootstrap servers; unset: an embedded Kafka."""
    kafka_prefix: str = ""
    kafka_session_timeout_ms: int = Field(default=6_000, ge=1_000, le=10_000)
    """The time until the partitions of a killed process are reassigned; the broker has its own lower limit."""
    kafka_replication_factor: int | None = Field(default=None, ge=1)
    """The replication of topics that PowerOn creates; unset: the brokers' default."""
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
    """Must be 0 if Postgres is behind a connection pooler such as PgBouncer."""
    bi_role: str | None = None
    """A Postgres role that may read the views of `bi` and nothing else; unset: only their owner may."""
    content: str | None = None
    """Folder or URL of the content store; unset: a folder in `home`."""
    content_keys: str | None = None
    """Folder or URL of a second store, for the keys of workflows, whose content is then encrypted; unset: not."""
    ledger_key: SecretStr | None = None
    """The secret, 64 hexadecimal digits, that signs the ledger's checkpoints; unset: a file in `home`."""
    ledger_origin: str | None = Field(default=None, pattern=r"^[^\s+]{1,200}$")
    """The name of the ledger, best a domain and a path; unset: one that follows from its key."""
    audit_max_lag: str = "1m"
    """How long a record may wait for its entry in the ledger before `audit status` fails: a number of `s` to `d`."""
    audit_max_checkpoint_age: str = "2h"
    """The same for the age of the newest checkpoint; an idle ledger signs every hour."""
    audit_max_witness_age: str = "2h"
    """The same for the age of the newest cosignature of the witnesses, if there are any."""
    ledger_policy: Path | None = None
    """A file with the witnesses of the ledger, in the format C2SP `tlog-policy`; unset: it has none."""
    connections: Path | None = None
    """A TOML file with the connections that actions may use, the same for all processes."""
    model: str = "builtin"
    """`builtin`, `PROVIDER:MODEL`, or `scripted:FILE` to answer from a script; of several, separated by commas, each is
    the fallback for those before it."""
    model_plan: str | None = None
    """Overrides `model` for this stage, as the next fields do for theirs."""
    model_plan_actions: str | None = None
    model_select: str | None = None
    model_parameterize: str | None = None
    model_refine: str | None = None
    model_review: str | None = None
    model_process: str | None = None
    model_message: str | None = None
    model_parameters: str | None = None
    """The old name of `model_parameterize`, for this release only."""
    embeddings: str = "packaged"
    """The embeddings with which the built-in model compares the meanings of texts: `packaged`, `none`, or
    `PROVIDER:MODEL` with OpenAI's interface."""
    model_output: Literal["native", "tool", "prompted"] | None = None
    """How the form of the answer is given to a model; unset: the way that is known to work best for it."""
    model_timeout: float = Field(default=120, gt=0, le=3_600)
    """Seconds in which a model must answer one request.

    It does not extend the time limit of a stage (from the request, 300 s by default), of an action that calls a model
    (from the catalog, 1,800 s) or of the final message (60 s).
    """
    model_max_tokens: int = Field(default=16_000, ge=100, le=1_000_000)
    """The most tokens that a model may write at once, even if a budget leaves more."""
    model_window: int | None = Field(default=None, ge=1_000, le=100_000_000)
    """The tokens that a model accepts at once, prompt and answer together; unset: the known value, else 32,000."""
    model_price: str = ""
    """Prices of models in US dollars per million tokens, as `MODEL=PROMPT,ANSWER`, separated by commas."""
    unpriced_models: Literal["refuse", "allow"] = "refuse"
    """Whether a money budget is accepted if a model in use has no price, which then counts as free."""
    actor: str = Field(default_factory=local_user, min_length=1, max_length=255)
    """Who acts with these settings; unset: the login name of the user of this machine."""
    language: str | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    concurrency: int = Field(default=64, ge=1)
    """The number of work items, and also of actions, that one process handles at a time."""
    document_readers: int | None = Field(default=None, ge=1)
    """The number of documents that one process reads at a time; unset: as many as the machine can afford."""
    ocr: str = ""
    """A command that reads a picture and writes its text: `tesseract - - -l eng`; unset: pictures are not read."""
    max_open: int = Field(default=1_000, ge=1)
    """The number of workflows that may be open before further requests wait in Kafka."""
    otel_endpoint: str | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT")
    """A collector that accepts spans over HTTP; unset: there are no spans."""
    metrics: str | None = None
    """The address, `HOST:PORT`, at which services answer metrics and probes; unset: they answer none."""
    approve: str = ""
    """The actions that wait for a user's approval, separated by commas: `web.*`, `ai.process`, or `*` for all."""
    door_requests: int = Field(default=600, ge=1, le=1_000_000)
    """The number of requests that a key may send to a door in a minute."""
    door_uploads: int = Field(default=60, ge=1, le=1_000_000)
    """The number of requests with files among them."""
    door_streams: int = Field(default=50, ge=1, le=100_000)
    """The number of streams that a key may have at a time."""
    mcp: Path | None = None
    """A file with tool servers, in the format of other MCP clients; unset: there are none."""
    approval_expires: str = "7d"
    """How long to wait for an approval: a whole number of `s`, `m`, `h` or `d`."""

    @model_validator(mode="before")
    @classmethod
    def _take_old_names(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("model_parameters"):
            return {"model_parameterize": values["model_parameters"], **values}
        return values

    @field_validator("ocr")
    @classmethod
    def _is_a_command(cls, ocr: str) -> str:
        if ocr.strip():
            command_of(ocr, like=OCR_EXAMPLE)
        return ocr

    @field_validator("approve")
    @classmethod
    def _are_patterns(cls, approve: str) -> str:
        action_patterns(approve)
        return approve

    @field_validator("model_price")
    @classmethod
    def _are_prices(cls, prices: str) -> str:
        if prices.strip() and not PRICES.fullmatch(prices):
            raise ValueError(f"{prices!r} is no price; write `openai:MODEL=2.5,10`, in dollars for a million tokens")
        for model in _parse_prices(prices):
            if model.partition(":")[0] not in get_args(Provider):
                raise ValueError(f"{model!r} is no model of a provider; name it as in POWERON_MODEL: `openai:MODEL`")
        return prices

    @field_validator("kafka")
    @classmethod
    def _is_a_list_of_brokers(cls, brokers: str | None) -> str | None:
        if brokers is not None and not all(map(is_broker, brokers.split(","))):
            raise ValueError(
                f"{brokers!r} is no list of brokers; write it like `kafka-1:9092,kafka-2:9092`, "
                f"with ports from 1 to {MAX_PORT}"
            )
        return brokers

    @field_validator("kafka_prefix")
    @classmethod
    def _begins_a_topic(cls, prefix: str) -> str:
        if not TOPIC_PREFIX.fullmatch(prefix):
            raise ValueError(
                f"{prefix!r} begins no topic; it may have 100 letters and digits of ASCII, `.`, `_` and `-`"
            )
        return prefix

    @field_validator("postgres")
    @classmethod
    def _is_a_database(cls, dsn: SecretStr | None) -> SecretStr | None:
        if dsn is not None and not dsn.get_secret_value().startswith(("postgresql://", "postgres://")):  # not shown
            raise ValueError("that is no address of Postgres; write it like `postgresql://user@host:5432/database`")
        if dsn is not None and not has_usable_ports(dsn.get_secret_value()):
            raise ValueError(
                f"its port is not a number from 1 to {MAX_PORT}, or its password holds `/`, `?` or `#`: write these as "
                "%2F, %3F and %23"
            )
        return dsn

    @field_validator("kafka_sasl_username", "kafka_sasl_password")
    @classmethod
    def _is_login(cls, value: Any, info: ValidationInfo) -> Any:
        protocol = str(info.data.get("kafka_security_protocol", ""))
        if value and not protocol.startswith("SASL"):
            raise ValueError(f"it is used only with {PROTOCOL}=SASL_SSL or SASL_PLAINTEXT; set that too, or unset this")
        if not value and protocol.startswith("SASL"):
            raise ValueError(f"{PROTOCOL}={protocol} needs it; set it, or another protocol")
        return value

    @field_validator("kafka_ca_file", "kafka_certificate_file", "kafka_key_file")
    @classmethod
    def _is_for_tls(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is not None and not str(info.data.get("kafka_security_protocol", "SSL")).endswith("SSL"):
            raise ValueError(f"it is used only with {PROTOCOL}=SSL or SASL_SSL; set that too, or unset this")
        return file

    @field_validator("approval_expires", "audit_max_lag", "audit_max_checkpoint_age", "audit_max_witness_age")
    @classmethod
    def _is_a_duration(cls, expires: str) -> str:
        if not DURATION.fullmatch(expires):
            raise ValueError(f"{expires!r} is no duration; write it like `30m`, `12h` or `7d`")
        return expires

    @field_validator("metrics")
    @classmethod
    def _is_a_place(cls, place: str | None) -> str | None:
        if place is not None:
            host_and_port(place)
        return place

    @field_validator("otel_endpoint")
    @classmethod
    def _is_a_collector(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and wrong_address(endpoint):  # not shown: it may hold a password
            raise ValueError("that is no address of a collector; write it like `http://localhost:4318`")
        return endpoint

    @field_validator("language")
    @classmethod
    def _is_a_language(cls, tag: str | None) -> str | None:
        if tag is not None and (wrong := wrong_language(tag)) is not None:
            raise ValueError(wrong)
        return tag

    @field_validator("model", *[f"model_{stage}" for stage in PROMPT_STAGES])
    @classmethod
    def _are_models(cls, models: str | None) -> str | None:
        if models is None:
            return None
        for model in _in_turn(models):
            kind, _, name = model.partition(":")
            if model != "builtin" and (kind not in MODEL_KINDS or not name or ("," in name and kind != "scripted")):
                kinds = ", ".join(f"`{provider}:MODEL`" for provider in get_args(Provider))
                raise ValueError(f"{model!r} is no model: it must be `builtin`, {kinds} or `scripted:FILE`")
            if not (model.isprintable() and len(name) <= MAX_MODEL_NAME):
                raise ValueError(f"the name of a model must be printable and at most {MAX_MODEL_NAME} characters long")
        return models

    @field_validator("embeddings")
    @classmethod
    def _is_an_embedder(cls, embeddings: str) -> str:
        kind, _, name = embeddings.partition(":")
        if embeddings not in ("packaged", "none") and (kind not in EMBEDDING_PROVIDERS or not name):
            kinds = ", ".join(f"`{provider}:MODEL`" for provider in EMBEDDING_PROVIDERS)
            raise ValueError(f"{embeddings!r} is no embedder: it must be `packaged`, `none`, {kinds}")
        return embeddings

    @property
    def deprecated(self) -> str | None:
        """A sentence that says that a setting has a new name; None if no old name is in use."""
        if self.model_parameters is None:
            return None
        return "POWERON_MODEL_PARAMETERS is now called POWERON_MODEL_PARAMETERIZE; the next release takes that only."

    def with_model(self, name: str) -> Self:
        """Return these settings with one model for every stage.

        Raises:
            ValidationError: it is not a valid model name, as for POWERON_MODEL.
        """
        stages = {f"model_{stage}": None for stage in (*PROMPT_STAGES, "parameters")}
        return self.model_copy(update={"model": Settings(model=name).model, **stages})

    @property
    def models(self) -> dict[str, tuple[str, ...]]:
        """The models of every stage in the order in which they are asked, by the stage's name."""
        return {stage: _in_turn(getattr(self, f"model_{stage}") or self.model) for stage in PROMPT_STAGES}

    @property
    def named_models(self) -> list[str]:
        """All models in use, without duplicates."""
        return list(dict.fromkeys(name for names in self.models.values() for name in names))

    @property
    def provided_models(self) -> list[str]:
        """All models of providers in use, without duplicates."""
        return [name for name in self.named_models if name.partition(":")[0] in get_args(Provider)]

    @property
    def prices(self) -> dict[str, tuple[Decimal, Decimal]]:
        """The configured prices by model name: US dollars per million tokens of prompt and of answer."""
        return _parse_prices(self.model_price)

    @property
    def content_place(self) -> str:
        return self.content or str(self.home / "content")

    @property
    def content_places(self) -> tuple[str, str | None]:
        """Where content is, and where the keys of encrypted content are."""
        return self.content_place, self.content_keys

    def acting_through(self, door: Door) -> Actor:
        """Return who acts through a door with these settings: a claim, since nothing proves it."""
        return Actor(id=self.actor, via=door)

    @property
    def approve_patterns(self) -> frozenset[str]:
        return frozenset(listed(self.approve))

    @property
    def ocr_command(self) -> tuple[str, ...] | None:
        return command_of(self.ocr, like=OCR_EXAMPLE) if self.ocr.strip() else None

    @property
    def approval_expires_ms(self) -> int:
        return milliseconds_of(self.approval_expires)

    @property
    def named_kafka(self) -> KafkaSettings | None:
        """The settings of every Kafka client; None if no Kafka is configured."""
        return None if self.kafka is None else self.clients_of(self._login(self.kafka))

    def clients_of(self, kafka: KafkaSettings) -> KafkaSettings:
        """Return the settings of every client of this Kafka: the login is its own, all else comes from here."""
        return replace(
            kafka,
            replication_factor=self.kafka_replication_factor,
            session_timeout_ms=self.kafka_session_timeout_ms,
            prefix=self.kafka_prefix,
        )

    def _login(self, bootstrap: str) -> KafkaSettings:
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
        )


def misspelled(environment: Iterable[str]) -> list[str]:
    """Return a sentence for each variable that resembles a setting but is none, naming the closest setting."""
    known = set(setting_variables(Settings))
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    closest = {name: get_close_matches(name, known, n=1, cutoff=CLOSE) for name in unknown}
    return [
        f"{name} is no setting, and is ignored; there is {matches[0]}." for name, matches in closest.items() if matches
    ]


def _in_turn(models: str) -> tuple[str, ...]:
    """Return the models in a setting; a comma in the path of a script does not separate models."""
    return tuple(dict.fromkeys(name.strip() for name in NEXT_MODEL.split(models)))


def _parse_prices(prices: str) -> dict[str, tuple[Decimal, Decimal]]:
    return {model.strip(): (Decimal(prompt), Decimal(answer)) for model, prompt, answer in PRICE.findall(prices)}


def wrong_language(tag: str) -> str | None:
    """Return why this is not a language tag, as a sentence without its full stop; None if it is one."""
    if LANGUAGE.fullmatch(tag):
        return None
    return f"{tag!r} is not the tag of a language. Examples are en, de and pt-BR"


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
