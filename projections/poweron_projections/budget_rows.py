"""The budgets of open rounds, with what was used and granted; and who asked for rounds lately."""

from collections.abc import Collection
from typing import Final, NamedTuple

from poweron_events.actor import Actor
from poweron_events.codec import decode
from poweron_events.event import READING
from poweron_events.fold.state import Opening, Used
from poweron_events.request import Budgets
from poweron_events.round_events import BudgetGranted
from poweron_projections.connection import Connection, Found, Pool, snapshot
from poweron_projections.records import decompress

MOST: Final = 1_000  # open rounds that are looked at, those that used most tokens

_OPEN: Final = """
SELECT workflows.workflow_id::text, workflows.round, rounds.prompt, opening.compressed,
       rounds.input_tokens, rounds.output_tokens, rounds.cost_nano_usd, used.*
  FROM workflows
  JOIN rounds USING (workflow_id, round)
  JOIN records opening ON opening.workflow_id = workflows.workflow_id AND opening.seq = rounds.opening_seq
 CROSS JOIN LATERAL (
       SELECT SUM(steps)::bigint AS steps, SUM(input_tokens)::bigint AS all_input_tokens,
              SUM(output_tokens)::bigint AS all_output_tokens, SUM(cost_nano_usd)::bigint AS all_cost_nano_usd
         FROM rounds WHERE rounds.workflow_id = workflows.workflow_id
  ) used
 WHERE workflows.is_open
 ORDER BY rounds.input_tokens + rounds.output_tokens DESC LIMIT $1
"""
_GRANTED: Final = """
SELECT workflow_id::text, compressed FROM records
 WHERE workflow_id = ANY($1::uuid[]) AND type = $2 AND verdict = 'accepted' AND compressed IS NOT NULL
"""
_REQUESTERS: Final = """
SELECT DISTINCT actor, request_source FROM rounds WHERE opened_ms >= $1 AND actor IS NOT NULL
 UNION
SELECT DISTINCT rounds.actor, rounds.request_source
  FROM workflows JOIN rounds USING (workflow_id, round)
 WHERE workflows.is_open AND rounds.actor IS NOT NULL
"""


class OpenBudget(NamedTuple):
    """An open round with its budgets."""

    workflow_id: str
    round: int
    prompt: str
    budgets: Budgets
    granted: Used
    """By how much its limits of tokens and money were raised, as input tokens and nano-USD."""
    in_round: Used
    in_workflow: Used
    steps: int
    """Steps of all rounds."""


async def open_budgets(pool: Pool) -> list[OpenBudget]:
    """Return the open rounds that have a budget, of those that used most.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with snapshot(pool) as connection:
        rows = await connection.fetch(_OPEN, MOST)
        budgets = [(row, found) for row in rows if (found := _budgets(row)) is not None]
        granted = await _granted(connection, {(row["workflow_id"], row["round"]) for row, _ in budgets})
    return [
        OpenBudget(
            row["workflow_id"],
            row["round"],
            row["prompt"],
            found,
            granted.get(row["workflow_id"], Used()),
            Used(row["input_tokens"], row["output_tokens"], row["cost_nano_usd"]),
            Used(row["all_input_tokens"], row["all_output_tokens"], row["all_cost_nano_usd"]),
            row["steps"],
        )
        for row, found in budgets
    ]


async def granted(pool: Pool, workflow_id: str, round_: int) -> Used:
    """Return by how much people raised the limits of a round, as input tokens and nano-USD.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with snapshot(pool) as connection:
        return (await _granted(connection, {(workflow_id, round_)})).get(workflow_id, Used())


def _budgets(row: Found) -> Budgets | None:
    event = decode(decompress(row["compressed"])).event
    return event.budgets if isinstance(event, Opening) and event.budgets != Budgets() else None


async def _granted(connection: Connection, rounds: Collection[tuple[str, int]]) -> dict[str, Used]:
    ids = [workflow_id for workflow_id, _ in rounds]
    total = dict[str, Used]()
    for row in await connection.fetch(_GRANTED, ids, BudgetGranted.TYPE) if ids else ():
        event, workflow_id = decode(decompress(row["compressed"])).event, row["workflow_id"]
        if isinstance(event, BudgetGranted) and (workflow_id, event.round) in rounds:
            total[workflow_id] = total.get(workflow_id, Used()) + Used(event.tokens, 0, event.cost_nano_usd)
    return total


async def recent_requesters(pool: Pool, since_ms: int) -> list[tuple[Actor, str]]:
    """Return the actors, with their sources, whose round was opened since then or is open.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with snapshot(pool) as connection:
        rows = await connection.fetch(_REQUESTERS, since_ms)
    return [(Actor.model_validate(row["actor"], context=READING), row["request_source"]) for row in rows]
