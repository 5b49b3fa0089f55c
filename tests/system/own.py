"""A Kafka and a Postgres of a test's own, so that nobody else is hurt."""

import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from processes import SESSION_TIMEOUT_MS
from servers import Pair, embedded_servers, with_empty_data
from surviving import Survival

from poweron_services.client.connect import connect
from poweron_services.embedded import up
from poweron_services.embedded.folders import Folders
from poweron_services.embedded.kafka_server import Kafka
from poweron_services.embedded.postgres_server import Postgres
from poweron_services.settings.config import Settings


@dataclass(frozen=True)
class OwnServers:
    """A pair that only this test has, so that nobody else is hurt."""

    home: Path
    pair: Pair

    def environment(self, home: Path) -> dict[str, str]:
        """The settings of processes on this pair."""
        return {
            **self.pair.kafka.environment(),
            "POWERON_KAFKA_SESSION_TIMEOUT_MS": str(SESSION_TIMEOUT_MS),
            "POWERON_POSTGRES": self.pair.postgres,
            "POWERON_HOME": str(home),
        }

    @asynccontextmanager
    async def survival(self, folder: Path) -> AsyncGenerator[Survival, None]:
        """Workflows on this pair, followed meanwhile."""
        kafka, postgres = self.pair.kafka, self.pair.postgres
        async with connect(Settings(home=folder), kafka=kafka, postgres=postgres) as connections:
            survival = Survival(connections, kafka, folder)
            async with survival.followed():
                yield survival

    def kafka(self) -> psutil.Process:
        found = Kafka(Folders.of(self.home)).find()
        assert found is not None
        return psutil.Process(found.pid)

    def postgres(self) -> psutil.Process:
        found = Postgres(Folders.of(self.home)).find()
        assert found is not None
        return psutil.Process(found.pid)

    async def mend(self) -> None:
        """What Docker or Kubernetes would do: start again what has died."""
        await up(self.home, lambda _: None)


@contextmanager
def own_servers(home: Path, software: Path) -> Generator[OwnServers, None, None]:
    """A fresh pair in `home`."""
    with embedded_servers(with_empty_data(home, software)) as servers:
        yield OwnServers(home, servers)


def frozen(server: psutil.Process) -> Callable[[], None]:
    """Freeze a server and its children; returns what lets them go on.

    The server stops first and goes on last: it reaps children that have ended, and then there is nobody to signal.
    """
    server.send_signal(signal.SIGSTOP)
    children = server.children(recursive=True)
    for each in children:
        each.send_signal(signal.SIGSTOP)

    def thaw() -> None:
        for each in (*children, server):
            each.send_signal(signal.SIGCONT)

    return thaw
