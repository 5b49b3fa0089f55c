"""The queries of intake, the workers and forks, answered from Postgres.

Their Protocols are in `intake.intake_ports`, `runtime.partitions` and `fork.forks`.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from poweron_events.errors import Conflict, Refused, Unavailable
from poweron_events.fold.day_use import DayUse, RequestKey, RoundKey
from poweron_events.fold.partial import Stub
from poweron_events.fold.retention import Retention
from poweron_events.fold.state import ChatMessage, Opening
from poweron_events.policy import AppliedPolicy
from poweron_events.request import Spent
from poweron_projections import access_keys, bootstrap, reader, record_queries, request_answers, workflow_lifetimes
from poweron_projections.connection import Pool
from poweron_projections.day_totals import read_day_use
from poweron_services.fork.original import AcceptedEvent, accepted

QUERY_TIMEOUT = 10.0  # seconds
LOAD_TIMEOUT = 60.0  # seconds: every open workflow of the partitions is folded
PAGE = 500  # messages read at a time


@dataclass(frozen=True, slots=True)
class PostgresPorts:
    """The roles' queries to Postgres.

    Every query has a time limit, in case a connection falls silent. A Postgres that refuses a query, for example
    because privileges are missing, counts as unavailable: the work that needs the query is not at fault.
    """

    pool: Pool

    async def load(self, partitions: Iterable[int]) -> Mapping[int, bootstrap.Snapshot]:
        async with _within(LOAD_TIMEOUT):
            return await bootstrap.load(self.pool, list(partitions))

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        async with _within(QUERY_TIMEOUT):
            return await bootstrap.look_up(self.pool, partition, workflow_ids)

    async def positions(self) -> Mapping[int, int]:
        async with _within(QUERY_TIMEOUT):
            return await bootstrap.positions(self.pool)

    async def count_open(self, most: int) -> int:
        async with _within(QUERY_TIMEOUT):
            return await request_answers.count_open(self.pool, most)

    async def day_use(
        self,
        day_start_ms: int,
        *,
        rounds: Collection[RoundKey] = (),
        requests: Collection[RequestKey] = (),
        calls: bool = True,
    ) -> DayUse:
        async with _within(QUERY_TIMEOUT):
            return await read_day_use(self.pool, day_start_ms, rounds=rounds, requests=requests, calls=calls)

    async def seal_key(self) -> bytes | None:
        async with _within(QUERY_TIMEOUT):
            return await access_keys.seal_key(self.pool)

    async def answered(self, source: str, request_id: str) -> bool:
        async with _within(QUERY_TIMEOUT):
            return await request_answers.answer(self.pool, source, request_id) is not None

    async def retention(self, workflow_id: str) -> Retention:
        async with _within(QUERY_TIMEOUT):
            return await workflow_lifetimes.workflow_retention(self.pool, workflow_id)

    async def accepted_hash(self, workflow_id: str, seq: int) -> str | None:
        async with _within(QUERY_TIMEOUT):
            return await record_queries.accepted_hash(self.pool, workflow_id, seq)

    async def accepted_events(self, workflow_id: str) -> Sequence[AcceptedEvent]:
        async with _within(QUERY_TIMEOUT):
            return accepted(await reader.judged_records(self.pool, workflow_id))

    async def approval(self, workflow_id: str, place: tuple[int, int, int, int]) -> request_answers.StepApproval | None:
        async with _within(QUERY_TIMEOUT):
            return await request_answers.approval(self.pool, workflow_id, place)

    async def open_round(self, workflow_id: str) -> request_answers.OpenRound | None:
        async with _within(QUERY_TIMEOUT):
            return await request_answers.open_round(self.pool, workflow_id)

    async def policy_after(self, partition: int, number: int) -> tuple[int, AppliedPolicy | None]:
        async with _within(QUERY_TIMEOUT):
            return await request_answers.policy_after(self.pool, partition, number)

    async def messages(self, workflow_id: str, before_seq: int | None) -> Sequence[ChatMessage]:
        async with _within(QUERY_TIMEOUT):
            return await reader.messages(self.pool, workflow_id, limit=PAGE, before_seq=before_seq)

    async def spent(self, workflow_id: str, rounds: int) -> Spent:
        async with _within(QUERY_TIMEOUT):
            ended_rounds, spent = await reader.spent(self.pool, workflow_id)
        if ended_rounds != rounds:
            raise Unavailable(f"Postgres was rebuilt and does not hold all {rounds} rounds of {workflow_id} yet")
        return spent

    async def opening(self, workflow_id: str, round_number: int) -> Opening:
        async with _within(QUERY_TIMEOUT):
            opening = await reader.opening(self.pool, workflow_id)
        if opening is None or opening.round != round_number:
            raise Unavailable(f"Postgres was rebuilt and does not hold round {round_number} of {workflow_id} yet")
        return opening


@asynccontextmanager
async def _within(seconds: float) -> AsyncGenerator[None, None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Postgres did not answer within {seconds:g} s") from error
    except (Refused, Conflict) as error:  # Conflict: a rebuild is exchanging the tables
        raise Unavailable(str(error)) from error
