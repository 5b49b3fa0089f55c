"""The latest answers of people: which actions were approved or denied, by whom and why."""

from typing import Final

from poweron_events.actor import Actor
from poweron_events.event import READING, Model
from poweron_projections.connection import Pool, acquire, cells
from poweron_projections.reader import time

SEARCHED: Final = 500  # newest workflows whose answers are read

_ANSWERED: Final = """
SELECT steps.workflow_id::text, steps.round, steps.task, steps.attempt, steps.step, steps.action, steps.approval,
       steps.approval_by, steps.approval_actor, steps.approval_reason, steps.approval_answered_ms,
       steps.approval_answered_ms - steps.approval_ms AS waited_ms
  FROM (SELECT workflow_id FROM workflows ORDER BY opened_ms DESC, workflow_id DESC LIMIT $2) AS newest
  JOIN steps USING (workflow_id)
 WHERE steps.approval IN ('granted', 'denied') AND steps.approval_answered_ms IS NOT NULL
 ORDER BY steps.approval_answered_ms DESC LIMIT $1
"""


class AnsweredApproval(Model):
    """An action that a person approved or denied, or that waited too long."""

    workflow_id: str
    round: int
    task: int
    attempt: int
    step: int
    action: str | None
    approval: str
    approval_by: str | None
    """The name that the answer gives; None if no one answered in time."""
    approval_actor: Actor | None
    approval_reason: str | None
    answered: str
    waited_ms: int


async def answered_approvals(pool: Pool, *, limit: int) -> list[AnsweredApproval]:
    """Return the last answers of people in the newest workflows, newest first.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        rows = await connection.fetch(_ANSWERED, limit, SEARCHED)
    names = [name for name in AnsweredApproval.model_fields if name != "answered"]
    return [
        AnsweredApproval.model_validate(
            {**cells(row, names), "answered": time(row["approval_answered_ms"])}, context=READING
        )
        for row in rows
    ]
