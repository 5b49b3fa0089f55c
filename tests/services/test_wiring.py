"""What the roles ask of Postgres is answered in time, or not at all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from asyncpg.exceptions import InsufficientPrivilegeError

from poweron_events.errors import Unavailable
from poweron_projections.connection import Pool
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
        rows.messages("w", None),
        rows.opening("w", 1),
        rows.spent("w", 1),
    ):
        with pytest.raises(Unavailable, match=r"did not answer within 0\.01 s"):
            await question


async def test_a_postgres_that_refuses_is_away_and_no_fault_of_the_request() -> None:
    with pytest.raises(Unavailable, match="permission denied"):
        await Rows(cast("Pool", RefusingPool())).answered("/tests", "1")
