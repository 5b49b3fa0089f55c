"""One Kafka broker in KRaft mode, as a Java process of this machine.

It listens on the loopback interface only, but Kafka's plain protocol knows no user: whoever has an account on this
machine can connect. Machines shared with strangers want POWERON_KAFKA.
"""

import base64
import fcntl
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from poweron_events.errors import Refused
from poweron_services.embedded import jars, wheels
from poweron_services.embedded.folders import Folders, aside
from poweron_services.embedded.server_process import (
    Program,
    Running,
    clean_env,
    comes_up,
    failure,
    fresh_log,
    run,
    start_apart,
    true_within,
    written_pid,
)
from poweron_services.embedded.start_cache import StartCache
from poweron_services.embedded.tcp_ports import free_port, is_free, living_brokers

START_TRIES = 3  # somebody else may take a port between our look and the broker's
START_DEADLINE = 90.0  # seconds
STOP_DEADLINE = 30.0  # seconds
DYING_DEADLINE = 1.5  # seconds until the system has taken everything from a killed process
MESSAGE_BYTES = 1_100_000

SOFTWARE = Path("../software")  # seen from the broker's folder: a data directory may have a colon in its path
JVM = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.io.tmpdir=.",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)

# A killed broker may return only when its session has ended, hence the short one.
CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=BROKER://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=BROKER://127.0.0.1:{broker}
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
auto.create.topics.enable=false
default.replication.factor=1
message.max.bytes={message_bytes}
group.initial.rebalance.delay.ms=0
group.coordinator.append.linger.ms=0
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""
EACH_RECORD_TO_DISK = "log.flush.interval.messages=1\n"


@dataclass(frozen=True, slots=True)
class Kafka:
    """The broker of one data directory."""

    folders: Folders
    fsync: bool = False

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._remembered_port()}"

    def find(self) -> Running | None:
        return Program("java", str(self._properties)).find(written_pid(self._pid))

    def answers(self) -> bool:
        """Whether the broker lists itself as living: only then do clients get anywhere."""
        port = self._remembered_port()
        return port is not None and living_brokers(port) > 0

    async def start(self, progress: Callable[[str], None]) -> None:
        """Start the broker, on its old port if that is free, and wait until it answers."""
        await self._refuse_locked_data()
        await jars.download(self.folders.software, progress)
        progress("Starting Kafka…")
        await self._format_once()
        for _ in range(START_TRIES):
            await self._configure()
            pid = await self._start_apart(self._broker_command(), self._log.name)
            self._pid.write_text(str(pid))
            if await self.comes_up(pid):
                return
            if "Address already in use" not in self._log.read_text(errors="replace"):
                break
        raise failure("Kafka", self._log.read_text(errors="replace"))

    async def comes_up(self, pid: int) -> bool:
        return await comes_up(pid, self.answers, START_DEADLINE)

    async def stop(self, process: Running) -> None:
        await process.stop(signal.SIGTERM, STOP_DEADLINE)
        if self._start_cache.is_recorded():
            await self._start_apart(self._start_cache.command(self._java(), SOFTWARE), "start-cache.log")

    @property
    def _properties(self) -> Path:
        return self.folders.kafka / "server.properties"

    @property
    def _data(self) -> Path:
        return self.folders.kafka / "data"

    @property
    def _pid(self) -> Path:
        return self.folders.kafka / "server.pid"

    @property
    def _log(self) -> Path:
        return self.folders.kafka / "server.log"

    async def _start_apart(self, command: Sequence[str], log: str) -> int:
        file = fresh_log(self.folders.kafka / log)
        return await start_apart(command, folder=self.folders.kafka, log=file, env=clean_env())

    def _broker_command(self) -> list[str]:
        return [*self._java(*self._start_cache.options(SOFTWARE)), "kafka.Kafka", str(self._properties)]

    def _java(self, *options: str) -> list[str]:
        return [str(wheels.java()), *JVM, *options, "-cp", jars.class_path(SOFTWARE)]

    @property
    def _start_cache(self) -> StartCache:
        return StartCache.of(self.folders.software)

    async def _refuse_locked_data(self) -> None:
        """A broker locks its data; if it is not ours, it runs out of our sight, in a container perhaps."""
        lock = self._data / ".lock"
        if not await true_within(DYING_DEADLINE, lambda: not _is_locked(lock)):
            raise Refused(
                f"The data directory {str(self.folders.home)!r} is in use by a Kafka that this process cannot see, "
                "perhaps in a container. Stop it there, or choose another directory with POWERON_HOME."
            )

    async def _format_once(self) -> None:
        if self._data.exists():
            return
        workshop = aside(self.folders.kafka)
        workshop.mkdir()
        properties = workshop / "server.properties"
        properties.write_text(self._configuration(f"{workshop.name}/data", broker=1, controller=2))
        tool = ("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(properties))
        await run([*self._java(), *tool], folder=self.folders.kafka, env=clean_env())
        (workshop / "data").rename(self._data)
        shutil.rmtree(workshop)

    async def _configure(self) -> None:
        old = self._remembered_port()
        stays = old is not None and await true_within(DYING_DEADLINE, lambda: is_free(old))
        broker = old if old is not None and stays else free_port()
        text = self._configuration(self._data.name, broker=broker, controller=free_port(apart_from=broker))
        self._properties.write_text(text)

    def _configuration(self, data: str, *, broker: int, controller: int) -> str:
        text = CONFIGURATION.format(broker=broker, controller=controller, message_bytes=MESSAGE_BYTES, data=data)
        return text + EACH_RECORD_TO_DISK if self.fsync else text

    def _remembered_port(self) -> int | None:
        try:
            text = self._properties.read_text()
        except FileNotFoundError:
            return None
        found = re.search(r"^listeners=BROKER://127\.0\.0\.1:(\d+)", text, re.MULTILINE)
        return int(found[1]) if found else None


def _cluster_id() -> str:
    """Kafka's own form of an id: 22 characters, the first of which may not look like an option."""
    return "P" + base64.urlsafe_b64encode(uuid4().bytes).decode()[1:22]


def _is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
