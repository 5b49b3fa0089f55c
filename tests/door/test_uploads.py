"""Uploads: the memory of the door does not grow with them."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import psutil
import pytest
from beside import beside
from commands import Shell
from opened_door import opened

from poweron_events.log.kafka_settings import KafkaSettings
from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

MEGABYTE = 1_000_000
UPLOADS = 8
BLOCKS = 50  # of a megabyte each
MOST = 100 * MEGABYTE
HEAD = (
    b'--B\r\nContent-Disposition: form-data; name="request"\r\n\r\n{"prompt": "Hello"}\r\n'
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
)


async def form(number: int) -> AsyncGenerator[bytes, None]:
    """A form with a file of 50 MB that exists only while it is sent."""
    yield HEAD
    for block in range(BLOCKS):
        yield bytes([number, block]) * (MEGABYTE // 2)
    yield b"\r\n--B--\r\n"


async def upload(http: httpx2.AsyncClient, number: int) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    sent = await http.post("/api/v1/workflows", content=form(number), headers=headers)
    assert sent.status_code == 202, sent.text


class Peak:
    """The most memory that a process had."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self.start = self.most = process.memory_info().rss

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._process.memory_info().rss)
            await asyncio.sleep(0.01)


@pytest.mark.soak
async def test_eight_uploads_of_50_mb_at_once_do_not_grow_the_memory(
    door_settings: Settings, kafka: KafkaSettings, dsn: str, tmp_path: Path
) -> None:
    async with opened(door_settings):
        pass  # there are rows now, without which a door that plays no role is not ready
    home = tmp_path / "home"
    shell = Shell({**kafka.environment(), "POWERON_POSTGRES": dsn, "POWERON_HOME": str(home)}, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    door = await shell.start("door", "--no-serve", "--listen", listen)
    try:
        async with httpx2.AsyncClient(base_url=f"http://{listen}", timeout=200) as http:
            await until_ready(http)
            await upload(http, 0)  # what is only loaded at the first upload does not count
            peak = Peak(psutil.Process(door.pid))
            async with beside(peak.watch()):
                await asyncio.gather(*(upload(http, number) for number in range(1, UPLOADS + 1)))
    finally:
        door.terminate()
        await door.communicate()
    stored = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    assert stored > (UPLOADS + 1) * BLOCKS * MEGABYTE
    assert peak.most - peak.start < MOST, f"{(peak.most - peak.start) / MEGABYTE:.0f} MB more"


async def until_ready(http: httpx2.AsyncClient) -> None:
    while True:
        try:
            if (await http.get("/api/v1/workflows")).status_code == 200:
                return
        except httpx2.TransportError:
            await asyncio.sleep(0.05)
