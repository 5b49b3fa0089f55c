"""Open questions: the actions that wait for an approval, and the rounds that ask for a larger budget."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import orjson

from poweron_events.envelope import rfc3339
from poweron_events.event import READING
from poweron_events.policy import AnswerTerms
from poweron_projections.connection import Found, Pool, acquire, snapshot
from poweron_projections.entries import ApprovalEntry, BudgetEntry
from poweron_projections.reader import PAGE, build_entry, time

TermsTest: TypeAlias = Callable[[AnswerTerms], bool]
"""Whether the question with these terms is wanted."""

_APPROVALS: Final = """
SELECT * FROM approvals
 WHERE ($1::uuid IS NULL OR workflow_id = $1::uuid) AND ($3::jsonb[] IS NULL OR terms = ANY($3::jsonb[]))
 ORDER BY asked, workflow_id LIMIT $2
"""
_APPROVAL_TERMS: Final = "SELECT DISTINCT terms FROM approvals"
_BUDGETS: Final = """
SELECT workflows.workflow_id, round, task, attempt, step, budget_question AS question, budget_code AS code,
       budget_reason AS reason, budget_due_ms, budget_terms AS terms, rounds.prompt, rounds.actor, rounds.steps,
       rounds.input_tokens, rounds.output_tokens, rounds.cost_nano_usd
  FROM workflows JOIN rounds USING (workflow_id, round)
 WHERE workflows.is_open AND budget_question IS NOT NULL AND ($1::uuid IS NULL OR workflow_id = $1::uuid)
   AND ($3::jsonb[] IS NULL OR budget_terms = ANY($3::jsonb[]))
 ORDER BY budget_due_ms, workflow_id LIMIT $2
"""
_BUDGET_TERMS: Final = """
SELECT DISTINCT budget_terms AS terms FROM workflows WHERE is_open AND budget_question IS NOT NULL
"""


async def approvals(
    pool: Pool, workflow_id: str | None = None, *, limit: int = PAGE, wanted: TermsTest | None = None
) -> list[ApprovalEntry]:
    """Return the actions that wait for a person, in one workflow or in all; longest waiting first.

    With `wanted`, only those whose terms it accepts are returned and count towards the limit.
    """
    return [
        build_entry(
            ApprovalEntry,
            row,
            workflow_id=str(row["workflow_id"]),
            asked=rfc3339(row["asked"]),
            expires=rfc3339(row["expires"]),
            escalates=row["escalates"] and rfc3339(row["escalates"]),
        )
        for row in await _questions(pool, _APPROVALS, _APPROVAL_TERMS, workflow_id, limit=limit, wanted=wanted)
    ]


async def budget_questions(
    pool: Pool, workflow_id: str | None = None, *, limit: int = PAGE, wanted: TermsTest | None = None
) -> list[BudgetEntry]:
    """Return the rounds that ask for a larger budget, of one workflow or of all; those that expire first come first.

    With `wanted`, only those whose terms it accepts are returned and count towards the limit.
    """
    return [
        build_entry(BudgetEntry, row, workflow_id=str(row["workflow_id"]), expires=time(row["budget_due_ms"]))
        for row in await _questions(pool, _BUDGETS, _BUDGET_TERMS, workflow_id, limit=limit, wanted=wanted)
    ]


async def _questions(
    pool: Pool, query: str, all_terms: str, workflow_id: str | None, *, limit: int, wanted: TermsTest | None
) -> Sequence[Found]:
    """Return the rows of open questions; terms that many questions share are judged once."""
    if wanted is None:
        async with acquire(pool) as connection:
            return await connection.fetch(query, workflow_id, limit, None)
    async with snapshot(pool) as connection:
        terms = [row["terms"] for row in await connection.fetch(all_terms)]
        accepted = [value for value in terms if wanted(AnswerTerms.model_validate(value, context=READING))]
        return await connection.fetch(query, workflow_id, limit, [orjson.dumps(value).decode() for value in accepted])
