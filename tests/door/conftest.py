"""A door on the real servers, with a client of it."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from opened_door import Door, opened
from own import OwnServers, own_servers
from page_door import chromium
from playwright.sync_api import Browser

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


@pytest.fixture(scope="module")
def browser() -> Generator[Browser, None, None]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def own(software: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[OwnServers, None, None]:
    with own_servers(tmp_path_factory.mktemp("own"), software) as own:
        yield own


@pytest.fixture
async def own_door(own: OwnServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Door, None]:
    for name, value in own.environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    async with opened(Settings(home=tmp_path / "home", postgres=own.pair.postgres)) as door:
        yield door
