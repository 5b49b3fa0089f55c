"""What the roles ask of Postgres is answered in time, or not at all, and fits into an event."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from asyncpg.exceptions import InsufficientPrivilegeError

from poweron_events.codec import dumps
from poweron_events.errors import Unavailable
from poweron_projections.connection import Pool
from poweron_projections.reader import HistoryEntry
from poweron_services import wiring
from poweron_services.wiring import Rows


class SilentPool:
    """Its connections stand, and nothing ever comes over them."""

    @asynccontextmanager
    async def acquire(self, **_: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield


class RefusingPool:
    """Somebody has taken our rights away."""

    @asynccontextmanager
    async def acquire(self, **_: Any) -> AsyncGenerator[Any, None]:
        raise InsufficientPrivilegeError("permission denied for table requests")
        yield


async def test_a_connection_that_has_fallen_silent_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "QUESTION_TIMEOUT", 0.01)
    monkeypatch.setattr(wiring, "LOAD_TIMEOUT", 0.01)
    rows = Rows(cast("Pool", SilentPool()))
    for question in (
        rows.load([0]),
        rows.look_up(0, ["w"]),
        rows.positions(),
        rows.count_open(1),
        rows.answered("/tests", "1"),
        rows.closing("w"),
        rows.compact_history("w"),
    ):
        with pytest.raises(Unavailable, match=r"did not answer within 0\.01 s"):
            await question


async def test_a_postgres_that_refuses_is_away_and_no_fault_of_the_request() -> None:
    with pytest.raises(Unavailable, match="permission denied"):
        await Rows(cast("Pool", RefusingPool())).answered("/tests", "1")


@pytest.mark.req("E-10")
async def test_the_compact_history_takes_at_most_8_kb_in_any_script(monkeypatch: pytest.MonkeyPatch) -> None:
    async def history(*_: Any, **__: Any) -> list[HistoryEntry]:
        return [
            HistoryEntry.model_construct(round=2, summary='Größe "42"\n' * 500, message=""),
            HistoryEntry.model_construct(round=1, summary="", message="合計" * 2_000),
        ]

    monkeypatch.setattr(wiring.reader, "history", history)
    told = await Rows(cast("Pool", SilentPool())).compact_history("w")
    assert told.startswith('[round 2] Größe "42"\n')
    assert 7_000 < len(dumps(told)) <= 8_000


async def test_a_history_that_fits_is_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    async def history(*_: Any, **__: Any) -> list[HistoryEntry]:
        return [
            HistoryEntry.model_construct(round=2, summary="The total is 42.", message="Done."),
            HistoryEntry.model_construct(round=1, summary="", message="What is the total?"),
        ]

    monkeypatch.setattr(wiring.reader, "history", history)
    told = await Rows(cast("Pool", SilentPool())).compact_history("w")
    assert told == "[round 2] The total is 42.\n[round 1] What is the total?"
