"""A secret may be in a file that its `…_FILE` variable names; nothing else about it changes."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from poweron_events.errors import Refused
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_events.object_store import bucket_secrets, open_store
from poweron_services.cli.main import app
from poweron_services.log_redaction import own_secrets
from poweron_services.settings.action_variables import SearchKeys
from poweron_services.settings.config import ProviderSettings, Settings, misspelled
from poweron_services.settings.secret_settings import SecretSettings, secret_variables

pytestmark = pytest.mark.req("R-03")

SECRET = "postgresql://ada:a-long-random-word@postgres/poweron"
VARIABLES: dict[str, tuple[type[SecretSettings], str]] = {
    variable: (settings, name)
    for settings in (Settings, ProviderSettings, SearchKeys)
    for name, variable in secret_variables(settings).items()
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    return path


def set_rest_of_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what a password for Kafka is used with."""
    monkeypatch.setenv("POWERON_KAFKA_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("POWERON_KAFKA_SASL_USERNAME", "poweron")


def test_the_secrets_are_those_of_all_settings() -> None:
    assert {"POWERON_POSTGRES", "POWERON_KAFKA_SASL_PASSWORD", "OPENAI_API_KEY", "TAVILY_API_KEY"} <= set(VARIABLES)


@pytest.mark.parametrize("variable", VARIABLES)
def test_every_secret_is_read_from_its_file_without_the_line_break(
    variable: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{variable}_FILE", str(file))
    if variable == "POWERON_KAFKA_SASL_PASSWORD":
        set_rest_of_login(monkeypatch)
    settings, name = VARIABLES[variable]
    value = getattr(settings(), name)
    assert isinstance(value, SecretStr)
    assert value.get_secret_value() == SECRET
    assert misspelled(os.environ) == []


def test_clients_of_kafka_and_of_buckets_read_them_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_rest_of_login(monkeypatch)
    monkeypatch.setenv("POWERON_KAFKA", "kafka:9092")
    monkeypatch.setenv("POWERON_KAFKA_SASL_PASSWORD_FILE", str(file))
    assert KafkaSettings.of(os.environ) == Settings().named_kafka
    assert KafkaSettings.of(os.environ).sasl_password == SECRET
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ada")
    environment = {"AWS_SECRET_ACCESS_KEY_FILE": str(file), "AWS_SESSION_TOKEN": "a-token"}
    assert bucket_secrets(environment) == {"AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "a-token"}
    store = open_store("s3://bucket/prefix", environment)
    assert store.config["secret_access_key"] == SECRET  # type: ignore[attr-defined]  # of the stub for all stores


@pytest.mark.parametrize("variable", [*(name for name in VARIABLES if name.endswith("API_KEY")), "POWERON_POSTGRES"])
def test_what_a_file_holds_is_hidden_like_what_a_variable_holds(
    variable: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{variable}_FILE", str(file))
    assert SECRET in own_secrets(Settings())


def test_a_file_is_read_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(file))
    first = ProviderSettings()
    file.unlink()
    assert ProviderSettings() == first


def an_absent_file(path: Path) -> str:
    return f"the file '{path}' cannot be read: No such file or directory. Name a file that the user of this process can read"


def a_folder(path: Path) -> str:
    path.mkdir()
    return f"the file '{path}' cannot be read: Is a directory. Name a file that the user of this process can read"


def an_empty_file(path: Path) -> str:
    path.write_text("\n")
    return f"the file '{path}' is empty: write the secret into it, or unset this variable"


def a_file_of_bytes(path: Path) -> str:
    path.write_bytes(b"\xff\xfe-a-long-random-word")
    return f"the file {path} is not text in UTF-8"


def a_huge_file(path: Path) -> str:
    path.write_text("x" * 100_001)
    return f"the file {path} has more than 100000 bytes"


@pytest.mark.parametrize("made", [an_absent_file, a_folder, an_empty_file, a_file_of_bytes, a_huge_file])
@pytest.mark.parametrize("variable", ["POWERON_POSTGRES", "OPENAI_API_KEY"])
@pytest.mark.parametrize("command", ["status", "serve"])
def test_a_file_that_cannot_be_used_is_named_and_its_content_is_not(
    command: str, variable: str, made: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(f"{variable}_FILE", str(tmp_path / "secret"))
    assert callable(made)
    wrong = made(tmp_path / "secret")
    ended = CliRunner().invoke(app, [command])
    assert (ended.exit_code, ended.stderr) == (2, f"A setting cannot be used: {variable}_FILE: {wrong}.\n")


def test_a_secret_that_is_set_twice_is_refused(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("POWERON_POSTGRES", SECRET)
    monkeypatch.setenv("POWERON_POSTGRES_FILE", str(file))
    ended = CliRunner().invoke(app, ["status"])
    wrong = "POWERON_POSTGRES is set as well: keep one of the two, and unset the other"
    assert (ended.exit_code, ended.stderr) == (2, f"A setting cannot be used: POWERON_POSTGRES_FILE: {wrong}.\n")
    with pytest.raises(Refused, match="AWS_SESSION_TOKEN_FILE: AWS_SESSION_TOKEN is set as well"):
        bucket_secrets({"AWS_SESSION_TOKEN": "a-token", "AWS_SESSION_TOKEN_FILE": str(file)})


def test_an_empty_variable_counts_as_not_set(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POWERON_POSTGRES", "")
    monkeypatch.setenv("POWERON_POSTGRES_FILE", str(file))
    monkeypatch.setenv("POWERON_KAFKA_SASL_PASSWORD_FILE", "")
    settings = Settings()
    assert settings.postgres == SecretStr(SECRET)
    assert settings.kafka_sasl_password is None
