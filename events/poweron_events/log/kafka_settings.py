"""Where Kafka is and how to log in: the one place from which every Kafka client gets its options."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from poweron_events.errors import Refused
from poweron_events.secret_files import configured_secret

CLIENT_ID: Final = "poweron"
LEADER_TIMEOUT = 30.0  # seconds for a new topic to get its leaders
REQUEST_TIMEOUT = 10.0  # seconds until the outcome of a request counts as unknown

_READ: Final = {"replication_factor": int, "session_timeout_ms": int}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where Kafka is and how to log in."""

    bootstrap: str
    security_protocol: str = "PLAINTEXT"  # or SSL, SASL_PLAINTEXT, SASL_SSL
    sasl_mechanism: str = "PLAIN"  # or SCRAM-SHA-256, SCRAM-SHA-512
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    replication_factor: int | None = None  # of the topics that PowerOn creates; None: the brokers' default
    session_timeout_ms: int = 6_000  # after this, the partitions of a killed member move on
    prefix: str = ""  # of the names of topics and groups: several PowerOns can share one Kafka

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "KafkaSettings":
        """Read the settings from the variables `POWERON_KAFKA…`, as PowerOn does; an empty variable counts as not set.

        Raises:
            ValueError: the password file cannot be used, or a number is invalid.
        """
        given = {each.name: environment.get(_variable(each.name)) for each in fields(cls)}
        given["sasl_password"] = configured_secret(_variable("sasl_password"), environment)
        known: dict[str, Any] = {name: _READ.get(name, str)(value) for name, value in given.items() if value}
        return cls(**{"bootstrap": "localhost:9092", **known})

    def environment(self) -> dict[str, str]:
        """Return the variables that give a process the same settings, including the password; defaults are left out."""
        said = {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }
        return {_variable(name): str(value) for name, value in said.items()}

    def physical(self, name: str) -> str:
        """Return the name of a topic or group on the broker."""
        return self.prefix + name

    def client_options(self) -> dict[str, Any]:
        """Return the options that every client is built with.

        Raises:
            Refused: they are unusable: a file that does not exist, a user without a password.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": CLIENT_ID,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": int(REQUEST_TIMEOUT * 1000),
        }
        if self.security_protocol.startswith("SASL"):
            if not (self.sasl_username and self.sasl_password):
                raise Refused(f"{self.security_protocol} needs the name and the password of a user of Kafka")
            options |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.sasl_username,
                "sasl_plain_password": self.sasl_password,
            }
        if self.security_protocol.endswith("SSL"):
            options["ssl_context"] = self._ssl_context()
        return options

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.certificate_file:
                context.load_cert_chain(self.certificate_file, self.key_file, password=lambda: "")
        except OSError as error:
            files = ", ".join(repr(file) for file in (self.ca_file, self.certificate_file, self.key_file) if file)
            raise Refused(f"the certificates or the key for Kafka cannot be used ({files}): {error}") from error
        return context


def _variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return "POWERON_KAFKA" if name == "bootstrap" else f"POWERON_KAFKA_{name.upper()}"
