"""What actors and sources have used since the beginning of a day, over all their workflows, according to the rows."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from poweron_events import topics
from poweron_events.fold.day_use import DayUse, RequestKey, RoundKey, Use
from poweron_events.fold.state import Used
from poweron_projections import offsets
from poweron_projections.connection import Found, Pool, snapshot
from poweron_projections.table_spec import columns_of

EVENTS: Final = topics.EVENTS.name

_USED: Final = """
SELECT rounds.actor->>'id' AS actor, rounds.request_source AS source,
       sum(usage.input_tokens)::bigint AS input_tokens, sum(usage.output_tokens)::bigint AS output_tokens,
       sum(usage.cost_nano_usd)::bigint AS cost_nano_usd
  FROM usage JOIN rounds USING (workflow_id, round)
 WHERE usage.time_ms >= $1
 GROUP BY 1, 2
"""

_STARTED: Final = """
SELECT actor->>'id' AS actor, request_source AS source, count(*) AS starts
  FROM rounds
 WHERE opened_ms >= $1 AND NOT (status = 'cancelled' AND steps = 0)
 GROUP BY 1, 2
"""

_OPEN: Final = """
SELECT rounds.actor->>'id' AS actor, rounds.request_source AS source, count(*) AS open
  FROM workflows JOIN rounds USING (workflow_id, round)
 WHERE is_open AND phase <> 'approve' AND paused_ms IS NULL AND budget_question IS NULL
 GROUP BY 1, 2
"""

_ROUNDS: Final = """
SELECT workflow_id, round, sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
       sum(cost_nano_usd)::bigint AS cost_nano_usd
  FROM usage
 WHERE verdict = 'accepted' AND (workflow_id, round) IN (SELECT * FROM unnest($1::uuid[], $2::integer[]))
 GROUP BY 1, 2
"""


_ANSWERED: Final = """
SELECT DISTINCT source, id
  FROM requests
 WHERE (source, id) IN (SELECT * FROM unnest($1::text[], $2::text[]))
"""


async def read_day_use(
    pool: Pool,
    day_start_ms: int,
    *,
    rounds: Collection[RoundKey] = (),
    requests: Collection[RequestKey] = (),
    calls: bool = True,
) -> DayUse:
    """Return what was used since the beginning of a day.

    Args:
        pool: connections to Postgres.
        day_start_ms: when the day began, in ms since 1970.
        rounds: of these, the result also says what the calls of each have used.
        requests: of these, it says which are answered.
        calls: whether tokens and money are added up, which reads all calls of the day.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with snapshot(pool) as connection:
        used = await connection.fetch(_USED, day_start_ms) if calls else ()
        started = await connection.fetch(_STARTED, day_start_ms)
        opened = await connection.fetch(_OPEN)
        totals = await connection.fetch(_ROUNDS, *columns_of(rounds)) if rounds else ()
        answered = await connection.fetch(_ANSWERED, *columns_of(requests)) if requests else ()
        positions = await offsets.read(connection, EVENTS)
    return DayUse.of(
        day_start_ms,
        _uses(used, started, opened),
        {(str(row["workflow_id"]), row["round"]): _used(row) for row in totals},
        [(row["source"], row["id"]) for row in answered],
        positions,
    )


def _uses(
    used: Sequence[Found], started: Sequence[Found], opened: Sequence[Found]
) -> Iterator[tuple[str | None, str, Use]]:
    for row in used:
        yield row["actor"], row["source"], Use(used=_used(row))
    for row in started:
        yield row["actor"], row["source"], Use(starts=row["starts"])
    for row in opened:
        yield row["actor"], row["source"], Use(open=row["open"])


def _used(row: Found) -> Used:
    return Used(row["input_tokens"], row["output_tokens"], row["cost_nano_usd"])
