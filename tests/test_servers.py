"""Which servers the tests use, and what is said where they cannot be had."""

from pathlib import Path

import pytest
from servers import CHOICES, Pair, chosen_servers, docker_servers, given_servers

from poweron_events.log.kafka_settings import KafkaSettings

GIVEN = {"POWERON_KAFKA": "kafka:9092", "POWERON_POSTGRES": "postgresql://db/poweron"}


@pytest.mark.parametrize(
    ("environment", "choice"),
    [
        ({}, "embedded"),
        (GIVEN, "given"),
        ({"POWERON_KAFKA": "kafka:9092"}, "embedded"),
        ({"POWERON_TEST_SERVERS": "docker"}, "docker"),
        ({**GIVEN, "POWERON_TEST_SERVERS": "docker"}, "given"),
    ],
)
def test_the_environment_chooses_the_servers(environment: dict[str, str], choice: str) -> None:
    assert chosen_servers(environment) == choice
    assert choice in CHOICES


def test_given_servers_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    with given_servers(tmp_path) as pair:
        assert pair == Pair(KafkaSettings("kafka:9092"), "postgresql://db/poweron")


def test_containers_without_a_docker_engine_end_the_run_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine.sock")
    with (
        pytest.raises(pytest.exit.Exception, match=r"no Docker engine answers .* unset POWERON_TEST_SERVERS"),
        docker_servers(tmp_path),
    ):
        pass
