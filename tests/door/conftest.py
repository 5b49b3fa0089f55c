"""A door on the real servers, with a client of it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from opened_door import Door, opened

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.settings.config import Settings


@pytest.fixture
def door_settings(kafka: KafkaSettings, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in kafka.environment().items():
        monkeypatch.setenv(name, value)
    return Settings(home=tmp_path / "home", postgres=dsn)


@pytest.fixture
async def door(door_settings: Settings) -> AsyncGenerator[Door, None]:
    async with opened(door_settings) as door:
        yield door
