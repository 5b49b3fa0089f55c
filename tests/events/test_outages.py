"""An error line requires action: a full disk at once, a server that does not answer after a minute."""

import asyncio
import errno
import gc
import logging
from pathlib import Path

import pytest

from poweron_events.content import ContentStore
from poweron_events.errors import DiskFull, Refused, Unavailable
from poweron_events.retry import LONG_OUTAGE, Backoff, Outage, retry
from poweron_events.task_cancellation import cancel_task

WORKFLOW = "7d444840-9dc0-11d1-b245-5ffdce74fad2"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("poweron_events.retry.time.monotonic", lambda: now[0])
    return now


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_server_that_stays_unavailable_is_an_error_after_a_minute(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage()
    outage.failed(Unavailable("Kafka does not answer"))
    clock[0] += LONG_OUTAGE - 1
    outage.failed(Unavailable("Kafka does not answer"))
    assert errors(caplog) == []
    clock[0] += 1
    outage.failed(Unavailable("Kafka does not answer"))
    assert errors(caplog) == ["server_outage"]
    outage.ended()
    outage.failed(Unavailable("Kafka does not answer"))
    assert errors(caplog) == ["server_outage"]


def test_a_model_that_does_not_answer_and_a_refusal_are_no_outage(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage()
    for error in (Unavailable("no answer", code="model_busy"), Refused("no"), ValueError("a mistake")):
        outage.failed(error)
        clock[0] += 2 * LONG_OUTAGE
        outage.failed(error)
    assert errors(caplog) == []


async def test_whoever_retries_reports_a_full_disk_at_its_first_failure(caplog: pytest.LogCaptureFixture) -> None:
    failures = [DiskFull("The disk of Postgres is full")]

    async def attempt() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert await retry(attempt, failed=lambda _: None, backoff=Backoff(0.0, 0.0)) == "done"
    assert errors(caplog) == ["disk_full"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
async def test_a_content_store_without_room_says_that_its_disk_is_full(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> int:
        raise OSError(code, "no room")

    store = ContentStore.at(str(tmp_path / "content"))
    monkeypatch.setattr("os.write", write)
    with pytest.raises(DiskFull) as raised:
        await store.put(WORKFLOW, b"x")
    assert raised.value.code == "content_store_unavailable"


async def test_a_cancelled_task_that_raises_is_not_reported_by_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise Unavailable("the connection was closed")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await cancel_task(task)
    del task
    gc.collect()
    assert errors(caplog) == []
