"""Log lines tell of the work, and never stop it."""

import logging
from collections.abc import Generator
from pathlib import Path

import pytest
import structlog

from poweron_services import telemetry

FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None, None, None]:
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a file that is always full")
def test_a_log_line_that_finds_no_room_on_the_disk_is_lost_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = FULL.open("w", buffering=1)
    monkeypatch.setattr("sys.stderr", stderr)
    telemetry.configure("info")
    for _ in range(1_000):
        structlog.get_logger().warning("the disk is full", error="x" * 1_000)
    logging.getLogger("asyncio").error("a library has something to say")
    with pytest.raises(OSError, match="No space left"):
        stderr.close()
