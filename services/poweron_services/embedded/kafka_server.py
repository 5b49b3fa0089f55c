"""One Kafka broker in KRaft mode, as a Java process on this machine.

It listens on the loopback interface, which every local account can reach, and accepts only clients with the password.

Java's ahead-of-time cache starts the broker in a third of the time. The first broker records what it loads. After it
has stopped, a low-priority background process builds the cache from the recording. This is attempted only once, and
Java ignores a cache that does not suit it.
"""

import base64
import errno
import fcntl
import hashlib
import random
import shutil
import signal
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from poweron_events.errors import Refused
from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.embedded import folders, jars, kafka_password
from poweron_services.embedded.folders import Folders, aside, write_private
from poweron_services.embedded.jars import PINNED
from poweron_services.embedded.kafka_configuration import configuration, configured
from poweron_services.embedded.kafka_connection import MECHANISM, add_user, living_brokers
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

MAKE = 'mv "$0.recorded" "$0.used" && nice -n 19 "$@" && mv "$0.new" "$0" && rm "$0.used"'


@dataclass(frozen=True, slots=True)
class StartCache:
    """The cache for these jars and this Java."""

    path: Path

    @classmethod
    def of(cls, folder: Path) -> "StartCache":
        release = folders.java().parents[1] / "release"
        key = hashlib.sha256(PINNED.read_bytes() + release.read_bytes()).hexdigest()[:12]
        return cls(folder / f"start-{key}.aot")

    def options(self, folder: Path) -> list[str]:
        """The Java options for the broker; `folder` is the cache's folder, as the broker sees it."""
        if self.path.exists():
            return [f"-XX:AOTCache={folder / self.path.name}", "-Xlog:disable", "-Xlog:all=error:stderr"]
        if self._step("recorded").exists() or self._step("used").exists():
            return []
        return ["-XX:AOTMode=record", f"-XX:AOTConfiguration={folder / self.path.name}.recorded"]

    def is_recorded(self) -> bool:
        return self._step("recorded").exists()

    def command(self, java: Sequence[str], folder: Path) -> list[str]:
        """The command that builds the cache; `java` is the broker's command up to its class path."""
        name = str(folder / self.path.name)
        mode = ["-XX:AOTMode=create", f"-XX:AOTConfiguration={name}.used", f"-XX:AOTCache={name}.new"]
        return ["/bin/sh", "-c", MAKE, name, java[0], *mode, *java[1:]]

    def _step(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")


PORTS = range(20_000, 32_000)  # below the range that the system uses for outgoing connections


def free_port(apart_from: int | None = None) -> int:
    return next(port for port in random.sample(PORTS, len(PORTS)) if port != apart_from and is_free(port))


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: old connections do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        return True


START_TRIES = 3  # another process may take a port between our check and the broker's start
STOP_DEADLINE = 30.0  # seconds
DYING_DEADLINE = 1.5  # seconds until the system has released the resources of a killed process

SOFTWARE = Path("../software")  # relative to the broker's folder: the path of a data directory may contain a colon
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


@dataclass(frozen=True, slots=True)
class Kafka:
    """The broker of one data directory."""

    folders: Folders
    fsync: bool = False

    @property
    def client_settings(self) -> KafkaSettings:
        """The settings with which clients connect.

        Raises:
            Refused: the password file is missing or was changed.
        """
        return KafkaSettings(
            bootstrap=f"127.0.0.1:{self._remembered_port()}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=MECHANISM,
            sasl_username=kafka_password.USER,
            sasl_password=kafka_password.read(self.folders.kafka_password),
        )

    def find(self) -> Running | None:
        return Program("java", str(self._properties)).find(written_pid(self._pid))

    def asks_for_password(self) -> bool:
        """Return whether the broker was started to require the password; releases before 0.3 did not do so."""
        own_settings = configured(self._properties)
        return own_settings is not None and own_settings.own_password is not None

    def answers(self) -> bool:
        """Return whether the broker accepts our login and lists itself as alive: clients can work only then."""
        try:
            return self._lives()
        except PermissionError:
            return False

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
        return await comes_up(pid, self._answers_or_learns)

    async def stop(self, process: Running) -> None:
        await process.stop(signal.SIGTERM, STOP_DEADLINE)
        if self._start_cache.is_recorded():
            await self._start_apart(self._start_cache.command(self._java(), SOFTWARE), "start-cache.log")

    def _lives(self) -> bool:
        port, password = self._remembered_port(), kafka_password.read(self.folders.kafka_password)
        return port is not None and living_brokers(port, kafka_password.USER, password) > 0

    def _answers_or_learns(self) -> bool:
        """Return whether the broker answers. If it does not know our password yet, set it, so that it soon does."""
        try:
            return self._lives()
        except PermissionError:
            self._tell_password()
            return False

    def _tell_password(self) -> None:
        own_settings, password = configured(self._properties), kafka_password.read(self.folders.kafka_password)
        if own_settings is not None and own_settings.own_password is not None:
            add_user(own_settings.controller, own_settings.own_password, kafka_password.USER, password)

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
        return [str(folders.java()), *JVM, *options, "-cp", jars.class_path(SOFTWARE)]

    @property
    def _start_cache(self) -> StartCache:
        return StartCache.of(self.folders.software)

    async def _refuse_locked_data(self) -> None:
        """Refuse data that is locked by a broker: we cannot see its process, so it may run in a container."""
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
        write_private(properties, self._configuration(f"{workshop.name}/data", broker=1, controller=2))
        tool = ("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(properties))
        await run([*self._java(), *tool], folder=self.folders.kafka, env=clean_env())
        (workshop / "data").rename(self._data)
        shutil.rmtree(workshop)

    async def _configure(self) -> None:
        """Choose ports and write the settings.

        A new port gets a new password: a process that took the old port could relay clients' logins to the new one.
        """
        old = self._remembered_port()
        stays = old is not None and await true_within(DYING_DEADLINE, lambda: is_free(old))
        broker = old if old is not None and stays else free_port()
        password = kafka_password.ensure(self.folders.kafka_password, renew=not stays)
        ports = {"broker": broker, "controller": free_port(apart_from=broker)}
        write_private(self._properties, self._configuration(self._data.name, **ports, password=password))

    def _configuration(self, data: str, *, broker: int, controller: int, password: str = "") -> str:
        return configuration(data, broker=broker, controller=controller, password=password, fsync=self.fsync)

    def _remembered_port(self) -> int | None:
        own_settings = configured(self._properties)
        return own_settings.broker if own_settings else None


def _cluster_id() -> str:
    """Create an id in Kafka's format: 22 characters, the first of which must not look like an option."""
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
