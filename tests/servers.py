"""The servers that tests use, in the order that a user's settings have.

`POWERON_KAFKA` and `POWERON_POSTGRES` set: those; with `POWERON_TEST_SERVERS=docker` containers; else
embedded ones.
"""

import asyncio
import gc
import os
import subprocess
import uuid
import warnings
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

from poweron_events.log.kafka_settings import KafkaSettings

Result = TypeVar("Result")
_LEAVE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND usename = current_user"


@dataclass(frozen=True)
class Pair:
    """A Kafka and the address of a Postgres for the tests."""

    kafka: KafkaSettings
    postgres: str


def chosen_servers(environment: dict[str, str]) -> str:
    """`given`, `docker` or `embedded`."""
    if environment.get("POWERON_KAFKA") and environment.get("POWERON_POSTGRES"):
        return "given"
    if environment.get("POWERON_TEST_SERVERS") == "docker":
        return "docker"
    return "embedded"


@contextmanager
def given_servers(_: Path) -> Generator[Pair, None, None]:
    yield Pair(KafkaSettings.of(os.environ), os.environ["POWERON_POSTGRES"])


@contextmanager
def docker_servers(_: Path) -> Generator[Pair, None, None]:
    from testcontainers.community.kafka import KafkaContainer
    from testcontainers.community.postgres import PostgresContainer

    complaint = docker_complaint()
    if complaint:
        pytest.exit(
            f"POWERON_TEST_SERVERS=docker was asked for, but no Docker engine answers ({complaint}). "
            "Start Docker, or unset POWERON_TEST_SERVERS to use the embedded servers.",
            returncode=2,
        )
    with KafkaContainer().with_kraft() as kafka, PostgresContainer("postgres:18", driver=None) as postgres:
        yield Pair(KafkaSettings(kafka.get_bootstrap_server()), postgres.get_connection_url())


def docker_complaint() -> str:
    """Why no Docker engine answers; "" where one does."""
    import docker
    from docker.errors import DockerException

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # a client that cannot connect leaves its socket open
        try:
            docker.from_env().ping()
        except DockerException as error:
            return str(error)
        finally:
            gc.collect()
    return ""


def run_outside(work: Coroutine[Any, Any, Result]) -> Result:
    """What comes of work in a loop of its own: one may already be running in this thread."""
    with ThreadPoolExecutor(1) as outside:
        return outside.submit(asyncio.run, work).result()


@dataclass(frozen=True)
class FirstRun:
    """The servers started and stopped by a user who has nothing: an empty home, no caches, no settings.

    Below a folder that processes may share, this happens once.
    """

    folder: Path

    @property
    def user(self) -> Path:
        return self.folder / "user"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def software(self) -> Path:
        """The broker's jars, and soon the start-up cache that is made of this run, with low priority."""
        return self.home / "servers" / "software"

    @property
    def said(self) -> list[str]:
        return (self.folder / "said").read_text().splitlines()

    async def happen(self) -> None:
        from poweron_services.embedded import lease
        from poweron_services.embedded.users import locked

        self.user.mkdir(parents=True, exist_ok=True)
        said: list[str] = []
        async with locked(self.folder / "lock", print):
            if not (self.folder / "said").exists():
                async with lease(self.home, said.append):
                    pass
                (self.folder / "said").write_text("\n".join(said))


def furnished(home: Path, software: Path) -> Path:
    """A data directory with nothing but software that was fetched before."""
    (home / "servers").mkdir(mode=0o700, parents=True)
    (home / "servers" / "software").symlink_to(software)
    return home


def with_empty_data(home: Path, software: Path) -> Path:
    """Put servers with the data of earlier empty ones into `home`; these start twice as fast.

    Its Postgres waits for no disk: a database for each test makes and removes thousands of files.
    """
    servers, before = furnished(home, software) / "servers", software.parent
    for name in ("kafka", "postgres"):
        (servers / name).mkdir(mode=0o700)
        subprocess.run(["cp", "-a", before / name / "data", servers / name / "data"], check=True)  # keeps the owner
    with (servers / "postgres" / "data" / "postgresql.auto.conf").open("a") as settings:
        settings.write("fsync = off\n")
    return home


@contextmanager
def embedded_servers(home: Path) -> Generator[Pair, None, None]:
    from poweron_services import embedded

    servers = run_outside(embedded.up(home, print))
    try:
        yield Pair(servers.kafka, servers.postgres)
    finally:
        run_outside(embedded.down(home))


CHOICES: dict[str, Callable[[Path], AbstractContextManager[Pair]]] = {
    "given": given_servers,
    "docker": docker_servers,
    "embedded": embedded_servers,
}


@asynccontextmanager
async def empty_database(postgres: str) -> AsyncGenerator[str, None]:
    """The address of a database of its own on this server, which is dropped at the end."""
    name = f"t{uuid.uuid4().hex}"
    connection = await asyncpg.connect(postgres)
    await connection.execute(f"CREATE DATABASE {name}")
    try:
        yield _with_database(postgres, name)
    finally:
        await connection.fetch(_LEAVE, name)
        await connection.execute(f"DROP DATABASE {name}")  # it waits, and sends away whoever cleans up there by itself
        await connection.close()


def _with_database(dsn: str, name: str) -> str:
    base, question, options = dsn.partition("?")
    return f"{base.rpartition('/')[0]}/{name}{question}{options}"
