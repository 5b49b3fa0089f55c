"""An experiment: load and faults for some minutes on real servers and role processes, then recovery and a verdict."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

import orjson

from poweron_events import topics
from poweron_events.dead_letter import read_dead_letter
from poweron_events.errors import Unavailable
from poweron_events.log import EventLog
from poweron_projections import bootstrap, reader
from poweron_projections.connection import Pool
from poweron_projections.shadow import Difference
from poweron_projections.verify import verify
from poweron_services import telemetry
from poweron_services.client.connect import Connections
from poweron_services.experiments.chaos.evidence import (
    Evidence,
    ListedWorkflow,
    LogReader,
    LogSummary,
    RecordPosition,
    SentRequest,
    kind_of,
)
from poweron_services.experiments.chaos.fault_injection import FaultInjector
from poweron_services.experiments.chaos.faults import InjectedFault, RecoveryMonitor, plan_faults
from poweron_services.experiments.chaos.ledger_witness import wrong_claims
from poweron_services.experiments.chaos.load import LoadGenerator, approval, resumption
from poweron_services.experiments.chaos.role_processes import (
    HALVES,
    ROLE_SETS,
    ChaosEnvironment,
    chaos_environment,
    temporary_home,
    thaw,
)
from poweron_services.experiments.chaos.status import ExperimentPhase, ExperimentStatus, StatusObserver
from poweron_services.experiments.chaos.verdict import Violation, judge
from poweron_services.experiments.sandbox.servers import remove, stopped
from poweron_services.telemetry.log_events import LOG_EVENTS

LEVELS: Final = frozenset({"error", "critical"})
UNFORESEEN: Final = frozenset(
    {"background_task_error", "action_error", "ledger_alarm", "loading_error", "stage_error", "tidying_error"}
)
"""The codes of bugs in PowerOn itself: no injected fault explains them."""
LIST_PAGE = 500  # workflows
START_DEADLINE: Final = 120.0  # seconds until the first scenario must have ended
RECOVERY_DEADLINE: Final = 180.0  # seconds from the last fault until all work must have ended
CHAOS_LOG: Final = "chaos.log"
STATUS_PERIOD: Final = 0.5  # seconds
ATTENDING_PERIOD: Final = 1.0  # seconds


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """The final status and the verdict."""

    status: ExperimentStatus
    faults: Sequence[InjectedFault]
    evidence: Evidence
    violations: Sequence[Violation]
    interrupted: bool
    request_records: int
    """The number of records written for the requests."""
    starts: int
    """The number of role process starts."""
    home: Path | None
    """The data directory kept for inspection; None if it was removed."""


@dataclass(frozen=True, slots=True)
class ExperimentCallbacks:
    """The functions to call while an experiment runs."""

    status: Callable[[ExperimentStatus], None]
    """Called with the status, twice a second."""
    progress: Callable[[str], None]
    """Called with sentences that describe the progress."""


async def run(
    *, seconds: float, seed: int, user_home: Path, keep: bool, stopping: asyncio.Event, callbacks: ExperimentCallbacks
) -> ExperimentResult:
    """Inject faults for this many seconds, then judge. `stopping` ends the run early, with a provisional verdict.

    Raises:
        Unavailable: the servers or the role processes do not start.
        Refused: something must be fixed first; the message says what.
    """
    home = await temporary_home(user_home)
    telemetry.configure("warning", telemetry.LogFile(home / CHAOS_LOG))  # instead of the user's log
    kept = keep
    try:
        async with chaos_environment(home, callbacks.progress) as environment:
            result = await Experiment(environment, seconds, seed, stopping, callbacks, keep=keep).run()
    except Exception:
        kept = True
        callbacks.progress(f"What has been seen so far is kept in {str(home)!r}.")
        raise
    else:
        kept = result.home is not None
        return result
    finally:
        if not kept:
            await remove(home)


@dataclass(slots=True)
class Experiment:
    """One experiment, from the first start to the verdict."""

    environment: ChaosEnvironment
    seconds: float
    seed: int
    stopping: asyncio.Event
    callbacks: ExperimentCallbacks
    keep: bool = False
    _monitor: RecoveryMonitor = field(default_factory=RecoveryMonitor)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _phase: ExperimentPhase = "starting"
    _overdue: list[str] = field(default_factory=list)
    _load: LoadGenerator = field(init=False)
    _injector: FaultInjector = field(init=False)
    _observer: StatusObserver = field(init=False)

    def __post_init__(self) -> None:
        sandbox, role_processes = self.environment.sandbox, self.environment.role_processes
        self._load = LoadGenerator(sandbox.connections.log, self.seed, self._over)
        self._injector = FaultInjector(sandbox, role_processes, self._load, self._monitor, self._over)
        self._observer = StatusObserver(self._monitor, self.seconds)

    @property
    def _connections(self) -> Connections:
        return self.environment.sandbox.connections

    async def run(self) -> ExperimentResult:
        async with asyncio.TaskGroup() as group:
            monitoring = group.create_task(self._monitor.run(self._connections.log))
            showing = group.create_task(self._show_status())
            attending = group.create_task(self._attend())
            await self._inject_faults()
            await self._recover("after the last fault")
            await self._check_halves()
            self._phase = "judging"
            await asyncio.gather(*map(self.environment.role_processes.stop, ROLE_SETS))
            result = await self._result()
            for task in (monitoring, showing, attending):
                task.cancel()
        return result

    async def _show_status(self) -> None:
        while True:
            self.callbacks.status(self._status())
            await asyncio.sleep(STATUS_PERIOD)

    async def _attend(self) -> None:
        """Resume what is paused and approve what waits, as people would who look now and then."""
        for number in count():
            await asyncio.sleep(ATTENDING_PERIOD)
            for workflow_id in sorted(self._monitor.open):
                workflow, planned = self._monitor.workflows[workflow_id], None
                if workflow.is_paused:
                    planned = resumption(f"resume-{number}-{workflow_id}", workflow_id, workflow.current.number)
                elif workflow.phase == "approve":
                    planned = approval(f"approval-{number}-{workflow_id}", workflow)
                if planned is not None:
                    await self._load.send(planned)

    def _status(self) -> ExperimentStatus:
        return self._observer.status(self._phase, len(self._load.sent))

    async def _inject_faults(self) -> None:
        """Generate load from the start and inject faults from the first completed scenario, until the time is up."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._load.run(lambda: len(self._monitor.open)))
            try:
                await self._start()
                self._phase = "injecting"
                self._observer.begin()
                group.create_task(self._injector.run(plan_faults(self.seed, self.seconds)))
                await stopped(self.stopping, self.seconds)
            finally:
                self._observer.end()
                self._over.set()
        self._phase = "recovering"

    async def _start(self) -> None:
        self.callbacks.progress(f"Starting {len(ROLE_SETS)} role processes…")
        await asyncio.gather(*map(self.environment.role_processes.start, ROLE_SETS))
        try:
            async with asyncio.timeout(START_DEADLINE):
                while not (self._monitor.endings or await stopped(self.stopping, STATUS_PERIOD)):
                    pass
        except TimeoutError as error:
            logs = str(self.environment.sandbox.home / "logs")
            raise Unavailable(f"No workflow was done within {START_DEADLINE:g} s; {logs!r} says why") from error

    async def _recover(self, when: str) -> None:
        """Wait until all requested work has ended and is in the rows."""
        give_up = time.monotonic() + RECOVERY_DEADLINE
        while not self.stopping.is_set() and (unfinished := await self._unfinished()):
            if time.monotonic() > give_up:
                self._overdue.append(f"Not everything is done within {RECOVERY_DEADLINE:g} s {when}: {unfinished}.")
                return
            await stopped(self.stopping, STATUS_PERIOD)

    async def _check_halves(self) -> None:
        """Check that each half of the role processes runs a scenario in each partition while the others are frozen.

        A process that only appears to be alive fails this check.
        """
        for half in HALVES:
            if self.stopping.is_set() or self._overdue:
                return
            self._phase = "checking_halves"
            others = [self.environment.role_processes.freeze(name) for name in ROLE_SETS if name not in half]
            try:
                await self._load.send_to_each_partition()
                await self._recover(f"with only {' and '.join(half)}")
            finally:
                for each in others:
                    thaw(each)

    async def _unfinished(self) -> str | None:
        """Return what is unfinished, or None if everything is done."""
        unanswered = self._load.sent.keys() - self._monitor.answered
        if unanswered:
            return f"{len(unanswered)} requests have no answer, {min(unanswered)!r} for one"
        if self._monitor.open:
            return f"{len(self._monitor.open)} workflows are open, {min(self._monitor.open)} for one"
        try:
            ends = await self._connections.log.ends(topics.EVENTS.name)
            projected = await bootstrap.positions(self._connections.pool)
        except Unavailable as error:
            return f"{error}"
        return _behind("the monitor", self._monitor.positions, ends) or _behind("the projector", projected, ends)

    async def _result(self) -> ExperimentResult:
        finished = not self.stopping.is_set()
        evidence = await self._evidence(finished=finished)
        violations = judge(evidence, finished=finished)
        return ExperimentResult(
            status=self._status(),
            faults=self._monitor.faults,
            evidence=evidence,
            violations=violations,
            interrupted=not finished,
            request_records=self._load.records,
            starts=self.environment.role_processes.starts,
            home=self.environment.sandbox.home if self.keep or violations else None,
        )

    async def _evidence(self, *, finished: bool) -> Evidence:
        sent = self._load.sent.values()
        requests = [SentRequest(each.request_id, each.workflow_id, kind_of(each.request)) for each in sent]
        unexpected = [*self._overdue, *self.environment.role_processes.unexpected, *self._injector.unexpected]
        return await collect(self.environment, requests, self._injector, unexpected, rows=finished)


def _behind(who: str, positions: Mapping[int, int], ends: Mapping[int, int]) -> str | None:
    missing = sum(max(0, end - positions.get(partition, 0)) for partition, end in ends.items())
    return f"{who} is {missing} records behind" if missing else None


async def collect(
    environment: ChaosEnvironment,
    requests: Sequence[SentRequest],
    injector: FaultInjector,
    unexpected: Sequence[str],
    *,
    rows: bool,
) -> Evidence:
    """Return everything that the verdict is based on; include the rows only if `rows` says that they are complete."""
    connections = environment.sandbox.connections
    summary = await _log_summary(connections.log)
    differences = (await verify(connections.log, connections.pool)).differences if rows else ()
    return Evidence(
        requests=requests,
        log=summary,
        effects=environment.journal.read(),
        effect_times=environment.journal.times(),
        cancelled=injector.cancelled,
        differences=[_sentence(each) for each in differences],
        listed=await _listed(connections.pool) if rows else {},
        poison=injector.poison,
        bombs=injector.bombs,
        forged=injector.forged,
        dead_letters=await _dead_letters(connections.log),
        error_lines=error_lines_without_action(environment.logs),
        unexpected=unexpected,
        ledger=await wrong_claims(connections, environment.witness) if rows else (),
    )


async def _log_summary(log: EventLog) -> LogSummary:
    log_reader = LogReader()
    async for records in log.read(topics.EVENTS.name, {}, await log.ends(topics.EVENTS.name)):
        log_reader.read(records)
    return log_reader.summary


async def _dead_letters(log: EventLog) -> dict[RecordPosition, bytes]:
    name, found = topics.DEAD_LETTERS.name, dict[RecordPosition, bytes]()
    async for records in log.read(name, {}, await log.ends(name)):
        for letter in (read_dead_letter(record.value) for record in records):
            found[RecordPosition(letter.topic, letter.partition, letter.offset)] = letter.raw or b""
    return found


async def _listed(pool: Pool) -> Mapping[str, ListedWorkflow]:
    """Return all workflows, read page by page as `poweron workflows` lists them."""
    listed: dict[str, ListedWorkflow] = {}
    page = await reader.workflows(pool, limit=LIST_PAGE)
    while page:
        listed |= {each.workflow_id: ListedWorkflow(each.status, each.current_round) for each in page}
        page = await reader.workflows(pool, limit=LIST_PAGE, before=page[-1].cursor)
    return listed


def _sentence(found: Difference) -> str:
    key = ", ".join(f"{name} {value}" for name, value in found.key.items())
    if found.column is None:
        return f"{found.table} ({key}): the row {'is missing' if found.found is None else 'should not be there'}."
    return f"{found.table} ({key}): {found.column} is {found.found!r}; the log says {found.expected!r}."


def error_lines_without_action(logs: Path) -> list[str]:
    """Return sentences about the error lines that have no code, or the code of a bug."""
    return [
        f"The log {path.name} has the error line {line!r}."
        for path in sorted(logs.glob("*.log"))
        for line in _without_action(path.read_text(encoding="utf-8", errors="replace"))
    ]


def _without_action(log: str) -> Iterator[str]:
    for line in log.splitlines():
        try:
            fields = orjson.loads(line)
        except orjson.JSONDecodeError:
            yield line  # a traceback, or a Python warning
            continue
        event = fields.get("event")
        if fields.get("level") in LEVELS and (event not in LOG_EVENTS or event in UNFORESEEN):
            yield line
