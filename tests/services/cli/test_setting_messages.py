"""What is said of a setting that cannot be used: what it is, what it may be, and what to do."""

import re
from typing import Literal, get_args, get_origin

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from poweron_services.cli.error_messages import explain_settings
from poweron_services.cli.main import app
from poweron_services.settings.config import Settings

A_MODEL = (
    "it must be `builtin`, `openai:MODEL`, `openai-responses:MODEL`, `anthropic:MODEL`, `mistral:MODEL`, "
    "`azure:MODEL`, `ollama:MODEL` or `scripted:FILE`"
)
UNUSABLE = {
    "POWERON_CONCURRENCY=abc": "'abc' is not a whole number of at least 1; set it to such a number, or leave it unset for 64.",
    "POWERON_CONCURRENCY=0": "'0' is not a whole number of at least 1; set it to such a number, or leave it unset for 64.",
    "POWERON_DOCUMENT_READERS=0": "'0' is not a whole number of at least 1; set it to such a number, or leave it unset.",
    "POWERON_KAFKA_SESSION_TIMEOUT_MS=1": (
        "'1' is not a whole number from 1,000 to 10,000; set it to such a number, or leave it unset for 6000."
    ),
    "POWERON_MODEL_TIMEOUT=0": (
        "'0' is not a number of more than 0 and at most 3,600; set it to such a number, or leave it unset for 120."
    ),
    "POWERON_MODEL_TIMEOUT=soon": (
        "'soon' is not a number of more than 0 and at most 3,600; set it to such a number, or leave it unset for 120."
    ),
    "POWERON_WEB_ENRICH=maybe": "'maybe' is neither true nor false; set it to one of them, or leave it unset for false.",
    "POWERON_OCR=/no/such": (
        "'/no/such' begins with no program of this machine; write it like `tesseract - - -l eng`."
    ),
    "POWERON_MODEL=gpt": f"'gpt' is no model: {A_MODEL}.",
    "POWERON_MODEL=scripted:": f"'scripted:' is no model: {A_MODEL}.",
    "POWERON_MODEL_PLAN=openai:": f"'openai:' is no model: {A_MODEL}.",
    "POWERON_MODEL_OUTPUT=xml": "'xml' is not one of 'native', 'tool', 'prompted'; set it to one of them, or leave it unset.",
    "OTEL_EXPORTER_OTLP_ENDPOINT=garbage": (
        "that is no address of a collector; write it like `http://localhost:4318`."
    ),
    **{
        f"POWERON_POSTGRES={dsn}": (
            "that is no address of Postgres; write it like `postgresql://user@host:5432/database`."
        )
        for dsn in ("nonsense", "localhost:5432", "mysql://root:secret@localhost/db")
    },
    **{
        f"POWERON_POSTGRES={dsn}": (
            "its port is not a number from 1 to 65535, or its password holds `/`, `?` or `#`: write these as %2F, %3F "
            "and %23."
        )
        for dsn in (
            "postgresql://u@h:99999/db",
            "postgres://u@h:x/db",
            "postgresql://u:a/b@h/db",
            "postgres://u@a,b:0/db",
        )
    },
    **{
        f"POWERON_KAFKA_SASL_{half}=x": (
            "it is used only with POWERON_KAFKA_SECURITY_PROTOCOL=SASL_SSL or SASL_PLAINTEXT; set that too, or unset this."
        )
        for half in ("USERNAME", "PASSWORD")
    },
    **{
        f"POWERON_KAFKA_{file}_FILE=/x.pem": (
            "it is used only with POWERON_KAFKA_SECURITY_PROTOCOL=SSL or SASL_SSL; set that too, or unset this."
        )
        for file in ("CA", "CERTIFICATE", "KEY")
    },
    "POWERON_LANGUAGE=klingon": "'klingon' is not the tag of a language. Examples are en, de and pt-BR.",
    **{
        f"POWERON_KAFKA={brokers}": f"'{brokers}' is no list of brokers; write it like `kafka-1:9092,kafka-2:9092`, "
        "with ports from 1 to 65535."
        for brokers in ("localhost:99999", "a:9092,b:0", "[::1]:70000", "localhost:abc", "localhost:-1", ":9092", "a,")
    },
    "POWERON_KAFKA_PREFIX=a prefix": (
        "'a prefix' begins no topic; it may have 100 letters and digits of ASCII, `.`, `_` and `-`."
    ),
    "POWERON_LOG_LEVEL=loud": (
        "'loud' is not one of 'debug', 'info', 'warning', 'error'; set it to one of them, or leave it unset for 'info'."
    ),
}


@pytest.mark.parametrize("setting", UNUSABLE)
@pytest.mark.parametrize("command", ["ask ?", "status", "serve", "workflows"])
def test_a_setting_that_cannot_be_used_is_named_with_what_is_wanted(
    command: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(name, value)
    ended = CliRunner().invoke(app, command.split())
    assert ended.exit_code == 2
    assert ended.stderr == f"A setting cannot be used: {name}: {UNUSABLE[setting]}\n"


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_protocol_with_a_login_needs_both_halves_of_it(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_KAFKA_SECURITY_PROTOCOL", protocol)
    monkeypatch.setenv("POWERON_KAFKA_SASL_USERNAME", "poweron")
    ended = CliRunner().invoke(app, ["serve"])
    assert ended.exit_code == 2
    assert f"POWERON_KAFKA_SASL_PASSWORD: POWERON_KAFKA_SECURITY_PROTOCOL={protocol} needs it; set it" in ended.stderr
    assert "USERNAME" not in ended.stderr


def _is_text(annotation: object) -> bool:
    """Whether any text is right for it, as far as its type says."""
    kinds = {annotation, *get_args(annotation)}
    return {int, float, bool}.isdisjoint(kinds) and all(
        get_origin(kind) is not Literal for kind in (annotation, *kinds)
    )


OF_FEW = [name for name, field in Settings.model_fields.items() if not _is_text(field.annotation)]


@pytest.mark.parametrize("name", OF_FEW)
def test_no_sentence_of_a_validator_reaches_anybody(name: str) -> None:
    with pytest.raises(ValidationError) as wrong:
        Settings(**{name: "none such"})
    said = explain_settings(wrong.value)
    assert said.startswith(f"POWERON_{name.upper()}: 'none such' is n")
    assert re.search(r"; set it to (such a number|one of them), or leave it unset( for [\w.']+)?$", said)
    assert all(word not in said for word in ("should be", "valid", "Input"))
