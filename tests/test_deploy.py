"""What `deploy/` promises, as far as it can be checked without Docker."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from poweron_services.cli.main import app
from poweron_services.config import Settings
from poweron_services.secret_settings import setting_variables
from poweron_services.wiring import ROLES

HOUSE = Path(__file__).parent.parent
DEPLOY = HOUSE / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
EXAMPLE = (DEPLOY / "poweron.env.example").read_text()
RUNBOOK = (DEPLOY / "README.md").read_text()
KNOWN = set(setting_variables(Settings))


def played(command: list[str]) -> list[str]:
    """The roles of a `serve` command, as its own parser understands it."""
    name, *arguments = command
    context = typer.main.get_group(app).commands[name].make_context(name, list(arguments))
    return [str(role) for role in context.params["role"] or ROLES]


def test_every_role_is_played_by_exactly_one_service() -> None:
    assert sorted(role for service in OURS.values() for role in played(service["command"])) == sorted(ROLES)


def test_the_table_of_services_says_who_plays_what() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", RUNBOOK, re.MULTILINE))
    assert {name: rows[name].split(", ") for name in OURS} == {
        name: played(service["command"]) for name, service in OURS.items()
    }
    assert set(rows) == set(SERVICES)


@pytest.mark.parametrize("text", [(DEPLOY / "compose.yaml").read_text(), DOCKERFILE, EXAMPLE, RUNBOOK])
def test_only_settings_that_exist_are_named(text: str) -> None:
    assert set(re.findall(r"\bPOWERON_[A-Z_]+", text)) <= KNOWN


def test_what_the_example_file_may_set_reaches_the_services() -> None:
    may_set = set(re.findall(r"^(?:# )?((?:POWERON|OTEL)_\w+)=", EXAMPLE, re.MULTILINE))
    for service in OURS.values():
        assert may_set <= set(service["environment"])


def test_the_services_start_with_the_settings_of_compose(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OURS["intake"]["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+(?::-(.*))?\}", r"\1", value).replace("${POSTGRES_PASSWORD:?", "{"))
    settings = Settings()
    assert (settings.kafka, settings.kafka_security_protocol) == ("kafka:9092", "PLAINTEXT")
    assert settings.postgres is not None
    assert settings.postgres.get_secret_value().endswith("@postgres/poweron")


def test_all_services_share_one_content_store() -> None:
    places = {service["environment"]["POWERON_CONTENT"] for service in OURS.values()}
    assert places == {"${POWERON_CONTENT:-/var/lib/poweron/content}"}
    for service in OURS.values():
        assert service["volumes"] == ["content:/var/lib/poweron/content"]


def test_every_image_has_an_exact_version() -> None:
    images = [service["image"] for service in SERVICES.values()] + re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert [image for image in images if not re.search(r":\d+\.\d+(\.\d+)?(-[\w-]+)?$", image)] == []
    assert "pip install --no-cache-dir uv==" in DOCKERFILE


def test_the_broker_is_the_one_that_the_tests_know() -> None:
    jars = (HOUSE / "services/poweron_services/embedded/jars.sha256").read_text()
    (version,) = set(re.findall(r"/kafka_2\.13-([\d.]+)\.jar", jars))
    assert SERVICES["kafka"]["image"] == f"apache/kafka:{version}"


def test_the_files_that_the_image_is_made_of_exist() -> None:
    copied = [
        source
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for source in line.split()[:-1]
    ]
    assert copied
    assert [source for source in copied if not (HOUSE / source).exists()] == []
    kept = re.findall(r"^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(kept)


def test_nothing_runs_as_root_and_everything_comes_back() -> None:
    assert re.search(r"^USER [1-9]\d+$", DOCKERFILE, re.MULTILINE)
    for service in SERVICES.values():
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["stop_grace_period"]


def test_the_health_checks_are_commands_that_exist() -> None:
    (of_the_image,) = re.findall(r"HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    checks = [yaml.safe_load(of_the_image), *(service["healthcheck"]["test"][1:] for service in OURS.values())]
    commands = typer.main.get_group(app).commands
    for program, command, *options in checks:
        assert program == "poweron"
        assert commands[command].make_context(command, options).params == {"as_json": True}
