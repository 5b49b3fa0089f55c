"""What waits, and for whom: the lag of each group, turns by role, and workflows that no role works on."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from poweron_events import topics
from poweron_events.event import Model, Role
from poweron_events.fold.stage_specs import TURNS
from poweron_events.log import EventLog
from poweron_projections import offsets
from poweron_projections.connection import Pool, acquire
from poweron_projections.entries import InstanceEntry
from poweron_projections.projector import GROUP as PROJECTOR_GROUP
from poweron_projections.projector import group_of
from poweron_projections.reader import time
from poweron_projections.workload import WAITS_AS

MANY_BEHIND: Final = 1_000  # records of lag from which on it is a warning
TOO_MANY_BEHIND: Final = 10_000  # records of lag from which on it is critical

LagLevel = Literal["ok", "warning", "critical"]
"""`critical` also if no process is in a group that has something to read."""

_AT_WORK: Final = frozenset({"started", "draining"})
"""Phases in which an action runs, or ran when its process died."""

_OPEN: Final = f"""
SELECT {WAITS_AS} AS waits_as,
       COUNT(*) AS workflows, MIN(updated_ms) AS oldest_ms,
       (array_agg(workflow_id::text ORDER BY updated_ms, workflow_id))[1] AS oldest
  FROM workflows
 WHERE is_open
 GROUP BY 1
"""  # noqa: S608 - an expression of ours
FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
_STUCK: Final = """
SELECT workflows.workflow_id::text, first.prompt, workflows.round, workflows.phase, stuck, frozen, updated_ms
  FROM workflows LEFT JOIN rounds first ON first.workflow_id = workflows.workflow_id AND first.round = 1
 WHERE is_open AND (stuck OR frozen) AND (updated_ms, workflows.workflow_id) > ($2, $3::text::uuid)
 ORDER BY updated_ms, workflows.workflow_id LIMIT $1
"""


class GroupLag(Model):
    """How far a consumer group is behind the end of its topic."""

    group: str
    topic: str
    roles: tuple[str, ...]
    """What its members do."""
    has_members: bool
    lag: int
    """The records that it has not processed yet."""
    level: LagLevel
    by_partition: dict[int, int]
    """The same for each partition in which it is behind."""


class WaitingTurns(Model):
    """How many workflows wait for a role, and which waits longest."""

    role: str
    waiting: int
    at_work: int = 0
    """Of the executor: workflows of which an action runs."""
    oldest: str | None = None
    """The workflow that waits longest."""
    since: str | None = None


class OpenWorkflows(Model):
    """What the open workflows wait for."""

    turns: tuple[WaitingTurns, ...]
    """By role, in the order of the loop."""
    approvals: int
    """Actions that wait for a person's approval."""
    budget_questions: int
    paused: int
    stuck: int
    frozen: int

    @property
    def total(self) -> int:
        """How many workflows are open."""
        turns = sum(turn.waiting + turn.at_work for turn in self.turns)
        return turns + self.approvals + self.budget_questions + self.paused + self.stuck + self.frozen


class HaltedWorkflow(Model):
    """An open workflow that no role works on, because of what its log contains."""

    workflow_id: str
    prompt: str | None
    round: int
    phase: str
    stuck: bool
    """Three events in a row had no effect."""
    frozen: bool
    """A newer release has worked on it."""
    since: str


class _Group(NamedTuple):
    name: str
    topic: topics.Topic
    roles: tuple[str, ...]


async def lags(log: EventLog, pool: Pool, processes: Iterable[InstanceEntry]) -> list[GroupLag]:
    """Return the lag of the projector, of intake and of each set of roles that one of these processes plays.

    Raises:
        Unavailable: the log or Postgres cannot be reached, or the log has lost events.
        Refused: the log does not allow us to see a group.
    """
    projected = await _projected(pool)
    found = list[GroupLag]()
    for group in _groups(processes):
        state = await log.group_state(group.topic.name, group.name)
        committed = projected[group.topic.name] if group.name in _OF_ROWS else state.committed
        ends = await log.ends(group.topic.name)
        found.append(_lag(group, ends, committed, has_members=state.has_members))
    return found


_OF_ROWS: Final = frozenset({PROJECTOR_GROUP, *map(group_of, topics.BESIDE_EVENTS)})
"""Groups whose position is in the rows, in the transaction of what they wrote."""


def _groups(processes: Iterable[InstanceEntry]) -> Iterator[_Group]:
    played = {frozenset(process.record.roles) & topics.FOLDING for process in processes} - {frozenset()}
    yield _Group(PROJECTOR_GROUP, topics.EVENTS, ("projector",))
    for topic in topics.BESIDE_EVENTS:
        yield _Group(group_of(topic), topic, ("projector",))
    yield _Group(topics.INTAKE_GROUP, topics.REQUESTS, ("intake",))
    yield _Group(topics.URGENT_INTAKE_GROUP, topics.REQUESTS, ("intake",))
    for roles in sorted(played or {topics.FOLDING}, key=topics.group_of):
        yield _Group(topics.group_of(roles), topics.EVENTS, tuple(role for role in get_args(Role) if role in roles))


def _lag(group: _Group, ends: Mapping[int, int], committed: Mapping[int, int], *, has_members: bool) -> GroupLag:
    behind = {partition: max(0, end - committed.get(partition, 0)) for partition, end in sorted(ends.items())}
    lag = sum(behind.values())
    return GroupLag(
        group=group.name,
        topic=group.topic.name,
        roles=group.roles,
        has_members=has_members,
        lag=lag,
        level=lag_level(lag, has_members=has_members),
        by_partition={partition: records for partition, records in behind.items() if records},
    )


def lag_level(lag: int, *, has_members: bool) -> LagLevel:
    """Return how serious it is that a group is this number of records behind."""
    if lag >= TOO_MANY_BEHIND or (lag and not has_members):
        return "critical"
    return "warning" if lag >= MANY_BEHIND else "ok"


async def _projected(pool: Pool) -> Mapping[str, Mapping[int, int]]:
    async with acquire(pool) as connection:
        return await offsets.read_all(connection)


async def open_workflows(pool: Pool) -> OpenWorkflows:
    """Return what the open workflows wait for, by role and otherwise.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        found = {row["waits_as"]: row for row in await connection.fetch(_OPEN)}

    def count(name: str) -> int:
        return found[name]["workflows"] if name in found else 0

    roles = dict.fromkeys(TURNS.values())
    return OpenWorkflows(
        turns=tuple(_turns(role, found) for role in roles),
        approvals=count("approve"),
        budget_questions=count("budget"),
        paused=count("paused"),
        stuck=count("stuck"),
        frozen=count("frozen"),
    )


def _turns(role: Role, found: Mapping[str, Any]) -> WaitingTurns:
    rows = [found[phase] for phase, turn in TURNS.items() if turn == role and phase in found and phase != "approve"]
    waiting = [row for row in rows if row["waits_as"] not in _AT_WORK]
    oldest = min(waiting, key=lambda row: row["oldest_ms"], default=None)
    return WaitingTurns(
        role=role,
        waiting=sum(row["workflows"] for row in waiting),
        at_work=sum(row["workflows"] for row in rows if row["waits_as"] in _AT_WORK),
        oldest=None if oldest is None else oldest["oldest"],
        since=None if oldest is None else time(oldest["oldest_ms"]),
    )


async def halted_workflows(pool: Pool, *, limit: int, after: tuple[int, str] = (-1, FIRST_ID)) -> list[HaltedWorkflow]:
    """Return the open workflows that are stuck or frozen, longest first.

    `after` is the last entry of the page before: since when it is halted, in ms since 1970, and its workflow.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with acquire(pool) as connection:
        rows = await connection.fetch(_STUCK, limit, *after)
    names = ("workflow_id", "prompt", "round", "phase", "stuck", "frozen")
    return [HaltedWorkflow(**{name: row[name] for name in names}, since=time(row["updated_ms"])) for row in rows]
