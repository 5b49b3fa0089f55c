"""The route of a query blames Postgres only if Postgres does not answer."""

import asyncio
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from poweron_events.errors import Unavailable
from poweron_services.door import query_route


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_route, "PROBED_WITHIN", 0.01)
    monkeypatch.setattr(query_route, "LATE", 0.01)


async def test_a_process_that_was_busy_itself_does_not_blame_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(_: Any) -> None:
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            pass
        for _ in range(5):
            await asyncio.sleep(0)

    monkeypatch.setattr(query_route, "_ask", ask)
    with capture_logs() as lines:
        await query_route._expect_answer(None)  # type: ignore[arg-type]
    assert lines == []


async def test_silence_of_postgres_is_a_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(query_route, "_ask", ask)
    monkeypatch.setattr(query_route, "LATE", 10)  # the machine may be slow
    with capture_logs() as lines, pytest.raises(Unavailable, match="Postgres does not answer"):
        await query_route._expect_answer(None)  # type: ignore[arg-type]
    assert [line["event"] for line in lines] == ["postgres_silent"]
