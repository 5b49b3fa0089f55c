"""The workload as the rows show it: what is open, whose turn it is, and what waits for a person.

A query costs the same however many workflows have ended; it counts at most `MOST` rows of each kind.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from poweron_events import topics
from poweron_projections import offsets
from poweron_projections.audit.ledger_rows import ledger_positions
from poweron_projections.connection import Pool, snapshot

MOST: Final = 100_000

WAITS_AS: Final = """
CASE WHEN paused_ms IS NOT NULL AND phase <> 'started' THEN 'paused'
     WHEN budget_question IS NOT NULL THEN 'budget'
     WHEN stuck THEN 'stuck'
     WHEN frozen AND phase NOT IN ('closing', 'draining') THEN 'frozen'
     ELSE phase
END
"""
"""What an open workflow waits for: the role of its phase, a person if that is `approve`, or what stops it."""

_HAS_ROWS: Final = "SELECT to_regclass('offsets') IS NOT NULL"
_OPEN: Final = f"""
SELECT phase, has_turn, COUNT(*) AS workflows, MIN(updated_ms) AS since_ms,
       COUNT(*) FILTER (WHERE stuck) AS stuck, COUNT(budget_question) AS questions
  FROM (
           SELECT phase, updated_ms, stuck, budget_question, phase <> 'approve' AND {WAITS_AS} = phase AS has_turn
             FROM workflows WHERE is_open LIMIT $1
       ) AS open
 GROUP BY phase, has_turn
"""  # noqa: S608 - an expression of ours
_APPROVALS: Final = """
SELECT COUNT(*) AS pending,
       COUNT(*) FILTER (WHERE escalated OR 2 * $2::bigint > approval_ms + approval_due_ms) AS overdue
  FROM (
           SELECT approval_ms, approval_due_ms,
                  COALESCE((approval_terms ->> 'escalated')::boolean, FALSE) AS escalated
             FROM workflows JOIN steps USING (workflow_id, round, task, attempt, step)
            WHERE workflows.is_open AND workflows.phase = 'approve' LIMIT $1
       ) AS asked
"""
_DEAD_LETTERS: Final = """
SELECT topic, COUNT(*) AS number FROM (SELECT topic FROM dead_letters LIMIT $1) AS letters GROUP BY topic
"""
_SIGNED: Final = "SELECT time_ms FROM ledger_checkpoints ORDER BY log_offset DESC LIMIT 1"


class Turns(NamedTuple):
    """The open workflows in one phase."""

    phase: str
    has_turn: bool
    """Whether a role can go on with them: nothing stops them, and they do not wait for a person."""
    workflows: int
    since_ms: int
    """When the one that has been waiting longest had its last record."""


class Workload(NamedTuple):
    """What is open and what waits, at one moment."""

    turns: tuple[Turns, ...] = ()
    stuck: int = 0
    approvals: int = 0
    overdue: int = 0
    """Approvals that were escalated, or have used more than half of their time."""
    questions: int = 0
    """Rounds that ask a person for a larger budget."""
    dead_letters: Mapping[str, int] = {}
    """By topic."""
    positions: Mapping[int, int] = {}
    """The projector's next offset in each partition of `poweron.events`."""
    entered: Mapping[int, int] = {}
    """The same of the ledger."""
    signed_ms: int | None = None
    """When the ledger last signed; None if it never did."""


async def read_workload(pool: Pool, now_ms: int) -> Workload:
    """Return the workload; it is empty if no projector has created the rows yet.

    Raises:
        Unavailable: Postgres cannot be reached, or the rows are those of another release.
    """
    async with snapshot(pool) as connection:
        if not await connection.fetchval(_HAS_ROWS):
            return Workload()
        open_ = await connection.fetch(_OPEN, MOST)
        asked = await connection.fetchrow(_APPROVALS, MOST, now_ms)
        letters = await connection.fetch(_DEAD_LETTERS, MOST)
        positions = await offsets.read(connection, topics.EVENTS.name)
        entered = await ledger_positions(connection)
        signed_ms = await connection.fetchval(_SIGNED)
    assert asked is not None  # an aggregate has one row
    return Workload(
        turns=tuple(Turns(row["phase"], row["has_turn"], row["workflows"], row["since_ms"]) for row in open_),
        stuck=sum(row["stuck"] for row in open_),
        approvals=asked["pending"],
        overdue=asked["overdue"],
        questions=sum(row["questions"] for row in open_),
        dead_letters={row["topic"]: row["number"] for row in letters},
        positions=positions,
        entered=entered,
        signed_ms=signed_ms,
    )
