"""A service on the real servers, served within the test, with topics and a database of its own."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from beside import beside
from commands import Shell
from processes import ONE_STEP, SESSION_TIMEOUT_MS, script
from surviving import Survival

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.client.connect import Connections, connect
from poweron_services.models.chat_model import ChatModel, Completion
from poweron_services.models.prompts import Prompt
from poweron_services.settings.config import Settings
from poweron_services.wiring import ROLES, build_model, serve


class GatedModel:
    """Answers from a script, at once while `gate` is set."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def complete(self, prompt: Prompt) -> Completion:
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        return await self._model.complete(prompt)


@pytest.fixture
async def model(tmp_path: Path) -> GatedModel:
    """One task, one step: 'It is written.'"""
    return GatedModel(build_model(Settings(model=script(tmp_path, ONE_STEP)), AsyncExitStack()))


@pytest.fixture
async def service(
    kafka: KafkaSettings, dsn: str, tmp_path: Path, model: GatedModel
) -> AsyncGenerator[Connections, None]:
    """Connections on which all roles are played while the test runs."""
    async with (
        connect(Settings(home=tmp_path / "home"), kafka=kafka, postgres=dsn) as connections,
        beside(serve(connections, ROLES, model)),
    ):
        yield connections


@pytest.fixture
def environment(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> dict[str, str]:
    """The settings of processes that a test starts; a killed one is missed after a second."""
    return {
        **kafka.environment(),
        "POWERON_KAFKA_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
        "POWERON_POSTGRES": dsn,
        "POWERON_HOME": str(tmp_path / "home"),
    }


@pytest.fixture
def shell(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> Shell:
    """Where commands are typed, with the settings of somebody who has these servers."""
    environment = {
        **kafka.environment(),
        "POWERON_POSTGRES": dsn,
        "POWERON_HOME": str(tmp_path / "home"),
        "NO_COLOR": "",
        "FORCE_COLOR": "",
        "COLUMNS": "80",
    }
    return Shell(environment, tmp_path)


@pytest.fixture
async def connections(kafka: KafkaSettings, dsn: str, tmp_path: Path) -> AsyncGenerator[Connections, None]:
    """Connections of the test itself, where nobody serves but the processes that it starts."""
    async with connect(Settings(home=tmp_path / "home"), kafka=kafka, postgres=dsn) as connections:
        yield connections


@pytest.fixture
async def survival(connections: Connections, kafka: KafkaSettings, tmp_path: Path) -> AsyncGenerator[Survival, None]:
    """Workflows whose log is followed while the test runs."""
    survival = Survival(connections, kafka, tmp_path)
    async with survival.followed():
        yield survival
