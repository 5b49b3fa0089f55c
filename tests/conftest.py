"""What all tests stand on: patience with a busy machine, and real servers for the tests that need them.

One pair of servers serves the whole run; each test has topics and rows of its own.
"""

import os
import signal
import uuid
from collections.abc import AsyncGenerator, Generator

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from servers import CHOICES, Pair, chosen_servers

from poweron_events.log.kafka_settings import KafkaSettings

_LEAVE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = current_user"


def pytest_configure() -> None:
    """Before any test is read, since each takes the settings of hypothesis as they are then."""
    # A run in the background ignores Ctrl-C, and so would every command that it starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")  # how long an example takes says how busy the machine is, and nothing of ours


@pytest.hookimpl(tryfirst=True)  # before the groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What shares the servers runs in one of the two processes, in order, and what has its own in the other one.

    All the rest runs wherever there is time.
    """
    for item in items:
        if "pair" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("servers"))
        elif item.get_closest_marker("system"):
            item.add_marker(pytest.mark.xdist_group("apart"))


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pair, None, None]:
    """A Kafka and a Postgres for the whole run."""
    choice = CHOICES[chosen_servers(dict(os.environ))]
    with choice(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture
async def dsn(pair: Pair) -> AsyncGenerator[str, None]:
    """An empty database of its own."""
    name = f"t{uuid.uuid4().hex}"
    connection = await asyncpg.connect(pair.postgres)
    await connection.execute(f"CREATE DATABASE {name}")
    try:
        yield _with_database(pair.postgres, name)
    finally:
        await connection.fetch(_LEAVE, name)
        await connection.execute(f"DROP DATABASE {name}")  # it waits, and sends away whoever cleans up there by itself
        await connection.close()


def _with_database(dsn: str, name: str) -> str:
    base, question, options = dsn.partition("?")
    return f"{base.rpartition('/')[0]}/{name}{question}{options}"


@pytest.fixture
def kafka(pair: Pair) -> KafkaSettings:
    """Topics and groups of a test's own on the shared broker."""
    return KafkaSettings(pair.kafka, prefix=f"t{uuid.uuid4().hex}.")
