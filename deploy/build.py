"""Write the variables of all settings into compose.yaml: `uv run deploy/build.py`."""

from pathlib import Path
from typing import Final

from poweron_events.object_store import ENDPOINTS, SECRETS
from poweron_events.secret_files import SUFFIX
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import ProviderSettings, Settings
from poweron_services.settings.secret_settings import setting_variables

COMPOSE: Final = Path(__file__).with_name("compose.yaml")
BEGIN: Final = "    # Written by `uv run deploy/build.py`: every setting.\n"
END: Final = "    # The settings end here.\n"

IN_THE_CONTAINER: Final = {
    "POWERON_HOME": "/var/lib/poweron",
    "POWERON_METRICS": "0.0.0.0:9464",
}
"""The variables that are the same wherever the image runs, regardless of `.env`."""

DEFAULTS: Final = {
    "POWERON_KAFKA": "kafka:9092",
    "POWERON_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "POWERON_KAFKA_SASL_MECHANISM": "SCRAM-SHA-512",
    "POWERON_KAFKA_SASL_USERNAME": "poweron",
    "POWERON_KAFKA_SASL_PASSWORD_FILE": "/run/secrets/kafka_password",
    "POWERON_POSTGRES_FILE": "/run/secrets/poweron_postgres",
    "POWERON_CONTENT": "/var/lib/poweron/content",
}
"""The variables that the servers of compose.yaml need. `.env` can override each of them, even with an empty value."""

OF_LIBRARIES: Final = (
    "AWS_ACCESS_KEY_ID",
    *(name + end for name in SECRETS for end in ("", SUFFIX)),
    "AWS_REGION",
    *ENDPOINTS,
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_DISABLE_BULK_DELETE",
    "AWS_CONNECT_TIMEOUT",
    "AWS_TIMEOUT",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_RESOURCE_ATTRIBUTES",
)
"""The variables that the libraries for buckets and traces read themselves."""


def variables() -> list[str]:
    """Return every variable that PowerOn reads, in the order of the settings."""
    return [name for settings in (Settings, ProviderSettings, SearchKeys) for name in setting_variables(settings)] + [
        *OF_LIBRARIES
    ]


def environment() -> str:
    """Return the lines of compose.yaml that pass all variables to a service; those without a value only if set."""
    return "".join(f"    {name}: {_value(name)}".rstrip() + "\n" for name in variables())


def written(compose: str) -> str:
    """Return compose.yaml with the current variables."""
    before, _, rest = compose.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + environment() + END + after


def _value(name: str) -> str:
    if name in IN_THE_CONTAINER:
        return IN_THE_CONTAINER[name]
    return f"${{{name}-{DEFAULTS[name]}}}" if name in DEFAULTS else ""


if __name__ == "__main__":
    COMPOSE.write_text(written(COMPOSE.read_text(encoding="utf-8")), encoding="utf-8")
