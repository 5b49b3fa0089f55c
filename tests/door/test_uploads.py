"""Uploads: the memory of the door does not grow with them."""

import asyncio
import os
from collections.abc import AsyncGenerator

import psutil
import pytest
from beside import beside
from opened_door import opened

from poweron_services.settings.config import Settings

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

MEGABYTE = 1_000_000
UPLOADS = 20
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


class Peak:
    """The most memory that this process had."""

    def __init__(self) -> None:
        self._process = psutil.Process(os.getpid())
        self.start = self.most = self._process.memory_info().rss

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._process.memory_info().rss)
            await asyncio.sleep(0.01)


async def test_twenty_uploads_of_50_mb_at_once_do_not_grow_the_memory(door_settings: Settings) -> None:
    async with opened(door_settings, serving=False) as door:

        async def upload(number: int) -> None:
            headers = {"Content-Type": "multipart/form-data; boundary=B"}
            sent = await door.http.post("/api/v1/workflows", content=form(number), headers=headers, timeout=200)
            assert sent.status_code == 202, sent.text

        await upload(0)  # what is only loaded at the first upload does not count
        peak = Peak()
        async with beside(peak.watch()):
            await asyncio.gather(*map(upload, range(1, UPLOADS + 1)))
    stored = sum(file.stat().st_size for file in door_settings.home.rglob("*") if file.is_file())
    assert stored > (UPLOADS + 1) * BLOCKS * MEGABYTE
    assert peak.most - peak.start < MOST, f"{(peak.most - peak.start) / MEGABYTE:.0f} MB more"
