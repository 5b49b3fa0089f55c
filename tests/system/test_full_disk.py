"""The disk is full: nothing is lost, what cannot wait fails with a sentence, and with the space back all goes on."""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from own import OwnServers, own_servers
from surviving import Survival, Witnesses, until, witnesses

from poweron_events.content_packs import SUFFIX, read_records
from poweron_services.client.connect import Connections

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

ROOM = 1_500  # bytes that a file may have where the disk is full; most prompts are longer
LARGE = 50_000  # bytes
SIZE = 1_000  # MB of a disk that has room


def make_full(processes: Witnesses) -> None:
    """No file of these processes grows any more."""
    for pid in processes.pids():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))


def make_room(processes: Witnesses) -> None:
    for pid in processes.pids():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Disk:
    """A file system in memory, as large as somebody says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self) -> None:
        """Take what is free; where it becomes less meanwhile, try again."""
        while self._mount("-o", f"remount,size={shutil.disk_usage(self.folder).used}").returncode:
            pass

    def empty(self) -> None:
        self._mount("-o", f"remount,size={SIZE}m")

    @contextmanager
    def mounted(self) -> Generator[None, None, None]:
        if not hasattr(os, "geteuid") or os.geteuid() != 0 or self._mount("-o", f"size={SIZE}m").returncode:
            pytest.skip("nobody may mount a file system here")
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", self.folder], check=True)  # a start-up cache may still be in the making

    def _mount(self, *options: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", self.folder], check=False)


@pytest.fixture
def disk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Disk, None, None]:
    disk = Disk(tmp_path_factory.mktemp("disk"))
    with disk.mounted():
        yield disk


@pytest.fixture
def own(software: Path, disk: Disk) -> Generator[OwnServers, None, None]:
    with own_servers(disk.folder / "servers", software) as own:
        yield own


@pytest.mark.soak
@pytest.mark.req("E-10")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of another process")
async def test_contents_and_log_lines_that_find_no_room_are_waited_for(
    survival: Survival, connections: Connections, environment: dict[str, str], tmp_path: Path
) -> None:
    with witnesses(environment, tmp_path, ["one", "two"]) as processes:
        await survival.settled(2)
        held = [await survival.request(each, gate="gate", size=LARGE) for each in ("pure", "idempotent")]
        await until(lambda: all(survival.running(id_) for id_ in held), "actions are at work")
        make_full(processes)
        asked = [await survival.request(size=LARGE) for _ in range(6)]
        survival.open_gate("gate")
        await until(lambda: all(survival.completions(id_) for id_ in held), "the results are given up")
        processes.expect_alive()
        await until(lambda: {survival.phase(id_) for id_ in asked} == {"select"}, "the others wait for a selection")
        assert not any(survival.ended(id_) for id_ in held)
        make_room(processes)
        await survival.all_ended()
        processes.expect_alive()
    for id_ in held:
        assert any("could not be stored" in (completed.error or "") for completed in survival.completions(id_))
    await survival.expect_all_well()
    await expect_contents(survival, connections)
    assert left_over(connections.settings.content_place) == []


@pytest.mark.soak
@pytest.mark.req("E-01")
async def test_kafka_postgres_and_contents_on_a_full_disk_lose_nothing(
    disk: Disk, own: OwnServers, tmp_path: Path
) -> None:
    environment = own.environment(disk.folder / "home")
    async with own.survival(tmp_path) as survival:
        with witnesses(environment, tmp_path, ["one", "two"]) as processes:
            await survival.settled(2)
            held = [await survival.request(each, gate="gate", size=LARGE) for each in ("pure", "idempotent")]
            await until(lambda: all(survival.running(id_) for id_ in held), "actions are at work")
            broker = own.kafka()
            disk.fill()
            async with asyncio.TaskGroup() as group:
                for _ in range(6):
                    group.create_task(survival.request(size=LARGE))
                survival.open_gate("gate")
                await until(lambda: not broker.is_running(), "Kafka gives up")
                disk.empty()
                await own.mend()
            await survival.all_ended()
            processes.expect_alive()
        await survival.expect_all_well()


async def expect_contents(survival: Survival, connections: Connections) -> None:
    """Every document that an event names is there."""
    for id_ in survival.requested:
        for completed in survival.completions(id_):
            for document in completed.documents:
                assert await connections.content.get(id_, document.content) == b"x" * document.size


def left_over(place: str) -> list[str]:
    """What was begun and never ended."""
    packs = [*Path(place).rglob(f"*{SUFFIX}")]
    return [path.name for path in Path(place).rglob("*.*") if path not in packs or not is_complete(path)]


def is_complete(pack: Path) -> bool:
    with pack.open("rb") as file:
        return read_records(file, pack.name, 0).end == pack.stat().st_size > 0
