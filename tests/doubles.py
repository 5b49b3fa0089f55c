"""Doubles for stories about workers: Postgres as the fold of the log, processes that die, actions that count.

world = World(actions=[Counting("test.pure")])
async with world.process():
    workflow = await world.ended(await world.ask())
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from builders import requested
from poweron_events import codec, topics
from poweron_events.catalog import ActionSpec
from poweron_events.codec import read_record
from poweron_events.content import ContentStore
from poweron_events.envelope import Recorded, envelop
from poweron_events.errors import Unavailable
from poweron_events.event import Model, Role
from poweron_events.fold.evolve import evolve
from poweron_events.fold.partial import Stub
from poweron_events.fold.state import Verdict, Workflow
from poweron_events.log import Follower, Message, Record
from poweron_events.log.memory import MemoryFollower, MemoryLog
from poweron_events.request import workflow_id
from poweron_events.step_events import ActionResult, EffectClass
from poweron_events.stream import WorkflowEvent
from poweron_services import wiring
from poweron_services.actions.action import Action, Done, Order, ReadDocument, Resources, document
from poweron_services.actions.registry import actions
from poweron_services.connectors.document_reader import DocumentReader
from poweron_services.connectors.report_renderer import ReportRenderer
from poweron_services.connectors.web_access import Web
from poweron_services.decider.approval import EVERYTHING, NEVER, ActionLists, Approval
from poweron_services.fork.forks import Forks
from poweron_services.fork.original import AcceptedEvent
from poweron_services.models.call import Caller
from poweron_services.models.chat_model import ChatModel, NamedModels
from poweron_services.models.prompts import (
    ActionsPrompt,
    MessagePrompt,
    ParametersPrompt,
    PlanningPrompt,
    ProcessPrompt,
    RefinementPrompt,
    ReviewPrompt,
    SelectionPrompt,
)
from poweron_services.models.scripted import ScriptedModel
from poweron_services.roles.action_execution import Execution
from poweron_services.roles.action_secrets import NO_ACTION_SECRETS, ActionSecrets
from poweron_services.roles.executor import Executor
from poweron_services.runtime.daily_use import DailyUse, DayQueries
from poweron_services.runtime.stages import StageFunction
from poweron_services.runtime.worker import Worker
from poweron_services.telemetry import Meter, Sink

EVENTS = topics.EVENTS.name
DEADLINE = 20.0  # seconds
ROLES: frozenset[Role] = frozenset(
    {"planner", "selector", "parameterizer", "executor", "observer", "refiner", "reviewer"}
)
CRITERION = "The total is named"
TASK = {"objective": "Find the total", "successCriteria": [CRITERION], "taskType": "lookup"}


def script(action: str = "test.pure", **changes: Any) -> dict[type, list[Any]]:
    """What a model says in a round of one task with one step; `changes` replace the lines of a stage."""
    lines = {
        "planning": [{"tasks": [TASK]}],
        "actions": [{"actions": [{"action": action, "actionObjective": "Do it"}]}],
        "selection": [{"action": action, "actionObjective": "Do it"}],
        "parameters": [{"schema": "parameters_v1", "parameters": {}}],
        "refinement": [
            {
                "decision": "stop",
                "reason": "It is done.",
                "classification": "success",
                "criteriaProgress": [{"criterion": CRITERION, "met": True, "progress": 1000}],
            }
        ],
        "review": [{"status": "success", "reason": "It is done."}],
        "process": ["The total is 42."],
        "message": ["The total is 42."],
        **changes,
    }
    return {
        PlanningPrompt: lines["planning"],
        ActionsPrompt: lines["actions"],
        SelectionPrompt: lines["selection"],
        ParametersPrompt: lines["parameters"],
        RefinementPrompt: lines["refinement"],
        ReviewPrompt: lines["review"],
        ProcessPrompt: lines["process"],
        MessagePrompt: lines["message"],
    }


class Clock:
    """The time of day, shifted at will."""

    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms

    def __call__(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


# --- actions ------------------------------------------------------------------------------------------


class Nothing(Model):
    """The parameters of an action that needs none."""


@dataclass
class Counting:
    """An action that counts its runs by idempotency key; behind a closed gate it runs until the gate opens."""

    name: str = "test.pure"
    effect_class: EffectClass = "pure"
    gate: asyncio.Event | None = None
    result: Callable[[], Done] = lambda: Done(
        ActionResult(success=True, documents=(document("a.md", "42", "text/markdown"),))
    )
    runs: list[str] = field(default_factory=list)
    running: int = 0
    most_at_once: int = 0
    cancelled: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def spec(self) -> ActionSpec:
        return ActionSpec.of(self.name, Nothing, self.effect_class, 60_000)

    async def __call__(self, order: Order) -> Done:
        self.runs.append(order.idempotency_key)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        self.begun.set()
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self.result()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1


async def our_actions(read: ReadDocument | None = None) -> list[Action]:
    """The actions of the registry, which hold nothing open."""
    resources = Resources(read_document=read or DocumentReader(1), render_report=ReportRenderer())
    async with actions(resources) as known:
        return [*known.values()]


class Away(ContentStore):
    """A store that takes nothing."""

    async def put_all(self, workflow_id: str, contents: Sequence[bytes]) -> Sequence[str]:
        raise Unavailable("The content store did not answer: away")


# --- Postgres -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldedSnapshot:
    offset: int
    workflows: Mapping[str, Workflow]


class FoldedPostgres:
    """What the projector would have written: the full fold of the log, as far as it has come."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.away = False
        self.lagging = False
        self.projected: dict[int, int] = {}
        self.workflows: dict[str, Workflow] = {}
        self.partitions: dict[str, int] = {}
        self.requests: set[tuple[str, str]] = set()  # those that have an answer

    async def project(self, most: int | None = None) -> None:
        """Go on to the end of the log, or by at most so many records of each partition."""
        ends = await self._log.ends(EVENTS)
        stops = {number: min(end, self.projected.get(number, 0) + (most or end)) for number, end in ends.items()}
        async for records in self._log.read(EVENTS, self.projected, stops):
            for record in records:
                self._take(record)
        self.projected = stops

    def _take(self, record: Record) -> None:
        with suppress(codec.Undecodable):
            recorded = read_record(record)
            held = recorded.envelope.workflow_id
            self.workflows[held], verdict = evolve(self.workflows.get(held, Workflow(held)), recorded)
            request = getattr(recorded.envelope.event, "request", None)
            if verdict == "accepted" and request is not None:
                self.requests.add((request.source, request.id))
            self.partitions[held] = record.partition

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("Postgres is away")
        if not self.lagging:
            await self.project()

    async def load(self, partitions: Iterable[int]) -> Mapping[int, FoldedSnapshot]:
        await self._reach()
        return {number: FoldedSnapshot(self.projected.get(number, 0), self._open(number)) for number in partitions}

    def _open(self, number: int) -> Mapping[str, Workflow]:
        return {id_: held for id_, held in self.workflows.items() if held.is_open and self.partitions[id_] == number}

    async def look_up(self, partition: int, workflow_ids: Sequence[str]) -> tuple[int, Mapping[str, Stub]]:
        await self._reach()
        known = [self.workflows[id_] for id_ in workflow_ids if id_ in self.workflows]
        stubs = {held.id: Stub(held.id, held.openings, held.is_open, held.seq, held.last) for held in known}
        return self.projected.get(partition, 0), stubs

    async def positions(self) -> Mapping[int, int]:
        await self._reach()
        return dict(self.projected)

    async def answered(self, source: str, request_id: str) -> bool:
        await self._reach()
        return (source, request_id) in self.requests


WHOLE_LOOP = [
    "WorkflowRequested",
    "TasksPlanned",
    "ActionSelected",
    "ParametersSet",
    "ActionStarted",
    "ActionCompleted",
    "ObservationRecorded",
    "RefinementDecided",
    "TaskReviewed",
    "RoundCompleted",
]
"""What a round of one task with one step is told by."""


# --- processes ----------------------------------------------------------------------------------------


class ProcessLog:
    """The log as one process sees it: it can be cut off, and each append can go wrong on its way."""

    def __init__(self, log: MemoryLog, mishap: Callable[[], str] = lambda: "") -> None:
        self._log = log
        self._mishap = mishap
        self.cut_off = False
        self.followers: list[MemoryFollower] = []

    async def append(self, topic: str, messages: Sequence[Message]) -> Sequence[int]:
        if self.cut_off:
            await asyncio.Event().wait()
        match self._mishap():
            case "lost":
                raise Unavailable("not written")
            case "unknown":
                await self._log.append(topic, messages)
                raise Unavailable("written, but nobody knows")
            case "first only":
                await self._log.append(topic, messages[:1])
                raise Unavailable("the second was not written")
            case "doubled":
                await self._log.append(topic, messages)
        return await self._log.append(topic, messages)

    @asynccontextmanager
    async def follow(self, topic: str, group: str) -> AsyncGenerator[Follower, None]:
        async with self._log.follow(topic, group) as follower:
            self.followers.append(follower)
            yield follower

    async def ends(self, topic: str, at_least: Mapping[int, int] | None = None) -> Mapping[int, int]:
        return await self._log.ends(topic)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


@dataclass
class Process:
    """A worker at work."""

    worker: Worker
    executor: Executor
    log: ProcessLog
    instance: str
    task: asyncio.Task[None] | None = None

    @property
    def serves(self) -> bool:
        return self.task is not None and not self.task.done()

    async def kill(self) -> None:
        """End without a word: nothing is appended any more."""
        self.log.cut_off = True
        await self.stop()

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class World:
    """A log, the rows that follow from it, a content store, a model; processes come and go."""

    def __init__(
        self,
        actions: Iterable[Action] = (),
        lines: Mapping[type, list[Any]] | None = None,
        model: ChatModel | None = None,
        web: Web | None = None,
        named_models: NamedModels | None = None,
    ) -> None:
        self.log = MemoryLog()
        self.postgres = FoldedPostgres(self.log)
        self.content = ContentStore.at("memory:///")
        self.actions = {action.spec.name: action for action in actions}
        self.model: Any = model or ScriptedModel(lines or script(next(iter(self.actions), "test.pure")))
        self.web = web
        self.named_models = named_models
        self.processes: list[Process] = []
        self._folds: dict[str, tuple[Workflow, list[tuple[Recorded, Verdict]], int]] = {}

    def start(
        self,
        roles: frozenset[Role] = ROLES,
        *,
        clock: Clock | None = None,
        concurrency: int = 4,
        mishap: Callable[[], str] = lambda: "",
        stage_functions: Mapping[Role, StageFunction] | None = None,
        spans: Sink | None = None,
        meter: Meter | None = None,
        approval: Approval = NEVER,
        web: Web | None = None,
        lists: ActionLists = EVERYTHING,
        secrets: ActionSecrets = NO_ACTION_SECRETS,
        day: DayQueries | None = None,
    ) -> Process:
        """A process begins to play roles."""
        clock, log = clock or Clock(), ProcessLog(self.log, mishap)
        instance = f"p{len(self.processes)}"
        day_budgets = DailyUse(day, clock) if day else None
        caller = Caller(self.model, self.content, day_budgets=day_budgets, named_models=self.named_models)
        forks = Forks(self, self.content, {name: action.spec for name, action in self.actions.items()})
        execution = Execution(
            actions=self.actions,
            caller=caller,
            content=self.content,
            observes="observer" in roles,
            now_ms=clock,
            approval=approval,
            web=web or self.web,
            lists=lists,
            secrets=secrets,
        )
        executor = Executor(execution, worker=instance, concurrency=concurrency, forks=forks)
        known = {**forks.first(self.stage_functions(caller)), **(stage_functions or {})}
        worker = Worker(
            event_log=log,
            snapshots=self.postgres,
            stage_functions={role: function for role, function in known.items() if role in roles},
            executor=executor if "executor" in roles else None,
            group="+".join(sorted(roles)),
            instance=instance,
            concurrency=concurrency,
            now_ms=clock,
            spans=spans,
            meter=meter,
        )
        process = Process(worker, executor, log, instance, asyncio.create_task(worker.run()))
        self.processes.append(process)
        return process

    def stage_functions(self, caller: Caller) -> dict[Role, StageFunction]:
        specs = {name: action.spec for name, action in self.actions.items()}
        return wiring.stage_functions(caller, self.content, specs)

    @asynccontextmanager
    async def process(self, roles: frozenset[Role] = ROLES, **options: Any) -> AsyncGenerator[Process, None]:
        process = self.start(roles, **options)
        try:
            yield process
        finally:
            await process.stop()

    # --- what upstream does ---------------------------------------------------------------------------

    async def ask(self, request_id: str = "1", **fields: Any) -> str:
        """Open a workflow, as intake would; its id."""
        id_ = workflow_id("/tests", request_id)
        await self.tell(id_, requested(request_id, **{"documents": (), **fields}))
        return id_

    async def tell(self, id_: str, event: WorkflowEvent, source: str = "/poweron/intake/other") -> None:
        """Write an event whose cause nobody asks for."""
        envelope = envelop(event, workflow_id=id_, source=source, time="2026-11-21T00:00:00.000Z")
        await self.log.append(EVENTS, [Message(id_.encode(), codec.encode(envelope))])

    async def accepted_events(self, id_: str) -> list[AcceptedEvent]:
        """What the rows say of a workflow that a fork was made of."""
        return [
            AcceptedEvent(seq, recorded.sha256, recorded.envelope.event)
            for seq, (recorded, verdict) in enumerate(self.records(id_))
            if verdict == "accepted"
        ]

    # --- what came of it ------------------------------------------------------------------------------

    def records(self, id_: str) -> list[tuple[Recorded, Verdict]]:
        """The workflow's records with the verdicts of the full fold."""
        return self.folded(id_)[1]

    def folded(self, id_: str) -> tuple[Workflow, list[tuple[Recorded, Verdict]]]:
        """The full fold of the workflow from the beginning of the log, carried on where it stood last."""
        workflow, judged, position = self._folds.get(id_, (Workflow(id_), [], 0))
        records = self.log._topics[EVENTS][self.log.partition_of(EVENTS, id_.encode())]
        for record in records[position:]:
            with suppress(codec.Undecodable):
                if record.key == id_.encode():
                    recorded = read_record(record)
                    workflow, verdict = evolve(workflow, recorded)
                    judged.append((recorded, verdict))
        self._folds[id_] = (workflow, judged, len(records))
        return workflow, judged

    def accepted(self, id_: str) -> list[Any]:
        """The accepted events of the workflow."""
        return [recorded.envelope.event for recorded, verdict in self.records(id_) if verdict == "accepted"]

    def names(self, id_: str, verdict: Verdict = "accepted") -> list[str]:
        return [type(recorded.envelope.event).__name__ for recorded, found in self.records(id_) if found == verdict]

    async def until(self, id_: str, holds: Callable[[Workflow], bool]) -> Workflow:
        """Wait until the fold of the log says so."""
        async with asyncio.timeout(DEADLINE):
            while True:
                grown = self.log._grown
                workflow, _ = self.folded(id_)
                if holds(workflow):
                    return workflow
                await grown.wait()

    async def ended(self, id_: str) -> Workflow:
        return await self.until(id_, lambda workflow: workflow.phase == "ended")

    async def ended_for_all(self, id_: str) -> Workflow:
        """Wait until the round has ended and every process at work has read so: it tells only what it has read."""
        workflow, number = await self.ended(id_), self.log.partition_of(EVENTS, id_.encode())
        end = (await self.log.ends(EVENTS))[number]
        async with asyncio.timeout(DEADLINE):
            for held in (process.worker._held for process in self.processes if process.serves):
                while held is not None and (partition := held.partitions[number]).position < end:
                    await partition.moved.wait()
        return workflow

    async def phase(self, id_: str, phase: str) -> Workflow:
        return await self.until(id_, lambda workflow: workflow.phase == phase)


async def soon(holds: Callable[[], bool]) -> None:
    """Wait, one turn of the loop after the other, until something in memory holds."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0.001)
