"""What the roles ask of Postgres is answered in time, or not at all."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest
from asyncpg.exceptions import DeadlockDetectedError, InsufficientPrivilegeError, PostgresError

from poweron_events.errors import Unavailable
from poweron_projections.connection import Pool
from poweron_services import postgres_ports
from poweron_services.postgres_ports import PostgresPorts


class SilentPool:
    """Its connections stand, and nothing ever comes over them."""

    @asynccontextmanager
    async def acquire(self, **_: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield


@dataclass(frozen=True)
class FailingPool:
    """Every transaction ends with this error."""

    error: Exception

    @asynccontextmanager
    async def acquire(self, **_: Any) -> AsyncGenerator[Any, None]:
        raise self.error
        yield


async def test_a_connection_that_has_fallen_silent_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_ports, "QUERY_TIMEOUT", 0.01)
    monkeypatch.setattr(postgres_ports, "LOAD_TIMEOUT", 0.01)
    ports = PostgresPorts(cast("Pool", SilentPool()))
    for query in (
        ports.load([0]),
        ports.look_up(0, ["w"]),
        ports.positions(),
        ports.count_open(1),
        ports.answered("/tests", "1"),
        ports.open_round("w"),
        ports.messages("w", None),
        ports.opening("w", 1),
        ports.spent("w", 1),
    ):
        with pytest.raises(Unavailable, match=r"did not answer within 0\.01 s"):
            await query


@pytest.mark.parametrize(
    "error",
    [InsufficientPrivilegeError("permission denied for table requests"), DeadlockDetectedError("a rebuild was first")],
    ids=["refuses", "exchanges its tables"],
)
async def test_a_postgres_that_does_not_answer_a_query_is_unavailable_and_no_fault_of_the_work(
    error: PostgresError,
) -> None:
    ports = PostgresPorts(cast("Pool", FailingPool(error)))
    for query in (ports.answered("/tests", "1"), ports.day_use(0)):
        with pytest.raises(Unavailable, match=str(error)):
            await query
