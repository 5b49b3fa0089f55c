"""Requests in the rows: their answers, the approvals that steps wait for, and the workflows that are open."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from poweron_events import topics
from poweron_events.actor import Actor
from poweron_events.codes import Code
from poweron_events.event import READING
from poweron_events.policy import ANYONE, AnswerTerms, AppliedPolicy
from poweron_events.request import RefusalReason
from poweron_projections.connection import Pool, acquire
from poweron_projections.policies import applied_policy
from poweron_projections.table_spec import text

_COUNT_OPEN: Final = """
SELECT count(*) AS open
  FROM (SELECT FROM workflows WHERE is_open AND phase <> 'approve' AND paused_ms IS NULL AND budget_question IS NULL
         LIMIT $1) AS counted
"""

_OPEN: Final = "SELECT workflow_id FROM workflows WHERE is_open"

_OPEN_ROUND: Final = """
SELECT phase IN ('closing', 'draining') AS closing, paused_ms IS NOT NULL AS paused, pause_actor AS actor,
       budget_question AS question, budget_code AS question_code, budget_due_ms AS question_due_ms, budget_terms,
       (SELECT policy_number FROM rounds WHERE (rounds.workflow_id, rounds.round)
                                             = (workflows.workflow_id, workflows.round)) AS policy_number
  FROM workflows WHERE workflow_id = $1::uuid AND is_open
"""

_ANSWER: Final = """
SELECT answer, workflow_id, seq, round, reason, code, detail
  FROM requests
 WHERE source = $1 AND id = $2
 ORDER BY answer = 'accepted' DESC, workflow_id, seq
 LIMIT 1
"""

_POLICY_AFTER: Final = """
SELECT next_offset, number, sha256, policy
  FROM offsets LEFT JOIN (SELECT number, sha256, policy FROM policies WHERE number > $3
                           ORDER BY number DESC LIMIT 1) AS newest ON TRUE
 WHERE topic = $1 AND partition = $2
"""

_APPROVAL: Final = """
SELECT steps.approval AS state, steps.approval_sha256 AS parameters_sha256, steps.approval_due_ms AS due_ms,
       steps.approval_by AS by, steps.approval_terms AS terms, steps.action, steps.parameters,
       workflows.paused_ms IS NOT NULL AS paused,
       workflows.phase = 'approve' AND (workflows.round, workflows.task, workflows.attempt, workflows.step)
                                     = (steps.round, steps.task, steps.attempt, steps.step) AS waits
  FROM steps JOIN workflows USING (workflow_id)
 WHERE steps.workflow_id = $1::uuid AND (steps.round, steps.task, steps.attempt, steps.step) = ($2, $3, $4, $5)
   AND steps.approval IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class RequestAnswer:
    """The answer to a request. Accepted outranks refused."""

    answer: Literal["accepted", "refused"]
    workflow_id: str
    seq: int
    round: int | None
    reason: RefusalReason | None
    code: Code | None
    detail: str


@dataclass(frozen=True, slots=True)
class OpenRound:
    """The state of an open round: whether only its end is awaited, whether it is paused, and its budget question."""

    closing: bool
    paused: bool
    paused_by: Actor | None
    question: int | None = None
    question_code: Code | None = None
    question_due_ms: int | None = None
    budget_terms: AnswerTerms = ANYONE
    policy_number: int | None = None


@dataclass(frozen=True, slots=True)
class StepApproval:
    """The state of an approval; `waits` is True while it can still be answered, and a pause suspends its time limit."""

    state: Literal["asked", "granted", "denied"]
    parameters_sha256: str
    due_ms: int
    by: str | None
    waits: bool
    paused: bool = False
    terms: AnswerTerms = ANYONE
    action: str = ""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)


async def count_open(pool: Pool, most: int) -> int:
    """Count the open workflows that neither wait for a person nor are paused, up to `most`.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        (found,) = await connection.fetch(_COUNT_OPEN, most)
    return int(found["open"])


async def open_workflows(pool: Pool) -> frozenset[str]:
    """Return the workflows that have an open round.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        return frozenset(str(found["workflow_id"]) for found in await connection.fetch(_OPEN))


async def answer(pool: Pool, source: str, request_id: str) -> RequestAnswer | None:
    """Return the answer to the request (source, id) according to the rows; None if there is none yet.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        found = await connection.fetchrow(_ANSWER, text(source), text(request_id))
    if found is None:
        return None
    return RequestAnswer(**{**found, "workflow_id": str(found["workflow_id"])})


async def open_round(pool: Pool, workflow_id: str) -> OpenRound | None:
    """Return the open round of the workflow according to the rows; None if there is none.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        found = await connection.fetchrow(_OPEN_ROUND, workflow_id)
    if found is None:
        return None
    actor = found["actor"]
    paused_by = None if actor is None else Actor.model_validate(actor, context=READING)
    terms = ANYONE if found["budget_terms"] is None else AnswerTerms.model_validate(found["budget_terms"])
    return OpenRound(
        closing=found["closing"],
        paused=found["paused"],
        paused_by=paused_by,
        question=found["question"],
        question_code=found["question_code"],
        question_due_ms=found["question_due_ms"],
        budget_terms=terms,
        policy_number=found["policy_number"],
    )


async def approval(pool: Pool, workflow_id: str, place: tuple[int, int, int, int]) -> StepApproval | None:
    """Return the approval of the step at `place` according to the rows; None if none was requested.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        found = await connection.fetchrow(_APPROVAL, workflow_id, *place)
    if found is None:
        return None
    return StepApproval(**{**found, "terms": AnswerTerms.model_validate(found["terms"])})


async def policy_after(pool: Pool, partition: int, number: int) -> tuple[int, AppliedPolicy | None]:
    """Return the projector's next offset in the partition of the policies, and the newest policy after this number.

    Raises:
        Unavailable: Postgres cannot be reached, or nothing has been projected into it yet.
    """
    async with acquire(pool) as connection:
        found = await connection.fetchrow(_POLICY_AFTER, topics.EVENTS.name, partition, number)
    if found is None:
        return 0, None
    if found["number"] is None:
        return found["next_offset"], None
    return found["next_offset"], applied_policy(found)
