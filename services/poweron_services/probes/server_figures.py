"""Figures that Kafka and Postgres hold, read when the metrics are scraped.

Each server is asked at most every few seconds, by one query at a time. A reader waits for it only briefly: a server
that does not answer costs its figures, not the answer to the reader.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Final, Generic, NamedTuple, TypeVar, get_args

import structlog

from poweron_events import topics
from poweron_events.errors import PowerOnError, Refused
from poweron_events.event import Role
from poweron_events.fold.stage_specs import TURNS
from poweron_events.fold.state import Phase
from poweron_events.task_cancellation import cancel_task, retrieve_error
from poweron_projections.workload import Workload, read_workload
from poweron_services import wiring
from poweron_services.client.connect import Connections
from poweron_services.telemetry.prometheus import OTHER, GaugeValue

log = structlog.get_logger()

KEPT: Final = 5.0  # seconds for which an answer is used again
QUERY_TIMEOUT: Final = 10.0  # seconds after which a query is given up
SCRAPE_WAIT: Final = 1.5  # seconds for which a scrape waits for the servers, all at the same time
READY_WAIT: Final = 0.5  # the same for `/readyz`, since orchestrators give up after a second
CLOSE_TIMEOUT: Final = 0.5  # seconds

PHASES: Final = frozenset(get_args(Phase)) - {"none", "ended"}
ROLES_OF_TURNS: Final[tuple[Role, ...]] = tuple(dict.fromkeys(TURNS.values()))
TOPICS: Final = frozenset(topic.name for topic in topics.ALL)

Answer = TypeVar("Answer")


class Lags(NamedTuple):
    """What Kafka says: the ends of the events, and the lag of each of the process's consumer groups."""

    ends: Mapping[int, int]
    groups: Mapping[str, int]


class _Query(Generic[Answer]):
    """A query of one server, shared by all readers."""

    def __init__(self, ask: Callable[[], Awaitable[Answer]]) -> None:
        self._ask = ask
        self._task: asyncio.Task[Answer] | None = None
        self._asked = 0.0

    async def answer(self, wait: float) -> Answer | None:
        """Return an answer that is a few seconds old at most; None if the server does not answer in time."""
        now = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and now - self._asked >= KEPT):
            self._task, self._asked = asyncio.create_task(self._bounded()), now
            retrieve_error(self._task)
        task = self._task
        await asyncio.wait({task}, timeout=wait)
        if not task.done() or isinstance(task.exception(), PowerOnError | TimeoutError):
            return None
        return task.result()

    async def is_down(self) -> bool:
        """Return whether the server has failed to answer the last query, or lets it wait for longer than a scrape."""
        if await self.answer(READY_WAIT) is not None:
            return False
        assert self._task is not None
        return self._task.done() or asyncio.get_running_loop().time() - self._asked > SCRAPE_WAIT

    async def _bounded(self) -> Answer:
        async with asyncio.timeout(QUERY_TIMEOUT):
            try:
                return await self._ask()
            except Refused as error:  # for outages, the roles have log lines of their own
                log.warning("figures_refused", error=str(error))
                raise

    async def close(self) -> None:
        if self._task is not None:
            await cancel_task(self._task, CLOSE_TIMEOUT)


class ServerFigures:
    """The figures of a process with open connections."""

    def __init__(self, connections: Connections, roles: Collection[str]) -> None:
        self._connections = connections
        self._groups = [*_groups(frozenset(roles))]
        self._postgres = _Query(self._read_workload)
        self._kafka = _Query(self._read_lags)

    async def figures(self) -> list[GaugeValue]:
        """Return all figures that can be read now."""
        lags, workload = await asyncio.gather(self._kafka.answer(SCRAPE_WAIT), self._postgres.answer(SCRAPE_WAIT))
        figures = [GaugeValue("poweron_server_up", lags is not None, "kafka")]
        figures.append(GaugeValue("poweron_server_up", workload is not None, "postgres"))
        if lags is not None:
            figures += [
                GaugeValue("poweron_consumer_group_lag_records", lag, group) for group, lag in lags.groups.items()
            ]
        if workload is not None:
            figures += _of_workload(workload, wiring.now_ms())
        if lags is not None and workload is not None:
            figures.append(GaugeValue("poweron_projector_lag_records", _behind(lags.ends, workload.positions)))
            figures.append(GaugeValue("poweron_ledger_lag_records", _behind(lags.ends, workload.entered)))
        return figures

    async def unavailable(self) -> list[str]:
        """Return the names of the servers that do not answer."""
        down = await asyncio.gather(self._kafka.is_down(), self._postgres.is_down())
        return [name for name, is_down in zip(("Kafka", "Postgres"), down, strict=True) if is_down]

    async def close(self) -> None:
        """Give up queries that are still running."""
        await asyncio.gather(self._kafka.close(), self._postgres.close())

    async def _read_workload(self) -> Workload:
        return await read_workload(self._connections.pool, wiring.now_ms())

    async def _read_lags(self) -> Lags:
        log, groups = self._connections.log.unguarded, dict[str, int]()
        ends = {topic: await log.ends(topic) for topic in {topics.EVENTS.name, *(topic for topic, _ in self._groups)}}
        for topic, group in self._groups:
            try:
                committed = (await log.group_state(topic, group)).committed
            except Refused:  # the Kafka user may not look at the group
                continue
            groups[group] = sum(max(0, end - committed.get(number, 0)) for number, end in ends[topic].items())
        return Lags(ends[topics.EVENTS.name], groups)


def _groups(roles: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield the topics and consumer groups of a process that plays these roles, without the projector's.

    The projector commits nothing to Kafka: the rows say how far it is.
    """
    if "intake" in roles:
        yield topics.REQUESTS.name, topics.INTAKE_GROUP
        yield topics.REQUESTS.name, topics.URGENT_INTAKE_GROUP
    if folding := roles & wiring.FOLDING:
        yield topics.EVENTS.name, wiring.group_of(folding)


def _behind(ends: Mapping[int, int], positions: Mapping[int, int]) -> int:
    return sum(max(0, end - positions.get(number, 0)) for number, end in ends.items())


def _of_workload(workload: Workload, now_ms: int) -> Iterator[GaugeValue]:
    phases, waiting = dict.fromkeys(sorted(PHASES), 0), dict.fromkeys(ROLES_OF_TURNS, 0)
    oldest = dict.fromkeys(ROLES_OF_TURNS, now_ms)
    for turns in workload.turns:
        phase = turns.phase if turns.phase in PHASES else OTHER
        phases[phase] = phases.get(phase, 0) + turns.workflows
        role = next((role for name, role in TURNS.items() if name == turns.phase), None)
        if role is not None and turns.has_turn:
            waiting[role] += turns.workflows
            oldest[role] = min(oldest[role], turns.since_ms)
    yield from (GaugeValue("poweron_open_workflows", count, phase) for phase, count in phases.items())
    yield from (GaugeValue("poweron_waiting_turns", count, role) for role, count in waiting.items())
    yield from (GaugeValue("poweron_oldest_turn_seconds", (now_ms - ms) / 1000, role) for role, ms in oldest.items())
    yield GaugeValue("poweron_stuck_workflows", workload.stuck)
    yield GaugeValue("poweron_pending_approvals", workload.approvals)
    yield GaugeValue("poweron_overdue_approvals", workload.overdue)
    yield GaugeValue("poweron_pending_budget_questions", workload.questions)
    if workload.signed_ms is not None:
        yield GaugeValue("poweron_ledger_checkpoint_age_seconds", max(0, now_ms - workload.signed_ms) / 1000)
    letters = dict.fromkeys(sorted(TOPICS), 0)
    for topic, count in workload.dead_letters.items():
        known = topic if topic in TOPICS else OTHER
        letters[known] = letters.get(known, 0) + count
    yield from (GaugeValue("poweron_dead_letters", count, topic) for topic, count in letters.items())
